"""Every implementation × layout × dtype × device on every kind of pattern, against float64."""

from __future__ import annotations

import pytest
import torch

import ksmm
from ksmm.implementations import Implementation, check_implementation, get_implementation, preference, register
from ksmm.implementations.compressed import unsupported
from ksmm.implementations.kernel import asked_for
from ksmm.reference import reference_matmul, relative_error
from tests.conftest import TOLERANCES

PATTERNS = {
    "dense": (1, 24, 40, 1),
    "low rank": (1, 64, 8, 1),
    "square dyadic, first": (1, 2, 2, 16),
    "square dyadic, middle": (4, 2, 2, 4),
    "square dyadic, last": (16, 2, 2, 1),
    "block butterfly": (2, 32, 32, 4),
    "Monarch, first": (1, 192, 48, 2),
    "Monarch, last": (6, 64, 64, 1),
    "all ones": (1, 1, 1, 1),
    "ragged": (3, 5, 7, 3),
    "ragged, odd d": (2, 40, 56, 5),
    "ragged, c = 1": (2, 9, 1, 3),
    "ragged, b = 1": (2, 1, 9, 3),
    "large a": (200, 4, 3, 2),
    "large d": (2, 3, 4, 100),
    "large d, power of two": (1, 8, 8, 128),
    "b > c": (2, 64, 16, 12),
    "b < c": (2, 16, 64, 7),
}
BATCHES = (1, 33)


@pytest.mark.parametrize("entries", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
@pytest.mark.parametrize("name", ksmm.implementations())
def test_against_float64(
    name: str, layout: str, dtype: torch.dtype, entries: tuple[int, int, int, int], device: str
) -> None:
    pattern = ksmm.Pattern(*entries)
    for batch_size in BATCHES:
        problem = ksmm.Problem(pattern, batch_size, dtype, layout, device)
        x = torch.randn(problem.input_shape, device=device).to(dtype)
        weight = torch.empty(entries, device=device).uniform_(-1, 1).div_(pattern.c**0.5).to(dtype)
        reason = get_implementation(asked_for(name, problem)).supports(problem)
        if reason is not None:
            assert reason
            with pytest.raises(ValueError, match="cannot multiply pattern") as error:
                ksmm.ks_matmul(x, weight, layout, name)
            assert reason in str(error.value)
            continue
        y = ksmm.ks_matmul(x, weight, layout, name)
        assert y.dtype == dtype
        assert y.device == x.device
        assert tuple(y.shape) == problem.output_shape
        error = relative_error(y, reference_matmul(weight, x, layout))
        assert error < TOLERANCES[dtype], f"relative error {error:.2e}"


def test_the_seven_are_there_and_listed_in_order() -> None:
    names = list(ksmm.implementations())
    assert {"dense", "sparse", "bsr", "einsum", "bmm", "bmm_strided", "kernel"} <= set(names)
    assert names == sorted(names)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), None], ids=str)
@pytest.mark.parametrize("device_type", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("layout", ksmm.LAYOUTS)
def test_auto_ends_with_what_takes_every_problem(
    layout: str, dtype: torch.dtype, device_type: str, capability: tuple[int, int] | None, monkeypatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    names = preference(ksmm.Problem(ksmm.Pattern(2, 3, 4, 5), 1, dtype, layout, device_type))
    assert sorted(names) == ["bmm", "bmm_strided", "kernel"]
    assert names[-1] == "bmm"
    slow_kernel = device_type == "cuda" and dtype.itemsize == 2 and layout == "batch_last" and capability != (9, 0)
    assert (names[0] == "bmm_strided") == slow_kernel


def test_bmm_strided_reads_and_writes_views() -> None:
    """It must not permute: no tensor of X's size may be allocated besides Y."""
    pattern = ksmm.Pattern(2, 16, 16, 4)
    x = torch.randn(pattern.columns, 64)
    packed = get_implementation("bmm_strided").pack(torch.randn(pattern.weight_shape), "batch_last")
    with torch.profiler.profile(profile_memory=True) as profile:
        get_implementation("bmm_strided").matmul(packed, x)
    allocated = [e.self_cpu_memory_usage for e in profile.events() if e.self_cpu_memory_usage > 0]
    assert sum(allocated) == pattern.rows * 64 * x.element_size()


def test_bmm_takes_any_a_and_d_and_its_lines_compose() -> None:
    pattern = ksmm.Pattern(3, 4, 5, 6)
    bmm = get_implementation("bmm")
    weight = torch.randn(pattern.weight_shape)
    for layout in ksmm.LAYOUTS:
        x = torch.randn(ksmm.Problem(pattern, 7, torch.float32, layout).input_shape)
        packed = bmm.pack(weight, layout)
        permuted = bmm.permute(packed, x)
        assert permuted.shape == ((18, 7, 5) if layout == "batch_first" else (18, 5, 7))
        y = bmm.permute_back(packed, bmm.multiply(packed, permuted))
        assert torch.equal(y, bmm.matmul(packed, x))


def test_a_trial_that_runs_out_of_memory_is_not_remembered_as_unsupported() -> None:
    def compress(matrix: torch.Tensor) -> torch.Tensor:
        if not calls:
            calls.append(1)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return matrix

    calls: list[int] = []
    with pytest.raises(torch.OutOfMemoryError):
        unsupported(compress, torch.float32, "cpu")
    assert unsupported(compress, torch.float32, "cpu") is None


def test_two_implementations_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two implementations are named 'dense'"):

        @register
        class Again(Implementation):
            name = "dense"

            def supports(self, problem):
                return None

            def pack(self, weight, layout):
                raise AssertionError

            def matmul(self, packed, x):
                raise AssertionError


def test_unknown_implementation_is_named_with_the_choices() -> None:
    for name in ("fast", "auto"):  # one must be named: auto is none of them
        with pytest.raises(ValueError, match=rf"unknown implementation '{name}'; choose one of .*bmm_strided.*sparse$"):
            get_implementation(name)
    with pytest.raises(ValueError, match=r"unknown implementation 'fast'; choose one of .*bmm_strided.* or auto$"):
        check_implementation("fast")
    assert [check_implementation(name) for name in ("auto", "bmm")] == ["auto", "bmm"]
