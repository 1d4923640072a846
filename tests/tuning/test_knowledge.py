"""Looking up what was measured: for the kernel's configuration, and for what "auto" takes."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ksmm
from ksmm.functional import choices
from ksmm.implementations import get_implementation
from ksmm.implementations.kept import PackedForMany
from ksmm.reference import to_dense
from ksmm.tuning import Choice, entry, forget, knowledge, known, numbers, write_tuning
from ksmm.tuning.entry import precision_of
from ksmm.tuning.numbers import remembered_numbers
from tests.tuning.conftest import ENTRY, tuning_file
from tests.tuning.conftest import entry as changed

PROBLEM = ((1, 48, 24, 2), torch.float32, "batch_first")


class Numbers(TorchDispatchMode):
    """The configurations that the kernel's operator is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.name() == "ksmm::ks_matmul":
            self.seen.append(args[5] if len(args) > 5 else -1)  # trailing defaults are left out
        return function(*args, **(kwargs or {}))


def numbers_of(*batch_sizes: int, implementation: str = "kernel", layout: str = "batch_first") -> list[int]:
    weight = torch.randn(1, 48, 24, 2)
    with torch.no_grad(), Numbers() as numbers:
        for size in batch_sizes:
            x = torch.randn((size, 48) if layout == "batch_first" else (48, size))
            y = ksmm.ks_matmul(x, weight, layout, implementation)
            dense = x @ to_dense(weight).T if layout == "batch_first" else to_dense(weight) @ x
            torch.testing.assert_close(y, dense, rtol=1e-4, atol=1e-4)
    return numbers.seen


def test_nothing_is_known_without_files(own_file: Path) -> None:
    assert known(*PROBLEM, "", "cpu") == ()
    assert known(*PROBLEM, "compensated", "cuda") == ()
    assert known(*PROBLEM, None, "cpu") == ()
    assert known(*PROBLEM, "", "meta") == ()


def test_an_entry_speaks_for_its_problem_alone(remember: Callable) -> None:
    remember(ENTRY)
    assert known(*PROBLEM, "", "cpu") == (Choice(16, 31, "kernel", "good tile"),)
    assert known((1, 48, 24, 3), torch.float32, "batch_first", "", "cpu") == ()
    assert known((1, 48, 24, 2), torch.float16, "batch_first", "", "cpu") == ()
    assert known((1, 48, 24, 2), torch.float32, "batch_last", "", "cpu") == ()
    assert known(*PROBLEM, "strict", "cpu") == ()


def test_the_users_file_wins_where_both_speak(remember: Callable) -> None:
    shipped = knowledge.SHIPPED / f"{tuning_file().device}.json"
    large = changed(first_batch=32, last_batch=63, batch_size=40, configuration="large tile")
    write_tuning(shipped, tuning_file(changed(configuration="shipped tile"), large))
    remember(ENTRY)
    assert [choice.configuration for choice in known(*PROBLEM, "", "cpu")] == ["large tile", "good tile"]


@pytest.mark.parametrize("content", ["", "{", '{"schema_version": 99}'])
def test_a_broken_file_is_ignored_with_one_warning(own_file: Path, caplog, content: str) -> None:
    own_file.parent.mkdir()
    own_file.write_text(content)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert known(*PROBLEM, "", "cpu") == ()
    (record,) = caplog.records
    assert "mine.json" in record.message
    assert "it is ignored: remove it, or run: python -m ksmm tune" in record.message


def test_a_folder_in_the_files_place_is_ignored_with_a_warning(own_file: Path, caplog) -> None:
    own_file.mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert known(*PROBLEM, "", "cpu") == ()
    (record,) = caplog.records
    assert "mine.json is a folder; name a file in it" in record.message
    assert record.message.endswith("it is ignored")


def test_another_devices_file_is_ignored_with_a_warning(own_file: Path, caplog) -> None:
    write_tuning(own_file, tuning_file(ENTRY, name="Difference Engine"))
    with caplog.at_level(logging.WARNING):
        assert known(*PROBLEM, "", "cpu") == ()
    assert "is of Difference Engine; on" in caplog.text


def test_the_kernel_is_asked_for_the_configuration_of_the_batch_size(remember, fake_configurations) -> None:
    remember(ENTRY, changed(first_batch=64, last_batch=127, batch_size=64, configuration="slow tile"))
    assert numbers_of(15, 16, 20, 31, 32, 63, 64, 127, 128) == [-1, 3, 3, 3, -1, -1, 11, 11, -1]
    assert numbers_of(20, layout="batch_last") == [-1]
    assert numbers_of(20, implementation="auto") == [3]


def test_a_configuration_that_is_no_more_is_left_to_the_cost_model(remember, fake_configurations) -> None:
    remember(changed(configuration="lost tile"))
    assert numbers_of(20) == [-1]
    remember(changed(configuration=None))
    assert numbers_of(20) == [-1]


def test_the_configuration_that_is_used_has_its_name(remember, fake_configurations) -> None:
    remember(ENTRY, changed(first_batch=64, last_batch=127, batch_size=64, configuration="lost tile"))
    kernel = get_implementation("kernel")
    packed = kernel.pack(torch.randn(PROBLEM[0]), "batch_first")
    names = [kernel.configuration_of(packed, torch.randn(size, 48)) for size in (20, 40, 64)]
    assert names == ["good tile", "bad tile", "bad tile"]  # the first of all is the cost model's
    fake_configurations.clear()
    forget()
    assert kernel.configuration_of(packed, torch.randn(20, 48)) == ""


def test_auto_takes_what_was_fastest_for_the_batch_size(remember, needs_kernel) -> None:
    small = changed(implementation="bmm", first_batch=1, last_batch=1, batch_size=1)
    remember(small, changed(implementation="bmm_strided", first_batch=2, last_batch=3, batch_size=2), ENTRY)
    found = choices(*PROBLEM, "cpu", "auto")
    # bmm_strided does not take d = 2 in batch_first
    assert [name for _, _, name in found] == ["kernel", "bmm", "kernel"]
    assert numbers_of(1, 20, implementation="auto") == [-1]
    assert choices(*PROBLEM, "cpu", "auto")[0][2] == "kernel"
    assert choices(*PROBLEM, "cpu", "einsum") == ((0, 2**63 - 1, "einsum"),)


def test_an_implementation_that_nobody_knows_is_left_out(remember, needs_kernel) -> None:
    remember(changed(implementation="abacus"))
    assert choices(*PROBLEM, "cpu", "auto")[0][2] == "kernel"


def test_compiled_with_any_batch_size(remember, fake_configurations) -> None:
    small = changed(implementation="bmm", first_batch=2, last_batch=7, batch_size=4)
    remember(small, ENTRY, changed(first_batch=64, last_batch=127, batch_size=64, configuration="slow tile"))
    weight = torch.randn(1, 48, 24, 2)
    graphs = []

    def backend(graph, inputs):
        nodes = [node for node in graph.graph.nodes if node.target is torch.ops.ksmm.ks_matmul.default]
        graphs.append([node.args[5] for node in nodes])
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(lambda x: ksmm.ks_matmul(x, weight), fullgraph=True, dynamic=True, backend=backend)
    for size in (20, 24, 31, 4, 5, 100, 40, 50, 200):
        x = torch.randn(size, 48)
        torch.testing.assert_close(compiled(x), x @ to_dense(weight).T, rtol=1e-4, atol=1e-4)
    # one graph for each range, and one for each gap between ranges, whatever the batch sizes in them
    assert graphs == [[3], [], [11], [-1], [-1]]


def test_compiled_once_where_nothing_is_known(needs_kernel) -> None:
    weight, graphs = torch.randn(1, 48, 24, 2), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(lambda x: ksmm.ks_matmul(x, weight), fullgraph=True, dynamic=True, backend=backend)
    for size in (20, 4, 100):
        compiled(torch.randn(size, 48))
    assert len(graphs) == 1


def test_a_look_up_reads_no_file_and_calls_little(remember, fake_configurations) -> None:
    remember(ENTRY)
    arguments = ("kernel", *PROBLEM, "cpu", None)
    remembered_numbers(*arguments)
    called = []

    def note(frame, event, function) -> None:
        called.append(function if event == "c_call" else frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        remembered_numbers(*arguments)
    finally:
        sys.setprofile(before)
    assert 1 < len(called) < 60, called  # each takes less than a microsecond, reading a file 20
    assert not {open, os.stat, os.open} & {function for function in called if callable(function)}


def test_nothing_is_remembered_of_tf32() -> None:
    assert precision_of(torch.float32, "cuda") == "compensated"
    assert precision_of(torch.float32, "cuda", strict=True) == "strict"
    assert precision_of(torch.float16, "cuda") == precision_of(torch.float32, "cpu") == ""
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert precision_of(torch.float32, "cuda") is None
        assert precision_of(torch.float32, "cuda", strict=True) == "strict"
        assert precision_of(torch.bfloat16, "cuda") == ""
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def test_an_answer_that_is_kept_is_not_for_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []

    def look_up(kernel, shape, dtype, layout, device_type, index):
        looked_up.append(precision_of(dtype, device_type))
        return () if looked_up[-1] is None else ((8, 15, 3),)

    monkeypatch.setattr(numbers, "remembered_numbers", look_up)
    arguments = ("kernel", torch.Size(PROBLEM[0]), torch.float32, "batch_first", torch.device("cuda", 0))
    assert [numbers.remembered_number(*arguments, size) for size in (8, 8, 15, 16)] == [3, 3, 3, -1]
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert numbers.remembered_number(*arguments, 8) == -1
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert numbers.remembered_number(*arguments, 8) == 3
    assert looked_up == ["compensated"] * 3 + [None]
    forget()
    numbers.remembered_number(*arguments, 8)
    assert len(looked_up) == 5


def test_answers_kept_with_a_weight_are_forgotten_with_the_others_and_in_copies() -> None:
    packed = PackedForMany(ksmm.Pattern(*PROBLEM[0]), "batch_first", torch.empty(PROBLEM[0], dtype=torch.float16))
    numbers.answers_kept_with(packed)[8] = 3
    assert numbers.answers_kept_with(packed) == {8: 3}
    assert numbers.answers_kept_with(copy.deepcopy(packed)) == {}  # as one that comes from another process
    assert numbers.answers_kept_with(pickle.loads(pickle.dumps(packed))) == {}
    forget()
    assert numbers.answers_kept_with(packed) == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_looks_a_number_up_once_for_a_weight_and_batch_size(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    asked = []

    def look_up(kernel, shape, dtype, layout, device, batch_size):
        asked.append((kernel, tuple(shape), dtype, layout, device.type, batch_size))
        return batch_size + 1

    monkeypatch.setattr(sys.modules["ksmm.implementations.kernel"], "remembered_number", look_up)
    kernel = get_implementation("kernel")
    packed = PackedForMany(ksmm.Pattern(*PROBLEM[0]), "batch_last", torch.empty(PROBLEM[0], dtype=dtype), None)
    sizes = (8, 9, 8, 8)
    assert [kernel._configuration(packed, torch.empty(48, size, dtype=dtype)) for size in sizes] == [9, 10, 9, 9]
    problem = ("kernel", PROBLEM[0], dtype, "batch_last", "cpu")
    assert asked == [(*problem, size) for size in (8, 9)]
    forget()
    kernel._configuration(packed, torch.empty(48, 8, dtype=dtype))
    assert asked == [(*problem, size) for size in (8, 9, 8)]


def test_the_kernel_looks_again_where_a_switch_of_pytorch_changes_what_is_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = sys.modules["ksmm.implementations.kernel"]
    found = {"compensated": 3, None: 4}
    now: list[str | None] = []
    monkeypatch.setattr(module, "precision_of", lambda *_: now[-1])
    monkeypatch.setattr(module, "remembered_number", lambda *_: found[now[-1]])
    packed = PackedForMany(ksmm.Pattern(*PROBLEM[0]), "batch_last", torch.empty(PROBLEM[0]), None)
    kernel, x = get_implementation("kernel"), torch.empty(48, 8)
    for precision in ("compensated", None, "compensated", None):
        now.append(precision)
        assert kernel._configuration(packed, x) == found[precision]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_every_configuration_on_the_device_can_be_remembered() -> None:
    from ksmm.measure import provenance
    from ksmm.tuning import TuningFile, user_file
    from ksmm.tuning.numbers import configurations_for

    pattern = ksmm.Pattern(*PROBLEM[0])
    if get_implementation("kernel").supports(ksmm.Problem(pattern, 1, torch.float32, "batch_first", "cuda")):
        pytest.skip("the kernel library is not built for this device")
    problem = ksmm.Problem(pattern, 1024, torch.float32, "batch_first", "cuda")
    slug, name = provenance.device_slug("cuda"), provenance.device_name("cuda")
    x, weight = torch.randn(1024, 48, device="cuda"), torch.randn(1, 48, 24, 2, device="cuda")
    expected = (x.double() @ to_dense(weight.double()).T).float()
    for configuration, number in configurations_for("kernel", problem).items():
        found = changed(precision="compensated", configuration=configuration, first_batch=1024, last_batch=2047)
        entries = [entry.Entry(**{**vars(found), "batch_size": 1024})]
        write_tuning(user_file(slug), TuningFile(slug, name, [{}], entries))
        forget()
        with torch.no_grad(), Numbers() as numbers:
            y = ksmm.ks_matmul(x, weight, implementation="kernel")
        assert numbers.seen == [number]
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
