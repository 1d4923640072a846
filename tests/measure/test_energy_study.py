"""Jobs of the energy study: on a simulated counter, and without any."""

import dataclasses
import time

import pytest
import torch

from ksmm.measure import energy, energy_ceilings, energy_study
from ksmm.measure.check import Reference
from ksmm.measure.energy import EnergyMeter
from ksmm.measure.energy_ceilings import measure_energy_ceilings, read_energy_ceilings
from ksmm.measure.energy_counter import Counter, CounterError, NoCounterError
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_study import EnergyBench, EnergyStudy
from ksmm.measure.job import run_job
from ksmm.measure.records import RecordError, read_record, write_record
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.measure.sample_records import energy as sample_energy
from tests.measure.sample_records import measurement, record_content
from tests.measure.simulated_device import SimulatedDevice

PATTERNS = [Pattern(1, 16, 16, 2)]
IDLE_W, LOAD_W = 20.0, 120.0
QUICK_ENERGY = EnergyProtocol(
    samples=3, min_runs=4, max_quantisation=0.5, settle_seconds=0.005, idle_seconds=0.02, seconds_per_pattern=2.0
)


class Wattmeter:
    """A counter that advances every 2 ms by what a real clock says, at IDLE_W, or at LOAD_W while `busy`."""

    def __init__(self):
        self.joules, self.before, self.busy = 100.0, time.perf_counter(), False
        self.shown, self.next = self.joules, self.before

    def read(self):
        now = time.perf_counter()
        self.joules += (now - self.before) * (LOAD_W if self.busy else IDLE_W)
        self.before = now
        if now >= self.next:
            self.shown, self.next = self.joules, now + 2e-3
        return self.shown


@pytest.fixture
def counter(monkeypatch):
    """Both studies read this instead of the machine's own, without warming anything up for long."""
    monkeypatch.setattr(energy, "_WARM_UP_S", 0.01)

    def use(counter):
        def opened(device_type):
            if isinstance(counter, Exception):
                raise counter
            return counter

        monkeypatch.setattr(energy, "open_counter", opened)

    return use


@pytest.fixture
def run(tmp_path, quick):
    def start(names=("bmm", "einsum"), patterns=PATTERNS, **changes):
        record = tmp_path / "records" / "some.json"
        run_job(
            patterns,
            device_type="cpu",
            batch_size=64,
            dtypes=["float32"],
            layouts=["batch_first", "batch_last"],
            implementations=list(names),
            protocol=quick,
            record=record,
            journal=tmp_path / "journal",
            study=EnergyStudy(quick, dataclasses.replace(QUICK_ENERGY, **changes)),
        )
        return read_record(record)

    start.journal = tmp_path / "journal"
    return start


def test_a_record_has_energy_time_and_power_of_the_same_windows(run, counter):
    meter = Wattmeter()
    meter.busy = True  # all the time: power at rest is then that under load
    counter(Counter("wattmeter", meter.read))
    record = run()
    assert record["protocol"]["energy"] == QUICK_ENERGY.to_dict()
    assert len(record["measurements"]) == 4
    for entry in record["measurements"]:
        assert (entry["status"], entry["part"]) == ("ok", "whole")
        reading = entry["energy"]
        assert reading["counter"] == "wattmeter"
        assert reading["power_w"] == pytest.approx(LOAD_W, rel=0.2)
        assert reading["idle_before_w"] == pytest.approx(LOAD_W, rel=0.2)
        assert min(reading["samples_j"]) <= reading["energy_j"] <= max(reading["samples_j"])
        for joules, seconds in zip(reading["samples_j"], entry["samples_s"], strict=True):
            assert joules / seconds == pytest.approx(LOAD_W, rel=0.5)
        assert entry["relative_error"] <= entry["tolerance"]
    assert list(run.journal.iterdir()) == []


def test_without_a_counter_everything_is_skipped_with_the_reason_and_nothing_is_made(run, counter, monkeypatch):
    counter(NoCounterError("no energy counter: there is none"))
    monkeypatch.setattr("ksmm.measure.bench.make_inputs", lambda *arguments: pytest.fail("made"))
    patterns = [Pattern(a, 768, 768, 1) for a in range(1, 20)]
    start = time.monotonic()
    measurements = run(patterns=patterns)["measurements"]
    assert time.monotonic() - start < 10
    assert len(measurements) == 19 * 4
    assert {(m["status"], m["reason"]) for m in measurements} == {("skipped", "no energy counter: there is none")}
    assert not any("energy" in m for m in measurements)


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_counter_that_stands_still_measures_nothing(run, counter, monkeypatch, value):
    monkeypatch.setattr("ksmm.measure.energy._STILL_S", 0.05)
    counter(Counter("still", lambda: value))
    ((status, reason),) = {(m["status"], m["reason"]) for m in run()["measurements"]}
    assert status == "failed"
    fault = "reads 0 J" if not value else "did not advance within 0.05 s"
    assert reason == f"CounterError: the energy counter (still) {fault}"


@pytest.fixture
def odd_bench(quick):
    """A bench whose counter starts again at 1 J, once, in the middle of a load."""
    problem = Problem(PATTERNS[0], 64, torch.float32, "batch_first")

    def make(wraps):
        device = SimulatedDevice()
        study = EnergyStudy(quick, EnergyProtocol())
        counter = Counter("odd", lambda: device.read() - (5050 if device.products > 200 else 0), wraps)
        study.meter = EnergyMeter(counter, EnergyProtocol(), "cpu", device.clock, device.sleep)
        return EnergyBench(problem, quick, Reference(problem), study), device

    return make


def test_a_counter_that_goes_backwards_is_an_error(odd_bench):
    bench, device = odd_bench(wraps=False)
    with pytest.raises(CounterError, match=r"the energy counter \(odd\) went backwards, from 5\d+"):
        bench._sampled(device.run, device.product_s)


def test_one_that_wraps_now_and_then_is_given_a_second_chance(odd_bench):
    bench, device = odd_bench(wraps=True)
    sampled = bench._sampled(device.run, device.product_s)
    assert sampled["energy"]["energy_j"] == pytest.approx(640 * device.product_s, rel=0.02)
    assert sampled["protocol_met"]


def test_a_wrong_product_has_no_energy(run, counter, plant):
    counter(Counter("wattmeter", Wattmeter().read))
    plant("a_wrong", lambda packed, x: x.new_zeros(64, 32) if packed.layout == "batch_first" else x.new_zeros(32, 64))
    assert {m["status"] for m in run(["a_wrong"])["measurements"]} == {"wrong"}


@pytest.fixture
def content():
    return record_content(measurements=[measurement(energy=sample_energy()).to_dict()])


def test_the_record_that_the_next_tests_spoil_is_fine(content, tmp_path):
    write_record(tmp_path / "1x192x48x2.json", content)
    assert read_record(tmp_path / "1x192x48x2.json")["measurements"][0]["energy"]["energy_j"] == 0.06


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"energy_j": 1e9}, "energy_j 1000000000.0 lies outside of its samples"),
        ({"energy_j": 0.0}, "energy_j: 0.0 is less than or equal to the minimum of 0"),
        ({"power_w": 1e6}, r"energy is .* J in all, but power_w × time is"),
        ({"samples_j": [1.0]}, "energy has 1 samples_j and 3 runs for 3 samples_s"),
        ({"quantisation": None}, "quantisation: None is not of type 'number'"),
        ({"samples_j": [-1.0]}, "samples_j"),
    ],
)
def test_a_record_whose_energies_cannot_be_is_refused(content, tmp_path, change, message):
    content["measurements"][0]["energy"] |= change
    write_record(tmp_path / "1x192x48x2.json", content)
    with pytest.raises(RecordError, match=message):
        read_record(tmp_path / "1x192x48x2.json")


def test_a_measurement_that_failed_has_no_energy(content, tmp_path):
    untimed = {"samples_s": [], "runs_per_sample": 0, "median_s": None, "iqr_s": None, "protocol_met": None}
    content["measurements"][0] |= {"status": "failed", "reason": "it did", **untimed}
    write_record(tmp_path / "1x192x48x2.json", content)
    with pytest.raises(RecordError, match="energy"):
        read_record(tmp_path / "1x192x48x2.json")


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


def test_without_a_counter_the_energy_ceilings_say_why(counter, tmp_path):
    counter(NoCounterError("no energy counter: there is none"))
    measure_energy_ceilings("cpu", ["float32"], QUICK_ENERGY, tmp_path / "ceilings.json")
    assert read_energy_ceilings(tmp_path / "ceilings.json") is None
    assert '"reason": "no energy counter: there is none"' in (tmp_path / "ceilings.json").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema_version": 2}', "has schema_version 2, not 1"),
        ('{"schema_version": 1}', "key device.slug is missing"),
        ('{"schema_version": 1, "device": {"slug": "x"}}', "key joules_per_operation is not a table"),
        (
            '{"schema_version": 1, "device": {"slug": "x"}, "joules_per_operation": {}, "idle_w": 0}',
            "key idle_w is not a positive number",
        ),
    ],
)
def test_another_file_than_energy_ceilings_is_refused(text, message, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(RecordError, match=message):
        read_energy_ceilings(tmp_path / "x.json")
