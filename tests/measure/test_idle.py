"""A busy GPU, by an NVML that is pretended: noticed, waited for up to the limit, and in the record."""

import itertools
import os
from types import SimpleNamespace

import pytest

from ksmm.measure import idle, nvidia
from ksmm.measure.lock import GIVEN_BY_SLURM

GPU = "GPU-00000000-aaaa"


class PretendedLibrary:
    """What idle asks of pynvml; utilisations come one after the other, the last one for ever."""

    class NVMLError(Exception):
        pass

    def __init__(self, utilisations, processes=(4711,), silent=()):
        self.utilisations = itertools.chain(utilisations, itertools.repeat(utilisations[-1]))
        self.processes, self.silent = processes, silent

    def answer(self, question, value):
        if question in self.silent:
            raise self.NVMLError
        return value

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return {GPU: "handle"}[uuid]

    def nvmlDeviceGetUtilizationRates(self, handle):
        return self.answer("utilisation", SimpleNamespace(gpu=next(self.utilisations), memory=0))

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self.answer("processes", [SimpleNamespace(pid=pid, usedGpuMemory=1) for pid in self.processes])


@pytest.fixture
def slept(monkeypatch):
    """The clock stands still but for sleeping."""
    waits = []
    monkeypatch.setattr(idle.time, "sleep", waits.append)
    monkeypatch.setattr(idle.time, "monotonic", lambda: sum(waits))
    return waits


def pretend(monkeypatch, *arguments, **more):
    library = PretendedLibrary(*arguments, **more)
    monkeypatch.setattr(nvidia, "management_library", lambda: library)


def test_an_idle_gpu_is_not_waited_for(monkeypatch, slept):
    pretend(monkeypatch, [0])
    found = idle.wait_until_idle(GPU, 600)
    assert found == {"waited_s": 0.0, "utilisation_percent": 0.0, "other_processes": 1.0}
    assert not idle.is_busy(found)
    assert slept == []


def test_one_that_becomes_idle_is_waited_for(monkeypatch, slept, caplog):
    caplog.set_level("INFO")
    pretend(monkeypatch, [97, 97, 50, 0], processes=[4711, 4712, os.getpid()])
    found = idle.wait_until_idle(GPU, 600)
    assert found == {"waited_s": 3.0, "utilisation_percent": 0.0, "other_processes": 2.0}
    assert f"waiting for {GPU}, which computes for somebody else (97 % of the time)" in caplog.text


def test_one_that_stays_busy_is_waited_for_to_the_limit_and_recorded(monkeypatch, slept, caplog):
    pretend(monkeypatch, [80])
    found = idle.wait_until_idle(GPU, 150.5)
    assert found == {"waited_s": 150.5, "utilisation_percent": 80.0, "other_processes": 1.0}
    assert idle.is_busy(found)
    assert f"{GPU} still computes for somebody else after 150 s; measuring all the same" in caplog.text


def test_what_the_library_does_not_tell_is_left_out(monkeypatch, slept):
    pretend(monkeypatch, [80], silent=["processes"])
    assert idle.wait_until_idle(GPU, 0) == {"waited_s": 0.0, "utilisation_percent": 80.0}
    pretend(monkeypatch, [80], silent=["utilisation"])
    assert idle.wait_until_idle(GPU, 600) == {}
    monkeypatch.setattr(nvidia, "management_library", lambda: None)
    assert idle.wait_until_idle(GPU, 600) == {}
    assert slept == []


def test_under_slurm_it_is_the_gpu_of_this_process(monkeypatch, slept):
    pretend(monkeypatch, [80])
    monkeypatch.setattr(nvidia, "current_gpu", lambda: GPU)
    assert idle.is_busy(idle.wait_until_idle(GIVEN_BY_SLURM, 0))
    monkeypatch.setattr(nvidia, "current_gpu", lambda: None)
    assert idle.wait_until_idle(GIVEN_BY_SLURM, 0) == {}


def test_a_cpu_is_never_waited_for(monkeypatch, slept):
    pretend(monkeypatch, [80])
    assert idle.wait_until_idle("cpu", 600) == {}
