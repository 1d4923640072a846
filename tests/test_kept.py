"""When something is kept of a packed weight, and when not: by a device that only counts what is made."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
import torch

import ksmm
from ksmm.implementations import Packed, get_implementation, kept
from ksmm.implementations.kept import MOST_KEPT, PackedForMany, choose_and_keep, kept_weight

PATTERN = ksmm.Pattern(1, 8, 8, 2)
MAKES_NOTHING = 7
IS_NOT_TAKEN = 8
CHOSEN = 3


class Maker:
    """Stands for ksmm::keep and a stream."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.waited = 0
        self.captures = False

    def make(self, packed, configuration, x, precision):
        self.made.append(configuration)
        chosen = CHOSEN if configuration in (-1, IS_NOT_TAKEN) else configuration
        return chosen, [] if chosen == MAKES_NOTHING else [torch.full((4,), chosen)]

    def synchronize(self) -> None:
        self.waited += 1


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Maker:
    found = Maker()
    monkeypatch.setattr(kept, "_make", found.make)
    monkeypatch.setattr(kept, "_may_make", lambda x: not found.captures)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: found)
    return found


def packed_weight() -> PackedForMany:
    return PackedForMany(PATTERN, "batch_first", torch.randn(PATTERN.weight_shape))


X = torch.randn(4, 16)


def test_it_is_made_once_for_each_configuration_and_waited_for(maker: Maker) -> None:
    packed = packed_weight()
    for configuration in (5, 6, 5, MAKES_NOTHING, MAKES_NOTHING, 6):
        tensors = kept_weight(packed, configuration, X, "default")
        assert [tensor.tolist() for tensor in tensors] == [[configuration] * 4] * (configuration != MAKES_NOTHING)
    assert maker.made == [5, 6, MAKES_NOTHING]
    assert maker.waited == 2


def test_no_more_than_some_configurations_keep_anything(maker: Maker) -> None:
    packed = packed_weight()
    configurations = range(100, 102 + MOST_KEPT)
    for _ in range(2):  # the others are not made again and again
        found = [len(kept_weight(packed, configuration, X, "default")) for configuration in configurations]
        assert found == [1] * MOST_KEPT + [0, 0]
    assert maker.made == list(configurations)
    assert maker.waited == MOST_KEPT


def test_the_cost_models_choice_is_asked_for_once_for_a_batch_size(maker: Maker) -> None:
    packed = packed_weight()
    assert [choose_and_keep(packed, X, "default") for _ in range(2)] == [CHOSEN] * 2
    assert maker.waited == 1
    assert list(packed.kept) == [CHOSEN]
    assert kept_weight(packed, CHOSEN, X, "default")[0].tolist() == [CHOSEN] * 4
    assert kept_weight(packed, -1, X, "default") == []


@pytest.mark.parametrize("x", [X[:, ::2], torch.randn(65)[1:].view(4, 16), X[:0]], ids=("strides", "offset", "empty"))
def test_x_that_others_may_not_be_like_is_left_to_the_cost_model_each_time(maker: Maker, x: torch.Tensor) -> None:
    packed = packed_weight()
    assert choose_and_keep(packed, x, "default") == -1
    assert kept_weight(packed, 5, x, "default") == []
    assert maker.made == []
    made = kept_weight(packed, 5, X, "default")
    assert kept_weight(packed, 5, x, "default") is made  # the operator takes another configuration then


def test_what_another_configuration_makes_is_not_kept_for_one_that_does_not_take_x(maker: Maker) -> None:
    packed = packed_weight()
    assert [kept_weight(packed, IS_NOT_TAKEN, X, "default") for _ in range(2)] == [[], []]
    assert maker.made == [IS_NOT_TAKEN]
    assert maker.waited == 0


def test_nothing_is_made_in_a_capture_and_what_is_kept_is_used(maker: Maker) -> None:
    packed = packed_weight()
    maker.captures = True
    assert kept_weight(packed, 5, X, "default") == []
    assert choose_and_keep(packed, X, "default") == -1
    maker.captures = False
    made = kept_weight(packed, 5, X, "default")
    maker.captures = True
    assert kept_weight(packed, 5, X, "default") is made
    assert maker.made == [5]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda packed: pickle.loads(pickle.dumps(packed))])
def test_copies_keep_nothing(maker: Maker, copied) -> None:
    packed = packed_weight()
    kept_weight(packed, 5, X, "default")
    other = copied(packed)
    assert other.kept == {}
    assert torch.equal(other.data, packed.data)
    assert (other.pattern, other.layout) == (packed.pattern, packed.layout)
    assert copied(PackedForMany(PATTERN, "batch_first", packed.data, None)).kept is None


def test_the_kernel_multiplies_with_what_is_kept(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def asks(name):
        def operator(x, weight, layout, bias, precision, configuration, *tensors):
            called.append((name, configuration, *(of[0].tolist() for of in tensors)))

        return operator

    kernel = get_implementation("kernel")
    monkeypatch.setattr(sys.modules["ksmm.implementations.kernel"], "remembered_number", lambda *_: -1)
    for name in ("ks_matmul", "ks_matmul_kept"):
        operators = type("Operators", (), {"default": staticmethod(asks(name))})
        monkeypatch.setattr(torch.ops.ksmm, name, operators, raising=False)
    packed = packed_weight()
    for x in (X, X, X[:2]):
        kernel.matmul(packed, x)
    kernel.matmul_in(MAKES_NOTHING, packed, X)
    kernel.matmul_in(5, packed, X)
    kernel.matmul(Packed(PATTERN, "batch_first", packed.data), X)
    chosen = ("ks_matmul_kept", CHOSEN, [CHOSEN] * 4)
    assert called == [chosen] * 3 + [("ks_matmul", MAKES_NOTHING), ("ks_matmul_kept", 5, [5] * 4), ("ks_matmul", -1)]
    assert maker.made == [-1, -1, MAKES_NOTHING, 5]  # one for each batch size


def test_nothing_is_made_of_memory_that_is_not_the_packed_weights_own(kernel_library, maker: Maker) -> None:
    packed = get_implementation("kernel").pack(torch.randn(PATTERN.weight_shape), "batch_first")  # on a CPU
    assert packed.kept is None
    get_implementation("kernel").matmul(packed, X)
    assert maker.made == []


def test_a_chain_keeps_nothing_since_x_is_only_that_of_the_inner_factor(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []
    operators = type("Operators", (), {"default": staticmethod(lambda *of: called.append(of[4:]))})
    monkeypatch.setattr(torch.ops.ksmm, "ks_chain", operators, raising=False)
    monkeypatch.setattr(sys.modules["ksmm.implementations.kernel"], "remembered_number", lambda *of: of[1][1] - 100)
    inner = PackedForMany(ksmm.Pattern(2, 4, 8, 1), "batch_first", torch.randn(2, 4, 8, 1))
    outer = PackedForMany(ksmm.Pattern(1, 6, 4, 2), "batch_first", torch.randn(1, 6, 4, 2))
    get_implementation("kernel").matmul_chain(inner, outer, X)
    assert called == [(6 - 100, 4 - 100, 0)]
    assert maker.made == []
