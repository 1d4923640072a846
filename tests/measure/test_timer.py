import time

import pytest
import torch

from ksmm.measure import timer
from ksmm.measure.protocol import Protocol
from ksmm.measure.samples import interquartile_range, median


class Counter:
    """A product that takes a given time by the clock, each run in turn."""

    def __init__(self, clock, *seconds: float) -> None:
        self.clock, self.seconds, self.runs = clock, seconds, 0

    def __call__(self) -> None:
        self.runs += 1
        self.clock.now += self.seconds[self.runs % len(self.seconds)]


def test_the_protocol_is_met_where_there_is_time(clock):
    timing = timer.time_product(Counter(clock, 1e-4), Protocol(max_samples=12), "cpu", 1e-4)
    assert len(timing.samples_s) == 10
    assert timing.runs_per_sample == 10
    assert timing.protocol_met
    assert median(timing.samples_s) == pytest.approx(1e-4)


def test_a_sample_is_the_time_of_one_product_without_the_warm_up(clock):
    product = Counter(clock, 1e-4)
    timing = timer.time_product(product, Protocol(min_samples=3, max_samples=3), "cpu", 1e-4)
    assert product.runs == 3 * (10 + timer.TIMER_WARM_UP_RUNS)
    assert timing.samples_s == pytest.approx([1e-4] * 3)


@pytest.mark.parametrize(("target", "samples"), [(0.01, 20), (1e9, 3)])
def test_it_samples_on_while_the_samples_scatter(clock, target, samples):
    protocol = Protocol(min_samples=3, max_samples=20, runs_per_sample=1, target_relative_iqr=target)
    timing = timer.time_product(Counter(clock, 1e-3, 5e-3, 1e-4, 2e-3), protocol, "cpu", 1e-3)
    assert len(timing.samples_s) == samples


def test_fewer_runs_where_the_minimum_does_not_fit(clock):
    timing = timer.time_product(Counter(clock, 4e-3), Protocol(max_seconds=0.2), "cpu", 4e-3)
    assert clock.now < 0.2
    assert timing.runs_per_sample == 3  # and two to warm up, ten times
    assert not timing.protocol_met


def test_one_sample_of_one_run_at_the_very_least(clock):
    timing = timer.time_product(Counter(clock, 0.02), Protocol(max_seconds=0.001), "cpu", 0.02)
    assert (len(timing.samples_s), timing.runs_per_sample, timing.protocol_met) == (1, 1, False)


def test_a_wrong_estimate_does_not_break_the_cap(clock):
    timer.time_product(Counter(clock, 5e-3), Protocol(max_seconds=0.1, runs_per_sample=2), "cpu", 1e-9)
    assert clock.now == pytest.approx(0.1)


def test_the_clock_is_that_of_the_machine():
    before = time.perf_counter()
    seconds = timer.seconds_of(lambda: time.sleep(0.01), "cpu")
    assert 0.01 <= seconds <= time.perf_counter() - before


def test_median_and_iqr():
    assert median((1.0, 2.0, 4.0)) == 2.0
    assert interquartile_range((1.0, 2.0, 3.0, 4.0, 5.0)) == 2.0
    assert interquartile_range((3.0,)) == 0.0


def test_strict_precision_restores_what_was_set():
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = True
    try:
        with timer.strict_precision():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.backends.cuda.matmul.allow_tf32
            assert not torch.backends.cudnn.allow_tf32
            assert not torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
            assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.cudnn.allow_tf32
        assert torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_graph_runs_the_product_as_often_as_it_says():
    """Counted by the device, whose clock decides nothing here: a graph in which nothing was captured would be fast."""
    count = torch.zeros((), dtype=torch.int64, device="cuda")
    timer.captured(lambda: count.add_(1), 7, warm_up_runs=3).replay()
    assert count.item() == 3 + 7
    protocol = Protocol(min_samples=4, max_samples=4, runs_per_sample=5, max_seconds=1)
    timing = timer.time_cuda_graph(lambda: count.add_(1), protocol, 1e-5)
    assert len(timing.samples_s) == 4 and min(timing.samples_s) > 0 and timing.runs_per_sample == 5
    assert (count.item() - 10 - 1) % 5 == 0 and count.item() >= 10 + 1 + 4 * 5  # a warm-up, then whole replays
