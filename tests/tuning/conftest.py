"""A tuning file of the present device, made up, and a kernel that has configurations on a CPU, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ksmm import build, tuning
from ksmm.implementations.kernel import Kernel
from ksmm.measure import provenance
from ksmm.measure.bench import Bench
from ksmm.tuning import Entry, TuningFile, knowledge, numbers, write_tuning

ENTRY = Entry(
    pattern=(1, 48, 24, 2),
    first_batch=16,
    last_batch=31,
    batch_size=20,
    dtype="float32",
    layout="batch_first",
    precision="",
    implementation="kernel",
    configuration="good tile",
    configuration_ms=1.0,
    untuned="kernel",
    untuned_configuration="bad tile",
    untuned_ms=1.5,
    rivals_ms={"bmm": 2.0},
    measured_with=0,
)


def entry(**changes: object) -> Entry:
    """ENTRY with some fields changed."""
    return dataclasses.replace(ENTRY, **changes)


def tuning_file(*entries: Entry, name: str | None = None) -> TuningFile:
    """A file of this machine's CPU, or of a device of another name."""
    present = provenance.device_name("cpu")
    return TuningFile(provenance.device_slug("cpu"), name or present, [{"torch": "0"}], list(entries))


@pytest.fixture(autouse=True)
def own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The user's file, which is not there yet, instead of the one of who runs the tests; no file ships."""
    path = tmp_path / "tuned" / "mine.json"
    monkeypatch.setenv(knowledge.FILE_VARIABLE, str(path))
    monkeypatch.setattr(knowledge, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(numbers, "_numbers", {})
    tuning.forget()
    numbers._numbered.cache_clear()
    yield path
    tuning.forget()
    numbers._numbered.cache_clear()


@pytest.fixture
def remember(own_file: Path) -> Callable[..., None]:
    """What writes entries into the user's file."""

    def write(*entries: Entry) -> None:
        write_tuning(own_file, tuning_file(*entries))
        tuning.forget()

    return write


@pytest.fixture
def needs_kernel() -> None:
    """Skips where the kernel library is not built."""
    reason = build.reason_missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def fake_configurations(needs_kernel: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Names and numbers that the kernel has now on a CPU, too, where its operator takes any number."""
    found = {"bad tile": 7, "good tile": 3, "slow tile": 11}
    monkeypatch.setattr(Kernel, "configurations", lambda self, packed, x: dict(found))
    return found


@pytest.fixture
def times(monkeypatch) -> dict[str, float]:
    """Milliseconds that measuring yields, instead of what a busy machine would; results are checked all the same."""
    made_up = {"kernel": 1.0, "kernel good tile": 1.0, "kernel bad tile": 7.0, "kernel slow tile": 11.0}
    made_up |= {"bmm": 2.0, "dense": 3.0}
    measure = Bench.measure

    def timed(self, implementation, part="whole"):
        found = measure(self, implementation, part)
        return dataclasses.replace(found, median_s=found.median_s and made_up[implementation.name] / 1e3)

    monkeypatch.setattr(Bench, "measure", timed)
    return made_up
