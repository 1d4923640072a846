"""The energy meter on simulated counters whose true energy is known."""

import itertools
import random

import pytest

from ksmm.measure.energy import EnergyMeter
from ksmm.measure.energy_counter import Counter, CounterError
from ksmm.measure.energy_moments import Advance, moments_of_period, regular_moments
from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.energy_trace import Trace
from tests.measure.simulated_device import SimulatedDevice, SimulatedGpu


def meter_of(device, **protocol):
    return EnergyMeter(device.counter, EnergyProtocol(**protocol), "cpu", device.clock, device.sleep)


def steps(*watts, every_s):
    """Power that goes through the values again and again, each for so long."""
    return lambda moment: watts[int(moment / every_s) % len(watts)]


POWER_TRACES = {
    "steady": lambda moment: 640.0,
    "every 10 ms": steps(700, 500, every_s=0.01),
    "every 37 ms": steps(650, 600, 640, every_s=0.037),
    "every 100 ms": steps(640, 634, every_s=0.1),
}


@pytest.mark.parametrize("load_w", POWER_TRACES.values(), ids=POWER_TRACES)
@pytest.mark.parametrize("late_s", [0.0, 0.01], ids=["prompt", "late"])
def test_the_energy_of_a_known_power_trace(load_w, late_s):
    device = SimulatedDevice(load_w=load_w, late_s=late_s)
    reading = meter_of(device).measure(device.run, device.product_s, 60.0)
    truth = device.product_joules / device.products
    assert reading.energy_j == pytest.approx(truth, rel=0.02)
    assert reading.idle_w == pytest.approx(80, rel=0.02)
    assert reading.above_idle_j == pytest.approx(truth - 80 * device.product_s, rel=0.025)
    assert reading.quantisation <= 0.02
    assert len(reading.samples_j) == 10
    assert min(reading.runs) >= 16


@pytest.mark.parametrize("load_w", POWER_TRACES.values(), ids=POWER_TRACES)
def test_energy_is_mean_power_times_time_in_every_window(load_w):
    device = SimulatedDevice(load_w=load_w)
    reading = meter_of(device).measure(device.run, device.product_s, 60.0)
    truth_w = device.product_joules / (device.products * device.product_s)
    assert reading.power_w == pytest.approx(truth_w, rel=0.02)
    for joules, seconds in zip(reading.samples_j, reading.samples_s, strict=True):
        assert seconds == pytest.approx(device.product_s, rel=0.01)
        assert joules == pytest.approx(truth_w * seconds, rel=0.03)


def test_reading_the_counter_before_and_after_a_short_window_is_wrong_by_far_more():
    """What the meter avoids: 0.2 s of products between two readings wherever the counter happens to be."""
    errors = []
    for seed in range(20):
        device = SimulatedDevice(seed=seed)
        for _ in range(seed):
            device.run()
        before = device.counter.read()
        for _ in range(100):
            device.run()
        errors.append(abs((device.counter.read() - before) / 100 / (640 * device.product_s) - 1))
    assert max(errors) > 0.2


def test_the_counter_is_calibrated_first():
    meter = meter_of(SimulatedDevice())
    assert meter.period_s == pytest.approx(0.1, rel=0.05)
    assert 0 < meter.uncertainty_s < 0.003  # it is asked every millisecond
    late = meter_of(SimulatedDevice(late_s=0.02))
    assert 0.01 < late.uncertainty_s < 0.025
    assert late.window_s == pytest.approx(late.uncertainty_s / 0.02)


def test_a_counter_of_a_cpu_that_advances_every_millisecond():
    device = SimulatedDevice(product_s=0.004, idle_w=30.0, load_w=lambda m: 95.0, period_s=(0.001, 0.001), unit_j=61e-6)
    reading = meter_of(device, idle_seconds=0.2).measure(device.run, device.product_s, 60.0)
    assert reading.energy_j == pytest.approx(95 * 0.004, rel=0.02)
    assert reading.quantisation <= 0.02
    assert len(reading.samples_j) == 10


@pytest.mark.parametrize("product_s", [20e-6, 2e-3, 0.1])
def test_a_gpu_is_never_idle_between_products_and_asked_all_the_time(product_s, monkeypatch):
    gpu = SimulatedGpu(product_s=product_s, late_s=0.002)
    monkeypatch.setattr("torch.cuda.Event", gpu.event)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)  # nothing to wait for but the simulation
    meter = EnergyMeter(gpu.counter, EnergyProtocol(), "cuda", gpu.clock, gpu.sleep)
    reading = meter.measure(gpu.run, product_s, 120.0)
    assert gpu.idle_s < 1e-9
    assert reading.energy_j == pytest.approx(640 * product_s, rel=0.02)
    assert reading.idle_w == pytest.approx(80, rel=0.02)
    for seconds in reading.samples_s:
        assert seconds == pytest.approx(product_s, rel=0.02)
    assert len(reading.samples_j) == 10
    assert min(reading.runs) >= 16
    assert reading.quantisation <= 0.02


@pytest.mark.parametrize("product_s", [20e-6, 2e-3, 0.03])
def test_a_counter_that_keeps_time_and_takes_long_to_answer(product_s, monkeypatch):
    """As NVML's on an H200: it advances every 100 ms, and an answer takes 2 to 20 ms; the GPU must not wait."""
    gpu = SimulatedGpu(
        product_s=product_s, load_w=POWER_TRACES["every 37 ms"], period_s=(0.1, 0.1), poll_s=(2e-3, 0.02)
    )
    monkeypatch.setattr("torch.cuda.Event", gpu.event)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    meter = EnergyMeter(gpu.counter, EnergyProtocol(), "cuda", gpu.clock, gpu.sleep)
    assert meter.period_s == pytest.approx(0.1, rel=1e-3)
    assert meter.uncertainty_s < 1e-3
    start = gpu.now
    reading = meter.measure(gpu.run, product_s, 60.0)
    assert gpu.idle_s < 0.25 * product_s * gpu.products
    for seconds, joules in zip(reading.samples_s, reading.samples_j, strict=True):
        assert seconds == pytest.approx(product_s, rel=0.02)
        assert joules == pytest.approx(630 * product_s, rel=0.06)
    assert reading.energy_j == pytest.approx(630 * product_s, rel=0.02)
    assert len(reading.samples_j) == 10
    assert reading.quantisation <= 0.02
    assert gpu.now - start < 3.5 + 160 * product_s


@pytest.mark.parametrize("product_s", [60e-6, 500e-6])
def test_a_host_that_waits_for_room_in_the_queue_of_launches(product_s, monkeypatch):
    """It cannot ask meanwhile, and knows an advance to a chunk's length only; the period is known from before."""
    gpu = SimulatedGpu(product_s=product_s, period_s=(0.1, 0.1), poll_s=(2e-3, 0.022))
    gpu.queue_depth = 500
    monkeypatch.setattr("torch.cuda.Event", gpu.event)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    meter = EnergyMeter(gpu.counter, EnergyProtocol(), "cuda", gpu.clock, gpu.sleep)
    start = gpu.now
    reading = meter.measure(gpu.run, product_s, 60.0)
    assert gpu.idle_s < 0.01 * product_s * gpu.products and not reading.waited
    assert reading.energy_j == pytest.approx(640 * product_s, rel=0.02)
    for seconds in reading.samples_s:
        assert seconds == pytest.approx(product_s, rel=0.02)
    assert len(reading.samples_j) == 10
    assert reading.quantisation <= 0.02
    assert gpu.now - start < 3.5


def test_an_advance_that_was_late_is_left_out():
    """The counter of an H200 has one now and then."""
    period, moments = 0.1, [100 + 0.1 * place for place in range(20)]
    moments[7] += 0.012
    advances = [Advance(moment - 0.003, moment + 0.002, 60.0 * place) for place, moment in enumerate(moments)]
    found = regular_moments(advances)
    assert found.places == [place for place in range(20) if place != 7]
    assert found.seconds == pytest.approx([moments[place] for place in found.places], abs=3e-3)
    assert found.seconds[-1] - found.seconds[0] == pytest.approx(19 * period, rel=2e-3)
    assert found.uncertainty_s < 4e-4


def test_advances_that_are_known_to_half_a_period_fit_one_that_is_known_from_before():
    generator = random.Random(2)
    moments = [100 + 0.1 * place for place in range(12)]
    for late in (3, 8):
        moments[late] += 0.04
    advances = [
        Advance(moment - (before := generator.uniform(0.002, 0.035)), moment - before + 0.036, 60.0 * place)
        for place, moment in enumerate(moments)
    ]
    found = moments_of_period(advances, 0.1, 2e-4)
    numbers = (found.seconds - found.seconds[0]) / 0.1
    assert numbers == pytest.approx([place - found.places[0] for place in found.places], abs=0.03)
    assert len(found.places) >= 10 and found.uncertainty_s < 2.1e-4
    assert found.seconds == pytest.approx([100 + 0.1 * place for place in found.places], abs=0.036)


@pytest.mark.parametrize("seed", range(5))
def test_what_does_not_fit_the_period_that_is_known_is_not_made_to(seed):
    generator = random.Random(seed)
    moments = list(itertools.accumulate(generator.uniform(0.08, 0.12) for _ in range(15)))
    advances = [Advance(moment - 0.003, moment, 60.0 * place) for place, moment in enumerate(moments)]
    assert moments_of_period(advances, 0.1, 3e-4) is None
    assert moments_of_period(advances[:2], 0.1, 3e-4) is None


def test_a_counter_that_keeps_no_time_is_not_taken_for_one_that_does():
    generator = random.Random(1)
    moments = list(itertools.accumulate(generator.uniform(0.09, 0.109) for _ in range(30)))
    advances = [Advance(moment - 0.001, moment, 60.0 * place) for place, moment in enumerate(moments)]
    assert regular_moments(advances) is None
    assert regular_moments(advances[:4]) is None


def test_a_gpu_that_had_to_wait_is_loaded_anew_with_longer_chunks(monkeypatch):
    """Answers that take far longer than any did during the calibration."""
    gpu = SimulatedGpu(period_s=(0.1, 0.1))
    monkeypatch.setattr("torch.cuda.Event", gpu.event)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    meter = EnergyMeter(gpu.counter, EnergyProtocol(), "cuda", gpu.clock, gpu.sleep)
    gpu.answers_within(0.03, 0.04)
    reading = meter.measure(gpu.run, gpu.product_s, 120.0)
    assert gpu.idle_s > 0 and not reading.waited
    assert reading.energy_j == pytest.approx(640 * gpu.product_s, rel=0.02)
    for seconds in reading.samples_s:
        assert seconds == pytest.approx(gpu.product_s, rel=0.02)


@pytest.mark.parametrize("product_s", [20e-6, 0.5])
def test_quick_and_slow_products(product_s):
    device = SimulatedDevice(product_s=product_s)
    reading = meter_of(device, samples=3).measure(device.run, product_s, 300.0)
    assert reading.energy_j == pytest.approx(640 * product_s, rel=0.02)
    assert min(reading.runs) >= 16


def test_a_bound_on_time_is_kept_with_fewer_windows_and_says_so():
    device = SimulatedDevice(late_s=0.01)
    meter = meter_of(device)
    start = device.now
    reading = meter.measure(device.run, device.product_s, 5.0)
    assert device.now - start < 5.5
    assert 1 <= len(reading.samples_j) < 10
    assert reading.quantisation <= 0.02
    start = device.now
    reading = meter.measure(device.run, device.product_s, 0.01)
    assert device.now - start < 3
    assert len(reading.samples_j) == 1
    assert reading.quantisation <= 0.02


def test_a_product_too_slow_for_its_time_has_one_window_of_fewer_runs():
    device = SimulatedDevice(product_s=2.0)
    start = device.now
    reading = meter_of(device).measure(device.run, device.product_s, 5.0)
    assert device.now - start < 60
    assert len(reading.samples_j) == 1
    assert reading.energy_j == pytest.approx(640 * 2.0, rel=0.02)


def test_a_window_that_is_too_short_says_how_uncertain_it_is():
    device = SimulatedDevice(late_s=0.09)
    meter = meter_of(device, samples=1, max_quantisation=0.5)
    reading = meter.measure(device.run, device.product_s, 0.01)
    assert 0.02 < reading.quantisation <= 0.5
    assert reading.energy_j == pytest.approx(640 * device.product_s, rel=reading.quantisation)


def test_the_rest_after_one_product_is_the_rest_before_the_next():
    device = SimulatedDevice()
    meter = meter_of(device)
    first = meter.measure(device.run, device.product_s, 10.0)
    device.idle_w = 120.0
    second = meter.measure(device.run, device.product_s, 10.0)
    assert second.idle_before_w == first.idle_after_w
    assert second.idle_after_w == pytest.approx(120, rel=0.02)
    assert second.idle_w == pytest.approx(100, rel=0.02)


def test_what_draws_no_more_than_rest_has_nothing_above_it():
    device = SimulatedDevice(load_w=lambda moment: 79.0)
    reading = meter_of(device).measure(device.run, device.product_s, 10.0)
    assert reading.above_idle_j < 0 < reading.energy_j


def spoilt(device, spoil):
    """The device's counter from some question on as `spoil` makes it."""
    numbers = itertools.count()
    read = device.counter.read
    return Counter("spoilt", lambda: spoil(read()) if next(numbers) > 200 else read())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda joules: 0.0, "reads 0 J"),
        (lambda joules: -1.0, "reads -1 J"),
        (lambda joules: joules - 4990, "went backwards, from 50"),
        (lambda joules: 1e6, "did not advance within"),
    ],
)
def test_a_counter_that_cannot_be_believed_is_an_error(spoil, message):
    device = SimulatedDevice()
    counter = spoilt(device, spoil)
    with pytest.raises(CounterError, match=message):
        EnergyMeter(counter, EnergyProtocol(), "cpu", device.clock, device.sleep).measure(device.run, 0.002, 10.0)


def test_a_counter_that_stands_still_is_an_error_from_the_start():
    device = SimulatedDevice()
    with pytest.raises(CounterError, match=r"\(still\) did not advance within 2 s"):
        EnergyMeter(Counter("still", lambda: 5.0), EnergyProtocol(), "cpu", device.clock, device.sleep)


def test_a_trace_without_products_has_windows_without_any():
    device = SimulatedDevice()
    trace = Trace(device.counter, device.clock)
    while device.now < 101:
        trace.poll()
        device.sleep(0.001)
    assert [window.runs for window in trace.windows(0.2)] == [0.0] * len(trace.windows(0.2))
    assert trace.whole().joules / trace.whole().seconds == pytest.approx(80, rel=0.02)
    assert trace.windows(0.2, most=1) == trace.windows(0.2)[:1]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"samples": 0}, ValueError, "energy protocol key samples is 0; it must be at least 1"),
        ({"min_runs": 1.5}, TypeError, r"energy protocol key min_runs is 1.5 \(float\); it must be an integer"),
        ({"max_quantisation": 0}, ValueError, "max_quantisation is 0; it must be above 0"),
        ({"seconds_per_pattern": -1}, ValueError, "seconds_per_pattern is -1; it must be a positive number"),
        ({"idle_seconds": float("inf")}, ValueError, "idle_seconds is inf; it must be at least 0"),
        ({"sample": 3}, ValueError, "unknown energy protocol key 'sample'; choose among samples, "),
    ],
)
def test_a_wrong_protocol_is_named(changes, error, message):
    with pytest.raises(error, match=message):
        EnergyProtocol.from_mapping(changes)


def test_the_papers_protocol_is_the_default():
    assert EnergyProtocol.from_mapping({}) == EnergyProtocol(samples=10, min_runs=16, max_quantisation=0.02)
