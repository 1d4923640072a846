import time

import pytest
import torch

from ksmm.measure import timer
from ksmm.measure.protocol import Protocol


class Counter:
    """A product that takes a given time, each run in turn."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.runs = seconds, 0

    def __call__(self) -> None:
        self.runs += 1
        end = time.perf_counter() + self.seconds[self.runs % len(self.seconds)]
        while time.perf_counter() < end:
            pass


def test_the_protocol_is_met_where_there_is_time():
    timing = timer.time_product(Counter(1e-4), Protocol(max_samples=12), "cpu", 1e-4)
    assert 10 <= len(timing.samples_s) <= 12
    assert timing.runs_per_sample == 10
    assert timing.protocol_met
    assert timer.median(timing.samples_s) == pytest.approx(1e-4, rel=0.5)


def test_a_sample_is_the_time_of_one_product_without_the_warm_up():
    product = Counter(1e-4)
    timing = timer.time_product(product, Protocol(min_samples=3, max_samples=3), "cpu", 1e-4)
    assert product.runs == 3 * (10 + timer.TIMER_WARM_UP_RUNS)
    assert len(timing.samples_s) == 3


def test_it_samples_on_while_the_samples_scatter():
    scattered = Protocol(min_samples=3, max_samples=20, runs_per_sample=1, target_relative_iqr=0.01)
    assert len(timer.time_product(Counter(1e-3, 5e-3, 1e-4, 2e-3), scattered, "cpu", 1e-3).samples_s) > 3
    content = Protocol(min_samples=3, max_samples=20, runs_per_sample=1, target_relative_iqr=1e9)
    assert len(timer.time_product(Counter(1e-3, 5e-3, 1e-4, 2e-3), content, "cpu", 1e-3).samples_s) == 3


def test_fewer_runs_where_the_minimum_does_not_fit():
    protocol = Protocol(max_seconds=0.2)
    start = time.perf_counter()
    timing = timer.time_product(Counter(4e-3), protocol, "cpu", 4e-3)
    assert time.perf_counter() - start < 0.3
    assert 1 <= timing.runs_per_sample < 10
    assert not timing.protocol_met


def test_one_sample_of_one_run_at_the_very_least():
    timing = timer.time_product(Counter(0.02), Protocol(max_seconds=0.001), "cpu", 0.02)
    assert (len(timing.samples_s), timing.runs_per_sample, timing.protocol_met) == (1, 1, False)


def test_a_wrong_estimate_does_not_break_the_cap():
    start = time.perf_counter()
    timer.time_product(Counter(5e-3), Protocol(max_seconds=0.1, runs_per_sample=2), "cpu", 1e-9)
    assert time.perf_counter() - start < 0.2


def test_median_and_iqr():
    assert timer.median((1.0, 2.0, 4.0)) == 2.0
    assert timer.interquartile_range((1.0, 2.0, 3.0, 4.0, 5.0)) == 2.0
    assert timer.interquartile_range((3.0,)) == 0.0


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
def test_a_cuda_graph_is_no_slower_than_launching():
    x = torch.randn(64, 64, device="cuda")
    protocol = Protocol(max_seconds=1)
    launched = timer.median(timer.time_product(lambda: x @ x, protocol, "cuda", 1e-5).samples_s)
    replayed = timer.median(timer.time_cuda_graph(lambda: x @ x, protocol, 1e-5).samples_s)
    assert 0 < replayed < 1.5 * launched
