"""Tuning: what is measured, remembered, gone on with and left out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

import ksmm
from ksmm.functional import choices
from ksmm.implementations.bmm import Bmm
from ksmm.implementations.kernel import Kernel
from ksmm.measure.bench import Bench, PoisonedDeviceError
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import kernel_hash
from ksmm.tuning import TuningError, contest, known, read_tuning, write_tuning
from ksmm.tuning.contest import NothingToTuneError
from ksmm.tuning.numbers import configurations_for
from ksmm.tuning.tasks import Task, list_tasks
from ksmm.tuning.tuner import tune
from tests.measure.sample_records import measurement
from tests.tuning.conftest import ENTRY, tuning_file

QUICK = Protocol(min_samples=2, max_samples=3, runs_per_sample=2, max_seconds=0.05, max_seconds_per_run=30.0)
PATTERN = ksmm.Pattern(1, 48, 24, 2)


def tasks(*patterns: ksmm.Pattern, batch_sizes=(20,), layouts=("batch_first",)) -> list[Task]:
    return list_tasks(patterns or [PATTERN], "cpu", batch_sizes, ["float32"], layouts)


def test_the_fastest_is_remembered_and_used(fake_configurations, times, own_file) -> None:
    outcome = tune(tasks(batch_sizes=(20, 40)), own_file, protocol=QUICK)
    assert (outcome.measured, outcome.known, outcome.given_up, outcome.left) == (2, 0, 0, 0)
    first, second = read_tuning(own_file).entries
    assert (first.first_batch, first.last_batch, second.first_batch, second.last_batch) == (16, 31, 32, 63)
    assert first.configuration == second.configuration == "good tile"
    assert first.untuned_configuration == "bad tile"
    assert first.untuned == "kernel"
    assert (first.configuration_ms, first.untuned_ms) == (1.0, 7.0)
    assert first.rivals_ms == {"bmm": 2.0, "dense": 3.0}  # bmm_strided does not take d = 2 in batch_first
    assert first.implementation == "kernel"
    assert outcome.ratios == [7.0, 7.0]
    found = known(tuple(PATTERN), torch.float32, "batch_first", "", "cpu")
    assert [choice.configuration for choice in found] == ["good tile"] * 2


@pytest.mark.parametrize(
    ("replayed", "best"), [(("good tile", "bad tile", "slow tile"), "bad tile"), (("bad tile",), "good tile")]
)
def test_cuda_graphs_decide_where_all_have_been_replayed(
    fake_configurations, times, own_file, monkeypatch, replayed: tuple[str, ...], best: str
) -> None:
    graphs = {"kernel good tile": 0.9, "kernel bad tile": 0.5, "kernel slow tile": 0.8}
    measure = Bench.measure

    def with_graphs(self, implementation, part="whole"):
        found = measure(self, implementation, part)
        name = implementation.name
        samples = (graphs[name] / 1e3,) if name.removeprefix("kernel ") in replayed else ()
        return dataclasses.replace(found, cuda_graph_samples_s=samples)

    monkeypatch.setattr(Bench, "measure", with_graphs)
    tune(tasks(), own_file, protocol=QUICK)
    (entry,) = read_tuning(own_file).entries
    assert entry.configuration == best
    assert entry.configuration_ms == times[f"kernel {best}"]


def timed_in_order(monkeypatch, times: dict[str, float], turns: dict[str, list[float]]) -> list[str]:
    """The names of who is timed, which are added as it happens; `turns` has milliseconds for each of one's times."""
    timed: list[str] = []
    measure = Bench.measure

    def noted(self, implementation, part="whole"):
        name = implementation.name
        timed.append(name)
        if name in turns:
            times[name] = turns[name][timed.count(name) - 1]
        return measure(self, implementation, part)

    monkeypatch.setattr(Bench, "measure", noted)
    return timed


def test_who_is_close_to_the_best_is_timed_in_turns(fake_configurations, times, own_file, monkeypatch) -> None:
    turns = {"kernel good tile": [1.0, 1.0, 1.3, 1.2], "kernel slow tile": [1.05, 1.08, 1.1, 1.0]}  # first is a trial
    timed = timed_in_order(monkeypatch, times, turns)
    monkeypatch.setattr(contest, "FINALISTS", 2)
    tune(tasks(), own_file, protocol=QUICK)
    tiles = [name.removeprefix("kernel ") for name in timed[len(fake_configurations) :]]
    turn = ["good tile", "slow tile"]
    assert tiles == ["bad tile", *turn, *reversed(turn), *turn, "bmm_strided", "bmm", "dense"]
    (entry,) = read_tuning(own_file).entries
    assert (entry.configuration, entry.configuration_ms) == ("slow tile", 1.08)


@pytest.mark.parametrize(
    ("untuned", "best"),
    [((1.06, 1.01, 1.07), "bad tile"), ((1.06, 1.04, 1.07), "good tile"), ((0.9, 0.9, 0.9), "bad tile")],
)
def test_the_cost_models_choice_stays_where_another_is_not_surely_faster(
    fake_configurations, times, own_file, monkeypatch, untuned: tuple[float, ...], best: str
) -> None:
    turns = {"kernel bad tile": [1.0, *untuned], "kernel good tile": [1.0, 1.02, 1.0, 1.0]}  # the first is a trial
    timed_in_order(monkeypatch, times, turns)
    monkeypatch.setattr(contest, "FINALISTS", 2)
    tune(tasks(), own_file, protocol=QUICK)
    (entry,) = read_tuning(own_file).entries
    assert entry.configuration == best
    assert entry.untuned_ms == sorted(untuned)[1]


def test_a_rival_that_is_close_to_the_kernel_is_timed_in_turns_with_it(
    needs_kernel, times, own_file, monkeypatch
) -> None:
    turns = {"kernel": [0.9, 1.0, 1.0], "bmm": [0.85, 1.03, 1.01]}  # measured once, bmm would be the choice
    timed = timed_in_order(monkeypatch, times, turns)
    tune(tasks(), own_file, protocol=QUICK)
    assert timed == ["kernel", "bmm_strided", "bmm", "dense", "bmm", "kernel", "kernel", "bmm"]
    (entry,) = read_tuning(own_file).entries
    assert entry.rivals_ms == {"bmm": 1.01, "dense": 3.0}
    assert entry.implementation == "kernel"


@pytest.mark.parametrize(
    ("rival", "kernel", "choice"),
    [((0.92, 0.94, 0.93), (1.0, 0.93, 1.0), "kernel"), ((0.92, 0.94, 0.93), (1.0, 0.95, 1.0), "bmm")],
)
def test_a_rival_is_the_choice_only_where_it_is_faster_at_each_of_their_turns(
    needs_kernel, times, own_file, monkeypatch, rival: tuple, kernel: tuple, choice: str
) -> None:
    timed_in_order(monkeypatch, times, {"kernel": list(kernel), "bmm": list(rival)})
    tune(tasks(), own_file, protocol=QUICK)
    (entry,) = read_tuning(own_file).entries
    assert (entry.implementation, entry.rivals_ms) == (choice, {"bmm": 0.93, "dense": 3.0})


def test_it_says_what_it_was_measured_with(needs_kernel, own_file) -> None:
    tune(tasks(), own_file, protocol=QUICK)
    tuning = read_tuning(own_file)
    (facts,) = tuning.measured_with
    assert facts["torch"] == str(torch.__version__)
    assert len(facts["kernel_hash"]) == 16
    assert facts["protocol"] == QUICK.to_dict()
    assert tuning.entries[0].measured_with == 0
    assert tuning.entries[0].configuration is None


def test_a_busy_gpu_is_waited_for_and_in_the_file(needs_kernel, own_file, monkeypatch) -> None:
    waits = []

    def found(device: str, max_wait_s: float) -> dict[str, float]:
        waits.append((device, max_wait_s))
        return {"waited_s": max_wait_s, "utilisation_percent": 80.0}

    monkeypatch.setattr("ksmm.tuning.tuner.wait_until_idle", found)
    tune(tasks(), own_file, protocol=QUICK, busy_gpu_max_wait_s=3.0)
    assert waits == [("cpu", 3.0)]
    (facts,) = read_tuning(own_file).measured_with
    assert facts["device_busy"] == {"waited_s": 3.0, "utilisation_percent": 80.0}


@pytest.mark.parametrize(("milliseconds", "names"), [(0.9, ["bmm", "kernel"]), (0.99, ["kernel"])])
def test_a_rival_that_is_clearly_faster_becomes_autos_choice(
    needs_kernel, times, own_file, milliseconds: float, names: list[str]
) -> None:
    times["bmm"] = milliseconds
    tune(tasks(), own_file, protocol=QUICK)
    assert read_tuning(own_file).entries[0].implementation == names[0]
    found = choices(tuple(PATTERN), torch.float32, "batch_first", "cpu", "auto")
    assert [name for _, _, name in found] == names


def test_dense_is_autos_choice_for_weights_that_are_packed_once(needs_kernel, times, own_file) -> None:
    times["dense"] = 0.9
    tune(tasks(), own_file, protocol=QUICK)
    (entry,) = read_tuning(own_file).entries
    assert (entry.implementation, entry.rivals_ms) == ("dense", {"bmm": 2.0, "dense": 0.9})
    problem = (tuple(PATTERN), torch.float32, "batch_first", "cpu", "auto")
    assert [name for _, _, name in choices(*problem, for_many=True)] == ["dense", "kernel"]
    assert [name for _, _, name in choices(*problem)] == ["kernel"]  # packing it takes longer than it gains


def test_a_short_first_round_picks_who_is_timed_longer(fake_configurations, times, own_file, monkeypatch) -> None:
    monkeypatch.setattr(contest, "FINALISTS", 2)
    timed = []
    measure = Bench.measure

    def noted(self, implementation, part="whole"):
        timed.append((implementation.name, self.protocol.max_samples))
        return measure(self, implementation, part)

    monkeypatch.setattr(Bench, "measure", noted)
    tune(tasks(), own_file, protocol=QUICK)
    assert timed == [
        *((f"kernel {name}", 1) for name in fake_configurations),
        ("kernel bad tile", 3),  # the cost model's choice, however slow
        ("kernel good tile", 3),
        ("bmm_strided", 3),
        ("bmm", 3),
        ("dense", 3),
    ]
    assert read_tuning(own_file).entries[0].configuration == "good tile"


@pytest.mark.parametrize("fault", ["wrong", "raises"])
def test_a_configuration_that_is_wrong_never_wins(
    fake_configurations, times, own_file, monkeypatch, caplog, fault
) -> None:
    multiply = Kernel.matmul_in

    def spoilt(self, configuration, packed, x):
        if configuration != fake_configurations["good tile"]:
            return multiply(self, configuration, packed, x)
        if fault == "raises":
            raise RuntimeError("no such tile")
        return multiply(self, configuration, packed, x) * 1.01

    monkeypatch.setattr(Kernel, "matmul_in", spoilt)
    tune(tasks(), own_file, protocol=QUICK)
    assert read_tuning(own_file).entries[0].configuration == "bad tile"
    assert "kernel good tile on Problem" in caplog.text


def test_what_was_measured_is_not_measured_again(needs_kernel, own_file) -> None:
    assert tune(tasks(), own_file, protocol=QUICK).measured == 1
    outcome = tune(tasks(batch_sizes=(20, 31, 40)), own_file, protocol=QUICK)
    assert (outcome.measured, outcome.known) == (1, 2)
    assert tune(tasks(), own_file, protocol=QUICK, again=True).measured == 1
    assert tune(tasks(), own_file, protocol=dataclasses.replace(QUICK, seed=1)).measured == 1
    tuning = read_tuning(own_file)
    assert len(tuning.entries) == 2
    assert len(tuning.measured_with) == 2
    for name, value in {"kernel_hash": "of other sources", "cuda_architectures": ["90"]}.items():
        tuning.measured_with[tuning.entries[0].measured_with][name] = value
        write_tuning(own_file, tuning)
        assert tune(tasks(), own_file, protocol=dataclasses.replace(QUICK, seed=1)).measured == 1
        tuning = read_tuning(own_file)


def test_an_interrupted_run_keeps_what_it_measured(needs_kernel, own_file, monkeypatch) -> None:
    run, count = contest.Contest.run, []

    def interrupted(self):
        count.append(1)
        if len(count) == 2:
            raise KeyboardInterrupt
        return run(self)

    monkeypatch.setattr(contest.Contest, "run", interrupted)
    wanted = tasks(PATTERN, ksmm.Pattern(2, 8, 8, 1), ksmm.Pattern(1, 8, 16, 1))
    with pytest.raises(KeyboardInterrupt):
        tune(wanted, own_file, protocol=QUICK)
    assert len(read_tuning(own_file).entries) == 1
    outcome = tune(wanted, own_file, protocol=QUICK)
    assert (outcome.measured, outcome.known) == (2, 1)


def test_no_problem_is_begun_after_the_time_limit(needs_kernel, own_file) -> None:
    outcome = tune(tasks(batch_sizes=(20, 40)), own_file, protocol=QUICK, max_seconds=-1)
    assert (outcome.measured, outcome.left) == (0, 2)
    assert not own_file.exists()


def test_what_poisons_the_device_is_left_out_by_the_next_run(fake_configurations, times, own_file, monkeypatch) -> None:
    measure = Bench.measure

    def poisoned(self, implementation, part="whole"):
        if implementation.name == "kernel good tile":
            raise PoisonedDeviceError(measurement(reason="an illegal memory access"))
        return measure(self, implementation, part)

    monkeypatch.setattr(Bench, "measure", poisoned)
    with pytest.raises(PoisonedDeviceError):
        tune(tasks(), own_file, protocol=QUICK)
    (failure,) = read_tuning(own_file).failures
    assert failure[1:] == ["good tile", "an illegal memory access", kernel_hash()]
    assert tune(tasks(), own_file, protocol=QUICK).measured == 1
    assert read_tuning(own_file).entries[0].configuration == "bad tile"


def test_where_nothing_can_be_timed_nothing_is_remembered(fake_configurations, own_file, monkeypatch, caplog) -> None:
    monkeypatch.setattr(Kernel, "matmul_in", lambda self, configuration, packed, x: x)
    outcome = tune(tasks(), own_file, protocol=QUICK)
    assert (outcome.measured, outcome.given_up) == (0, 1)
    assert "no configuration of the kernel could be timed" in caplog.text


def test_without_a_kernel_there_is_nothing_to_tune(own_file, monkeypatch) -> None:
    monkeypatch.setattr(Kernel, "supports", lambda self, problem: "no compiler")
    with pytest.raises(NothingToTuneError, match="there is nothing to tune: no compiler"):
        tune(tasks(), own_file, protocol=QUICK)


def test_files_that_are_broken_or_anothers_are_not_overwritten(needs_kernel, own_file) -> None:
    write_tuning(own_file, tuning_file(ENTRY, name="Difference Engine"))
    before = own_file.read_bytes()
    with pytest.raises(TuningError, match="is of Difference Engine, and this is"):
        tune(tasks(), own_file, protocol=QUICK)
    assert own_file.read_bytes() == before
    own_file.write_text("{")
    with pytest.raises(TuningError, match="is not whole JSON"):
        tune(tasks(), own_file, protocol=QUICK)
    assert own_file.read_text() == "{"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patterns": []}, "the list of patterns is empty"),
        ({"batch_sizes": [0]}, "batch size is 0; it must be at least 1"),
        ({"dtypes": ["half"]}, "unknown dtype 'half'"),
        ({"layouts": ["last"]}, "unknown layout 'last'"),
        ({"precisions": ["tf32"]}, "unknown precision 'tf32'; choose among compensated, strict"),
    ],
)
def test_bad_lists_are_named(changes, message) -> None:
    arguments = {"patterns": [PATTERN], "batch_sizes": [1], "dtypes": ["float32"], "layouts": ["batch_first"]}
    with pytest.raises(ValueError, match=message):
        list_tasks(device_type="cuda", **{**arguments, **changes})


def test_float32_on_cuda_is_tuned_in_each_precision() -> None:
    found = list_tasks([PATTERN], "cuda", [8], ["float32", "float16"], ["batch_last"])
    assert [str(task) for task in found] == [
        "1,48,24,2 float32 batch_last batch 8 compensated",
        "1,48,24,2 float32 batch_last batch 8 strict",
        "1,48,24,2 float16 batch_last batch 8",
    ]


def test_memory_that_runs_out_all_the_same_is_no_error(fake_configurations, own_file, monkeypatch, caplog) -> None:
    reasons = ["DefaultCPUAllocator: can't allocate memory", "something else"]

    def fails(self):
        raise RuntimeError(reasons[0])

    monkeypatch.setattr(contest.Contest, "run", fails)
    assert tune(tasks(), own_file, protocol=QUICK).given_up == 1
    assert "out of memory (DefaultCPUAllocator: can't" in caplog.text
    del reasons[0]
    with pytest.raises(RuntimeError, match="something else"):
        tune(tasks(), own_file, protocol=QUICK)


def test_rivals_that_cannot_be_timed_are_left_out(needs_kernel, own_file, monkeypatch) -> None:
    monkeypatch.setattr(Bmm, "supports", lambda self, problem: "not today")
    tune(tasks(), own_file, protocol=QUICK)
    assert read_tuning(own_file).entries[0].rivals_ms.keys() == {"dense"}


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tuning_on_the_device(dtype: str, tmp_path: Path) -> None:
    wanted = list_tasks([PATTERN], "cuda", [1024], [dtype], ksmm.LAYOUTS)
    if ksmm.implementations()["kernel"].supports(wanted[0].problem):
        pytest.skip("the kernel library is not built for this device")
    outcome = tune(wanted, tmp_path / "cuda.json", protocol=QUICK)
    assert outcome.measured == len(wanted)
    for found in read_tuning(tmp_path / "cuda.json").entries:
        problem = ksmm.Problem(ksmm.Pattern(*found.pattern), 1024, ksmm.DTYPES[dtype], found.layout, "cuda")
        kernel = "kernel_strict" if found.precision == "strict" else "kernel"
        assert {found.configuration, found.untuned_configuration} <= configurations_for(kernel, problem).keys()
        assert found.untuned_ms > 0 and found.configuration_ms > 0  # which is less is for no test on a busy device
