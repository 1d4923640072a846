"""Jobs of the energy study: on a simulated counter, and without any."""

import dataclasses
import time

import pytest
import torch

from ksmm.measure import timer
from ksmm.measure.check import Reference
from ksmm.measure.energy import EnergyMeter
from ksmm.measure.energy_counter import Counter, CounterError, NoCounterError
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_reading import protocol_met
from ksmm.measure.energy_shares import Shares
from ksmm.measure.energy_study import EnergyBench, EnergyStudy
from ksmm.measure.job import run_job
from ksmm.measure.records import RecordError, read_record, write_record
from ksmm.measure.tasks import list_tasks
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.measure.sample_records import energy as sample_energy
from tests.measure.sample_records import measurement, record_content
from tests.measure.simulated_device import Replayed, SimulatedDevice, SimulatedGpu
from tests.measure.simulated_meter import LOAD_W, QUICK_ENERGY, Wattmeter

PATTERNS = [Pattern(1, 16, 16, 2)]


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


def test_a_counter_that_wraps_while_it_is_calibrated_is_asked_again():
    device = SimulatedDevice()
    meter = EnergyMeter(
        Counter("odd", lambda: device.read() - (4990 if device.now > 101 else 0), wraps=True),
        EnergyProtocol(), "cpu", device.clock, device.sleep,
    )  # fmt: skip
    assert meter.period_s == pytest.approx(0.1, rel=0.05)


def test_one_that_wraps_now_and_then_is_given_a_second_chance(odd_bench):
    bench, device = odd_bench(wraps=True)
    sampled = bench._sampled(device.run, device.product_s)
    assert sampled["energy"]["energy_j"] == pytest.approx(640 * device.product_s, rel=0.02)
    assert sampled["protocol_met"]


@pytest.fixture
def gpu_bench(quick, monkeypatch):
    """A bench on a simulated GPU whose products take 20 microseconds, and launching them so long."""

    def make(launch_s):
        gpu = SimulatedGpu(product_s=20e-6)
        gpu.launch_s = launch_s
        monkeypatch.setattr("torch.cuda.Event", gpu.event)
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        monkeypatch.setattr(timer, "captured", lambda run, products: Replayed(gpu, products))
        problem = Problem(PATTERNS[0], 64, torch.float32, "batch_first", "cuda")
        study = EnergyStudy(quick, EnergyProtocol())
        study.meter = EnergyMeter(gpu.counter, EnergyProtocol(), "cuda", gpu.clock, gpu.sleep)
        return EnergyBench(problem, quick, Reference(problem), study), gpu

    return make


def test_products_that_are_quicker_than_their_launches_are_replayed_without_gaps(gpu_bench):
    bench, gpu = gpu_bench(launch_s=100e-6)
    sampled = bench._sampled(gpu.run, gpu.product_s)
    assert sampled["median_s"] == pytest.approx(gpu.product_s, rel=0.02)
    assert sampled["energy"]["energy_j"] == pytest.approx(640 * gpu.product_s, rel=0.02)
    assert sampled["note"].endswith("of a product's time; replayed from a CUDA graph of 100")
    assert sampled["protocol_met"]


def test_those_that_cannot_be_replayed_say_that_the_gpu_waits(gpu_bench, monkeypatch):
    bench, gpu = gpu_bench(launch_s=100e-6)

    def refuse(run, products):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(timer, "captured", refuse)
    sampled = bench._sampled(gpu.run, gpu.product_s)
    assert sampled["median_s"] == pytest.approx(100e-6, rel=0.02)
    assert "the GPU may wait in between; no CUDA graph: operation not permitted" in sampled["note"]
    assert sampled["note"].endswith("; the GPU had nothing to do between some products")


def test_products_that_are_slower_than_their_launches_run_as_they_are(gpu_bench):
    bench, gpu = gpu_bench(launch_s=5e-6)
    gpu.product_s = 200e-6
    assert bench._sampled(gpu.run, gpu.product_s)["note"] == ""
    assert gpu.idle_s < 1e-9 + 20 * gpu.product_s


def test_quick_products_are_replayed_since_a_queue_of_their_launches_is_soon_over(gpu_bench):
    bench, gpu = gpu_bench(launch_s=5e-6)
    note = bench._sampled(gpu.run, gpu.product_s)["note"]
    assert note == "launching takes 25% of a product's time; replayed from a CUDA graph of 100"


def test_the_launches_of_slow_products_are_not_looked_at(gpu_bench, monkeypatch):
    bench, gpu = gpu_bench(launch_s=5e-6)
    gpu.product_s = 0.02
    monkeypatch.setattr(EnergyMeter, "launch_share", lambda self, run: pytest.fail("twenty products for nothing"))
    assert bench._sampled(gpu.run, gpu.product_s)["note"] == ""


def tasks_of(*names, patterns=PATTERNS):
    tasks = list_tasks(patterns, "cpu", 64, ["float32"], ["batch_first"], names)
    return [task for task in tasks if task.part == "whole"]


def test_what_a_measurement_does_not_take_the_others_have():
    tasks = tasks_of("bmm", "einsum", "dense", "sparse")
    shares = Shares(40.0, tasks)
    given = []
    for task, spent in zip(tasks, (4.0, 20.0, 4.0, 0.0), strict=True):
        given.append(shares.seconds(task.problem, task.implementation, 4.0))
        shares.spend(task.problem, spent)
    assert given == [28.0, 28.0, 12.0, 12.0]  # all but the 4 s that each of those after it is likely to need
    assert Shares(40.0, tasks).seconds(tasks[0].problem, tasks[0].implementation, 100.0) == 10.0


def test_what_an_earlier_process_measured_has_used_its_share():
    tasks = tasks_of("bmm", "einsum", "dense", "sparse")
    shares = Shares(40.0, tasks)
    assert shares.seconds(tasks[2].problem, tasks[2].implementation, 100.0) == 10.0
    shares.spend(tasks[2].problem, 2.0)
    assert shares.seconds(tasks[3].problem, tasks[3].implementation, 100.0) == 18.0


def test_a_slow_product_meets_the_protocol_where_quick_ones_leave_it_time(monkeypatch):
    """As much for each as with 18 measurements in 120 s; one takes 16 × 10 × 0.045 s = 7.2 s under load."""
    gpu = SimulatedGpu(product_s=0.045, late_s=0.002)
    monkeypatch.setattr("torch.cuda.Event", gpu.event)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    tasks = tasks_of("einsum", "bmm", "dense", "sparse")
    meter = EnergyMeter(gpu.counter, EnergyProtocol(), "cuda", gpu.clock, gpu.sleep)
    shares = Shares(6.67 * len(tasks), tasks)
    seconds = shares.seconds(tasks[0].problem, tasks[0].implementation, meter.usual_s)
    assert protocol_met(meter.measure(gpu.run, 0.045, seconds), EnergyProtocol())
    assert not protocol_met(meter.measure(gpu.run, 0.045, 6.67), EnergyProtocol())


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
