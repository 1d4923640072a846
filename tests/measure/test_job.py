import dataclasses
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import torch

from ksmm.implementations import implementations
from ksmm.measure import bench, job, recording
from ksmm.measure.files import UnwritableFolderError
from ksmm.measure.job import run_job
from ksmm.measure.journal import Journal
from ksmm.measure.records import read_record
from ksmm.patterns import Pattern
from tests.measure.conftest import exact

PATTERNS = [Pattern(1, 4, 3, 2), Pattern(2, 3, 4, 1)]


@pytest.fixture
def run(tmp_path, quick):
    """Runs a job on small problems: run(names, protocol=...); the record's path is run.record."""

    def start(names, patterns=PATTERNS, **changes):
        options = {
            "device_type": "cpu",
            "batch_size": 16,
            "dtypes": ["float32"],
            "layouts": ["batch_first"],
            "protocol": quick,
            "record": start.record,
            "journal": start.journal,
        }
        run_job(patterns, implementations=names, **{**options, **changes})
        return read_record(start.record)["measurements"]

    start.record = tmp_path / "records" / "some.json"
    start.journal = tmp_path / "journal"
    return start


@pytest.fixture
def counted(plant):
    """Plants an implementation that knows how often it was packed, and raises something at the nth time."""

    def register(name, raises_at=None, error=None):
        numbers = itertools.count(1)
        implementation = plant(name)
        implementation.packed = 0
        pack = implementation.pack

        def counting(weight, layout):
            implementation.packed = next(numbers)
            if implementation.packed == raises_at:
                raise error
            return pack(weight, layout)

        implementation.pack = counting
        return implementation

    return register


def test_everything_on_the_list_is_in_the_record(run):
    names = list(implementations())
    measurements = run(names, PATTERNS[:1], layouts=["batch_first", "batch_last"], dtypes=["float32", "bfloat16"])
    found = {(*m["pattern"], m["dtype"], m["layout"], m["implementation"], m["part"]) for m in measurements}
    assert len(found) == len(measurements) == 2 * 2 * (len(names) + 1)  # bmm also in part
    assert {m["status"] for m in measurements} <= {"ok", "skipped"}
    assert {m["implementation"] for m in measurements if m["part"] == "multiplication"} == {"bmm"}


def test_the_record_says_with_what_it_was_measured(run, quick):
    run(["bmm"])
    record = read_record(run.record)
    assert record["job"] == "some"
    assert record["protocol"] == quick.to_dict()
    assert record["device"]["threads"] == torch.get_num_threads()
    assert record["provenance"]["software"]["versions"]["torch"] == torch.__version__
    assert record["provenance"]["duration_s"] > 0
    assert str(run.record.parent) not in run.record.read_text()


def test_the_record_says_that_somebody_else_computed_on_the_device(run, monkeypatch):
    busy = {"waited_s": 600.0, "utilisation_percent": 80.0, "other_processes": 1.0}
    asked = []
    monkeypatch.setattr(recording, "wait_until_idle", lambda device, most: asked.append((device, most)) or busy)
    run(["bmm"], busy_gpu_max_wait_s=600.0)
    assert asked == [("cpu", 600.0)]
    assert read_record(run.record)["provenance"]["device_busy"] == busy


def test_one_that_goes_wrong_does_not_stop_the_others(run, plant):
    plant("a_wrong", lambda packed, x: 2 * exact(packed, x))
    plant("b_raises", lambda packed, x: 1 / 0)
    plant("c_right")
    statuses = {m["implementation"]: m["status"] for m in run(["a_wrong", "b_raises", "c_right"])}
    assert statuses == {"a_wrong": "wrong", "b_raises": "failed", "c_right": "ok"}


def test_an_interrupted_job_measures_only_what_is_missing(run, counted, caplog):
    caplog.set_level(logging.INFO)
    first = counted("a_first")
    second = counted("b_second", raises_at=2, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):  # the fourth measurement: the second one of b_second
        run(["a_first", "b_second"])
    assert (first.packed, second.packed) == (2, 2)
    assert not run.record.exists()
    assert len(list(run.journal.glob("*.json"))) == 3
    measurements = run(["a_first", "b_second"])
    assert (first.packed, second.packed) == (2, 3)
    assert [m["status"] for m in measurements] == ["ok"] * 4
    assert caplog.text.count("measured before") == 3
    assert list(run.journal.iterdir()) == []


def test_the_journal_of_another_job_is_left_alone(run, counted):
    other = counted("a", raises_at=2, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(["a"])
    run(["bmm"])
    assert len(list(run.journal.glob("*.json"))) == 1
    run(["a"])
    assert other.packed == 3


@pytest.mark.parametrize("what", ["protocol", "batch_size", "kernel"])
def test_a_journal_of_something_else_is_not_used(run, counted, quick, monkeypatch, what):
    implementation = counted("a", raises_at=2, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(["a"])
    changes = {}
    if what == "protocol":
        changes = {"protocol": dataclasses.replace(quick, seed=1)}
    elif what == "batch_size":
        changes = {"batch_size": 17}
    else:
        monkeypatch.setattr("ksmm.measure.provenance.kernel_hash", lambda: "another")
    run(["a"], **changes)
    assert implementation.packed == 4


@pytest.mark.parametrize("damage", [lambda text: text[:30], lambda text: "", lambda text: text.replace("ok", "no")])
def test_a_damaged_journal_entry_is_measured_again(run, counted, damage, caplog):
    implementation = counted("a", raises_at=2, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(["a"])
    (entry,) = run.journal.glob("*.json")
    entry.write_text(damage(entry.read_text()))
    run(["a"])
    assert implementation.packed == 4
    assert "measuring again what the journal cannot tell" in caplog.text


def test_a_poisoned_process_journals_what_failed_and_the_next_one_goes_on(run, counted, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)  # so that nobody can be asked
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    poison, right = counted("a_poison", raises_at=1, error=error), counted("b_right")
    with pytest.raises(bench.PoisonedDeviceError):
        run(["a_poison", "b_right"], PATTERNS[:1])
    assert not run.record.exists()
    statuses = [(m["implementation"], m["status"]) for m in run(["a_poison", "b_right"], PATTERNS[:1])]
    assert statuses == [("a_poison", "failed"), ("b_right", "ok")]
    assert (poison.packed, right.packed) == (1, 1)


SCRIPT = textwrap.dedent(
    """
    import os, sys, time
    from pathlib import Path
    from ksmm.implementations.base import REGISTRY
    from ksmm.implementations import implementations
    from ksmm.measure import job, provenance
    from ksmm.measure.protocol import Protocol
    from ksmm.patterns import Pattern

    bmm = type(implementations()["bmm"])

    class Fatal(bmm):
        name = "a_fatal"
        def matmul(self, packed, x):
            if sys.argv[2] == "dies":
                os.abort()
            if sys.argv[2] == "hangs":
                time.sleep(60)
            raise RuntimeError("CUDA error: unspecified launch failure")

    REGISTRY["a_fatal"] = Fatal()
    job.deadline_seconds = lambda protocol: 3.0
    provenance.kernel_hash = lambda: "the same in every try"  # even while somebody edits the sources
    folder = Path(sys.argv[1])
    job.run_job(
        [Pattern(1, 2, 2, 1)], device_type="cpu", batch_size=4, dtypes=["float32"], layouts=["batch_first"],
        implementations=["a_fatal", "bmm"], record=folder / "r" / "x.json", journal=folder / "j",
        protocol=Protocol(min_samples=1, max_samples=1), restart=job.reexecute,
    )
    """
)


def run_script(tmp_path, how):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), how]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def statuses_of(tmp_path):
    measurements = read_record(tmp_path / "r" / "x.json")["measurements"]
    return [(m["implementation"], m["part"], m["status"]) for m in measurements]


def test_a_script_executes_itself_again_until_all_is_measured(tmp_path):
    done = run_script(tmp_path, "poison")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("starting again in a new process") == 1
    assert statuses_of(tmp_path) == [
        ("a_fatal", "whole", "failed"),
        ("a_fatal", "multiplication", "ok"),
        ("bmm", "whole", "ok"),
        ("bmm", "multiplication", "ok"),
    ]


def test_what_never_ends_is_given_up_and_the_rest_is_measured(tmp_path):
    done = run_script(tmp_path, "hangs")
    assert done.returncode == 0, done.stderr
    assert "batch_first a_fatal: not over within 3 s" in done.stderr
    assert [status for *_, status in statuses_of(tmp_path)] == ["too_slow", "ok", "ok", "ok"]
    reason = read_record(tmp_path / "r" / "x.json")["measurements"][0]["reason"]
    assert reason == "not over within 3 s, compilation included"


def test_what_kills_its_process_twice_is_not_tried_a_third_time(tmp_path):
    for _ in range(2):
        assert run_script(tmp_path, "dies").returncode < 0
    assert run_script(tmp_path, "dies").returncode == 0
    assert [status for *_, status in statuses_of(tmp_path)] == ["failed", "ok", "ok", "ok"]
    reason = read_record(tmp_path / "r" / "x.json")["measurements"][0]["reason"]
    assert reason == "it ended the process 2 times (a crash, or the system's memory killer)"
    assert list((tmp_path / "j").iterdir()) == []


def test_a_polite_end_is_no_crash(run, plant):
    def matmul(packed, x):
        os.kill(os.getpid(), signal.SIGTERM)

    plant("a", matmul)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop:
        run(["a"])
    assert stop.value.code == 128 + signal.SIGTERM
    assert list(run.journal.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_log_says_which_and_how_many_are_left(run, caplog):
    caplog.set_level(logging.INFO)
    run(["bmm", "dense"])
    assert "[1/6] 1,4,3,2 float32 batch_first bmm: " in caplog.text
    assert "[2/6] 1,4,3,2 float32 batch_first bmm (multiplication): " in caplog.text
    assert "[6/6] 2,3,4,1 float32 batch_first dense: " in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ["bnm"]}, "unknown implementation 'bnm'; choose one of bmm, "),
        ({"names": []}, "the list of implementations is empty"),
        ({"names": ["bmm"], "patterns": []}, "the list of patterns is empty"),
        ({"names": ["bmm"], "layouts": ["last"]}, "unknown layout 'last'; choose one of batch_first, batch_last"),
        ({"names": ["bmm"], "dtypes": ["half"]}, "unknown dtype 'half'; choose one of float32, "),
        ({"names": ["bmm"], "device_type": "gpu"}, "unknown device 'gpu'; choose cpu or cuda"),
        ({"names": ["bmm"], "batch_size": 0}, "batch size is 0; it must be at least 1"),
    ],
)
def test_bad_input_is_named_before_anything_is_measured(run, changes, message):
    with pytest.raises(ValueError, match=message):
        run(**changes)
    assert not run.record.parent.exists()


def test_an_unwritable_folder_is_named_before_anything_is_measured(run, counted):
    implementation = counted("a")
    run.record.parent.parent.mkdir(exist_ok=True)
    run.record.parent.write_text("a file")
    with pytest.raises(UnwritableFolderError, match=r"cannot be written to .*records: File exists; make it writable"):
        run(["a"])
    assert implementation.packed == 0


def test_the_operands_of_one_problem_are_made_once(run, monkeypatch, plant):
    made = []
    original = bench.make_inputs
    monkeypatch.setattr(bench, "make_inputs", lambda *arguments: made.append(1) or original(*arguments))
    for name in ("a", "b", "c"):
        plant(name)
    run(["a", "b", "c"], layouts=["batch_first", "batch_last"])
    assert len(made) == 2 * 2


def test_what_is_all_skipped_makes_no_operands(run, monkeypatch, plant):
    monkeypatch.setattr(bench, "make_inputs", lambda *arguments: pytest.fail("made"))
    plant("a", supports=lambda problem: "no")
    assert {m["status"] for m in run(["a"])} == {"skipped"}


def test_the_journal_survives_a_round_trip(tmp_path, run):
    run(["bmm"])
    values = read_record(run.record)["measurements"][0]
    measurement = job.Measurement.from_dict(values)
    journal = Journal(tmp_path / "other")
    journal.add({"a": 1}, measurement)
    assert journal.find({"a": 1}).to_dict() == json.loads(json.dumps(values))
    assert journal.find({"a": 2}) is None
    journal.remove([{"a": 1}, {"a": 2}])
    assert journal.find({"a": 1}) is None
