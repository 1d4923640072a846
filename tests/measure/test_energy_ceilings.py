"""The ceilings of energy: what a byte and an operation cost on a simulated counter."""

import dataclasses
import json
import runpy
from pathlib import Path

import pytest
import torch

from ksmm.measure import energy, energy_ceilings
from ksmm.measure.ceilings_file import read_energy_ceilings
from ksmm.measure.energy_ceilings import measure_energy_ceilings
from ksmm.measure.energy_counter import Counter, NoCounterError
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_reading import EnergyReading
from ksmm.measure.records import RecordError, checksum
from ksmm.patterns import Pattern
from tests.measure.simulated_device import SimulatedDevice
from tests.measure.simulated_meter import IDLE_W, QUICK_ENERGY, Wattmeter

PATTERNS = [Pattern(1, 16, 16, 2)]


def test_the_rest_of_energy_ceilings_is_the_median_of_those_after_each_load(monkeypatch):
    """That before the first load may be of a device that nobody has used for a while."""

    def reading(before, after):
        return EnergyReading("x", 0.1, (10.0, 10.0), (0.02, 0.02), (20.0, 20.0), before, after, 0.01)

    monkeypatch.setattr(energy_ceilings, "_copy", lambda *arguments: (reading(40.0, 80.0), 1000))
    others = iter([reading(80.0, 81.0), reading(81.0, 90.0)])
    monkeypatch.setattr(energy_ceilings, "_product", lambda *arguments: (next(others), 1000))
    assert energy_ceilings._costs(None, "cpu", ["float32", "float16"])["idle_w"] == 81.0


def test_a_copy_is_charged_to_bytes_read_and_written_and_a_product_to_multiplications_and_additions(monkeypatch):
    """18 J above rest in each window of one run."""
    reading = EnergyReading("x", 0.1, (20.0, 20.0), (0.02, 0.02), (1.0, 1.0), 100.0, 100.0, 0.01)
    source, target = torch.zeros(1000, dtype=torch.uint8), torch.zeros(1000, dtype=torch.uint8)
    ran = []
    monkeypatch.setattr(energy_ceilings, "_reading", lambda meter, run, device_type: ran.append(run()) or reading)
    monkeypatch.setattr(energy_ceilings, "copy_operands", lambda device_type: (source, target))
    monkeypatch.setitem(energy_ceilings.product_operands.__globals__["_LARGEST_SIZE"], "cpu", 64)
    costs = energy_ceilings._costs(None, "cpu", ["float32"])
    assert costs["joules_per_byte"] == pytest.approx(18 / (2 * 1000))
    assert costs["joules_per_operation"] == {"float32": pytest.approx(18 / (2 * 64**3))}
    assert [tuple(result.shape) for result in ran] == [(1000,), (64, 64)]
    assert torch.equal(source, target)


def test_energy_ceilings_are_what_a_byte_and_an_operation_cost_above_rest(counter, tmp_path, monkeypatch):
    meter = Wattmeter()

    def sampled(self, *arguments):
        meter.busy = True
        try:
            return load(self, *arguments)
        finally:
            meter.busy = False

    load = energy.EnergyMeter._under_load
    monkeypatch.setattr(energy.EnergyMeter, "_under_load", sampled)
    small = torch.ones(2**20, dtype=torch.uint8)
    monkeypatch.setattr(energy_ceilings, "copy_operands", lambda device_type: (small, torch.empty_like(small)))
    monkeypatch.setitem(energy_ceilings.product_operands.__globals__["_LARGEST_SIZE"], "cpu", 256)
    counter(Counter("wattmeter", meter.read))
    path = tmp_path / "energy" / "ceilings.json"
    measure_energy_ceilings("cpu", ["float32"], dataclasses.replace(QUICK_ENERGY, max_quantisation=1.0), path)
    ceilings = read_energy_ceilings(path)
    assert ceilings.idle_w == pytest.approx(IDLE_W, rel=0.3)
    assert ceilings.joules_per_byte > 0
    assert set(ceilings.joules_per_operation) == {"float32"}


@pytest.mark.parametrize("broken", ["still", "no load"])
def test_a_counter_that_cannot_be_believed_makes_no_energy_ceilings(counter, tmp_path, monkeypatch, broken):
    """Nothing is written: a file would be kept for ever."""
    if broken == "still":  # a machine that is busy with other things reads a living counter late, too
        monkeypatch.setattr("ksmm.measure.energy._STILL_S", 0.05)
    small = torch.ones(2**20, dtype=torch.uint8)
    monkeypatch.setattr(energy_ceilings, "copy_operands", lambda device_type: (small, torch.empty_like(small)))
    monkeypatch.setattr(EnergyReading, "above_idle_j", -1.0)
    counter(Counter("still", lambda: 5.0) if broken == "still" else Counter("wattmeter", Wattmeter().read))
    message = "did not advance within" if broken == "still" else "no more than rest does"
    script = Path(energy_ceilings.__file__).parents[2] / "workflow" / "scripts" / "measure_energy_ceilings.py"
    record = tmp_path / "ceilings.json"
    options = ["--device-type", "cpu", "--dtypes", "float32", "--record", str(record)]
    quick = ["--energy-protocol", json.dumps(QUICK_ENERGY.to_dict() | {"max_quantisation": 1.0})]
    monkeypatch.setattr("sys.argv", [str(script), *options, *quick])
    monkeypatch.syspath_prepend(script.parent)  # as Python itself has it for a script
    with pytest.raises(SystemExit, match=message):
        runpy.run_path(str(script), run_name="__main__")
    assert not record.exists()


def test_rest_is_that_of_a_device_in_use(counter, monkeypatch):
    """A device draws less than usual at rest until it was used for the first time."""
    device = SimulatedDevice(idle_w=60.0)

    def use(device_type, seconds):
        assert seconds == 0.01
        device.idle_w = 80.0

    monkeypatch.setattr(energy, "warm_up", use)
    monkeypatch.setattr(energy.time, "sleep", device.sleep)
    monkeypatch.setattr(energy.EnergyMeter.__init__, "__defaults__", (device.clock, device.sleep))
    counter(device.counter)
    reading = energy.open_meter("cpu", EnergyProtocol()).measure(device.run, device.product_s, 10.0)
    assert reading.idle_before_w == pytest.approx(80, rel=0.02)


def test_without_a_counter_the_energy_ceilings_say_why(counter, tmp_path):
    counter(NoCounterError("no energy counter: there is none"))
    measure_energy_ceilings("cpu", ["float32"], QUICK_ENERGY, tmp_path / "ceilings.json")
    assert read_energy_ceilings(tmp_path / "ceilings.json") is None
    assert '"reason": "no energy counter: there is none"' in (tmp_path / "ceilings.json").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"schema_version": 2}, "has schema_version 2, not 1"),
        ({"schema_version": 1}, "key device.slug is missing"),
        ({"schema_version": 1, "device": {"slug": "x"}}, "key joules_per_operation is not a table"),
        (
            {"schema_version": 1, "device": {"slug": "x"}, "joules_per_operation": {}, "idle_w": 0},
            "key idle_w is not a positive number",
        ),
    ],
)
def test_another_file_than_energy_ceilings_is_refused(content, message, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(content | {"checksum": checksum(content)}))
    with pytest.raises(RecordError, match=message):
        read_energy_ceilings(tmp_path / "x.json")
