"""Times without the cost of launching, on a simulated GPU: which products have one, and how they come about."""

import dataclasses

import pytest
import torch

from ksmm.measure import timer
from ksmm.measure.bench import Bench
from ksmm.measure.samples import median
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.measure.simulated_device import Replayed, SimulatedGpu

PROBLEM = Problem(Pattern(1, 16, 16, 2), 64, torch.float32, "batch_first", "cuda")


@pytest.fixture
def sampled(quick, monkeypatch):
    """The fields of a measurement on a simulated GPU: sampled(product_s, launch_s, some of the protocol)."""

    def sample(product_s, launch_s=5e-6, **changes):
        gpu = SimulatedGpu(product_s=product_s)
        gpu.launch_s = launch_s
        monkeypatch.setattr("torch.cuda.synchronize", gpu.synchronize)
        monkeypatch.setattr(timer, "clock", gpu.clock)
        monkeypatch.setattr(timer, "captured", lambda run, products: Replayed(gpu, products))
        monkeypatch.setattr(timer, "rest", sample.rests.append)
        monkeypatch.setattr("ksmm.measure.nvidia.device_state", dict)
        protocol = dataclasses.replace(quick, **{"runs_per_sample": 10, "max_seconds": 10.0, **changes})
        return Bench(PROBLEM, protocol)._sampled(gpu.run, max(product_s, launch_s))

    sample.rests = []
    return sample


def test_what_waits_for_launches_has_the_time_of_its_products_too(sampled):
    """As bmm on a slow host: three launches of 33 µs for a product of 12, of which a graph of ten is one launch."""
    values = sampled(12e-6, launch_s=99e-6)
    assert values["median_s"] == pytest.approx(99e-6, rel=0.02)
    assert median(values["cuda_graph_samples_s"]) == pytest.approx(12e-6, rel=0.02)
    assert values["note"] == ""


def test_what_takes_longer_than_its_launches_has_one_time(sampled):
    values = sampled(250e-6, launch_s=99e-6)
    assert values["median_s"] == pytest.approx(250e-6, rel=0.02)
    assert values["cuda_graph_samples_s"] == ()


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_a_gpu_rests_before_a_graph_as_long_as_before_products(sampled, seconds):
    sampled(5e-6, rest_seconds=seconds)
    assert sampled.rests == [seconds, seconds]


def test_a_graph_that_was_replayed_too_seldom_says_so(sampled):
    """A sample of it is three replays, 30 products, where one of the products themselves is 12."""
    values = sampled(12e-6, max_seconds=600e-6)
    assert values["protocol_met"]
    assert values["note"] == "CUDA graph: fewer samples (1) than the protocol asks for"
