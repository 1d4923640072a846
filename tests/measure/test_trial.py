"""What is too slow is found on parts of the batch, and neither a compilation nor a disturbance is taken for it."""

import dataclasses

import pytest
import torch

from ksmm.measure.bench import Bench
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.measure.conftest import exact, no_time

PROBLEM = Problem(Pattern(2, 3, 4, 2), 64, torch.float32, "batch_first")
LIMIT = 0.2


@pytest.fixture
def counts():
    """How long the batches were that the product was called with."""
    return []


@pytest.fixture
def measure(plant, quick, clock, counts):
    """Measures a product that takes, by the clock, seconds(x.shape[0], how many calls with as many came before).

    Its implementation has those trial fractions, if they are given.
    """
    protocol = dataclasses.replace(quick, max_seconds_per_run=LIMIT)

    def run(seconds, fractions=None):
        def matmul(packed, x):
            count = x.shape[0]
            clock.now += seconds(count, counts.count(count))
            counts.append(count)
            return exact(packed, x)

        planted = plant("planted", matmul)
        planted.trial_fractions = fractions or planted.trial_fractions
        return Bench(PROBLEM, protocol).measure(planted)

    return run


def test_a_product_that_takes_too_long(measure, counts):
    measurement = measure(lambda count, before: 0.24 if count == 64 else 0.0)
    assert measurement.status == "too_slow"
    assert measurement.reason == "one product on a batch of 64 takes 0.24 s; max_seconds_per_run is 0.2 s"
    assert no_time(measurement)
    assert counts == [1, 8, 64, 64]


def test_one_that_would_take_an_hour_is_stopped_on_part_of_the_batch(measure, counts):
    measurement = measure(lambda count, before: 56.25 * count)
    assert measurement.status == "too_slow"
    assert "on a batch of 1 takes 56.2 s" in measurement.reason
    assert counts == [1]


def test_an_implementation_names_the_parts_of_the_batch_that_are_tried(measure, counts):
    assert measure(lambda count, before: 0.02 * count, fractions=(8,)).status == "too_slow"
    assert counts == [8, 8]


def test_what_an_eighth_takes_says_it_of_the_whole(measure, counts):
    measurement = measure(lambda count, before: 0.02 * count)  # 0.16 s for an eighth, and 1.28 s for all of it
    assert measurement.status == "too_slow"
    assert "on a batch of 8 takes 0.16 s, one of 64 about 1.28 s" in measurement.reason
    assert counts == [1, 8, 8], "a second trial decides, and the whole is not tried"


def test_what_an_eighth_says_of_the_whole_has_a_margin(measure, counts):
    measurement = measure(lambda count, before: 0.03 if count == 8 else 0.0)  # the whole would take 1.2 times the limit
    assert measurement.status == "ok"
    assert counts[:3] == [1, 8, 64]


@pytest.mark.parametrize("count", [1, 8, 64])
def test_a_compilation_for_a_batch_of_this_size_is_no_slow_product(measure, counts, count):
    measurement = measure(lambda size, before: 6.0 if (size, before) == (count, 0) else 0.0)
    assert measurement.status == "ok", measurement.reason
    assert counts.count(count) >= 2


def test_a_compilation_for_the_whole_batch_may_take_long(measure):
    measurement = measure(lambda count, before: 20.0 if (count, before) == (64, 0) else 0.0)
    assert measurement.status == "ok", measurement.reason


@pytest.mark.parametrize("disturbed", [1, 2, 3, 4])
def test_small_disturbances_do_not_make_a_product_too_slow(measure, counts, disturbed):
    # by each of these eighths the whole would take 1.8 times the limit
    measurement = measure(lambda count, before: 0.045 if count == 8 and before < disturbed else 0.0)
    assert measurement.status == "ok", measurement.reason
    assert counts[: disturbed + 3] == [1, *[8] * (disturbed + 1), 64]


def test_five_slow_runs_decide(measure, counts):
    measurement = measure(lambda count, before: 0.032 if count == 8 else 0.0)
    assert measurement.status == "too_slow"
    assert counts == [1, 8, 8, 8, 8, 8]
