"""Tuning goes on after a configuration that ends the process or never ends, and leaves it out, as long as it is the
same kernel."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading

import pytest

from ksmm.measure.bench import Bench
from ksmm.tuning import contest, read_tuning, tuner, watch
from ksmm.tuning.tuner import tune
from tests.tuning.conftest import tuning_file
from tests.tuning.test_tuner import QUICK, tasks

PROBLEM = "1,48,24,2 float32 batch_first batch 20"


class Ended(BaseException):
    """The process is gone: nothing after it happens."""


@pytest.fixture
def _ends_with(monkeypatch, request):
    """Measuring one configuration ends the process, without a word."""
    measure = Bench.measure

    def ended(self, implementation, part="whole"):
        if implementation.name == request.param:
            raise Ended
        return measure(self, implementation, part)

    monkeypatch.setattr(Bench, "measure", ended)
    monkeypatch.setattr(watch.Watch, "_write_note", _noting(watch.Watch._write_note))


def _noting(write):
    """What writes the note, but not where a process that is gone would not have."""

    def noted(self, ended):
        if not isinstance(sys.exc_info()[1], Ended):
            write(self, ended)

    return noted


@pytest.mark.parametrize("_ends_with", ["kernel good tile", "kernel bad tile", "bmm"], indirect=True)
@pytest.mark.usefixtures("_ends_with", "times")
def test_who_ends_the_process_twice_is_left_out(fake_configurations, own_file, request, caplog) -> None:
    name = request.node.callspec.params["_ends_with"].removeprefix("kernel ")
    for _ in range(2):
        with pytest.raises(Ended):
            tune(tasks(), own_file, protocol=QUICK)
    assert tune(tasks(), own_file, protocol=QUICK).measured == 1
    tuning = read_tuning(own_file)
    ((problem, failed, reason, _),) = tuning.failures
    assert (problem, failed, reason) == (PROBLEM, name, "it ended the process 2 times")
    assert f"{name} on {PROBLEM} is left out from now on" in caplog.text
    (entry,) = tuning.entries
    assert entry.configuration == ("good tile" if name != "good tile" else "bad tile")
    assert (entry.untuned_configuration == "bad tile") == (name != "bad tile")  # the cost model's choice
    assert list(own_file.parent.glob(".*running")) == []


@pytest.mark.parametrize("by", ["Ctrl-C", "a scheduler"])
@pytest.mark.usefixtures("times")
def test_an_interruption_is_nobodys_fault(fake_configurations, own_file, monkeypatch, by: str) -> None:
    def interrupted(self, implementation, part="whole"):
        if by == "a scheduler":
            signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt  # not by SIGINT, which a process in the background may have to ignore

    with monkeypatch.context() as patch:
        patch.setattr(Bench, "measure", interrupted)
        for _ in range(3):
            with pytest.raises((KeyboardInterrupt, SystemExit)):
                tune(tasks(), own_file, protocol=QUICK)
    assert tune(tasks(), own_file, protocol=QUICK).measured == 1
    assert read_tuning(own_file).failures == []


@pytest.mark.usefixtures("times")
def test_what_failed_with_another_kernel_is_tried_again(fake_configurations, own_file, monkeypatch) -> None:
    def excluded():
        found = []
        make = contest.Contest.__init__

        def noted(self, *arguments):
            found.append(set(arguments[4]))
            make(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(tuner.Contest, "__init__", noted)
            tune(tasks(), own_file, protocol=QUICK, again=True)
        return found

    def failed(kernel):
        own_file.unlink(missing_ok=True)
        tune(tasks(), own_file, protocol=QUICK)
        tuning = read_tuning(own_file)
        tuning.failures = [
            [PROBLEM, "good tile", "an illegal address", kernel or tuning.measured_with[0]["kernel_hash"]]
        ]
        watch.write_tuning(own_file, tuning)

    failed("")
    assert excluded() == [{"good tile"}]
    failed("of other sources")
    assert excluded() == [set()]


@pytest.mark.usefixtures("times")
def test_crashes_of_another_kernel_do_not_count(fake_configurations, own_file) -> None:
    """Nor do those of a note that was cut off."""
    note = own_file.with_name(f".{own_file.name}.running")
    note.parent.mkdir(exist_ok=True)
    for content in (json.dumps([[PROBLEM, "good tile", 5, "of other sources"]]), '[["a'):
        note.write_text(content)
        tune(tasks(), own_file, protocol=QUICK, again=True)
        tuning = read_tuning(own_file)
        assert tuning.failures == [] and tuning.entries[0].configuration == "good tile"
        assert not note.exists()


def test_who_never_ends_is_given_up_for_lost(tmp_path, caplog) -> None:
    """By a process that starts again, and finds it left out."""
    caplog.set_level(logging.ERROR)
    restarted = threading.Event()
    tuning = tuning_file()
    watched = watch.Watch(tmp_path / "tuned.json", tuning, "0123", 0.01, restarted.set)
    with watched.running(PROBLEM, "good tile"):
        assert restarted.wait(30)
    assert read_tuning(tmp_path / "tuned.json").failures == [[PROBLEM, "good tile", "not over within 0.01 s", "0123"]]
    assert watch.Watch(tmp_path / "tuned.json", tuning, "0123", 60.0, None).excluded(PROBLEM) == {"good tile"}
    assert watch.Watch(tmp_path / "tuned.json", tuning, "0123", 60.0, None).excluded("another problem") == set()
