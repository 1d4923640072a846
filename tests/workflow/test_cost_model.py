"""What a scheduler is asked for: minutes that follow what a job measures."""

import math

import pytest

from tests.workflow.test_run_config import preset

import cost_model  # isort: skip - found through conftest

PROTOCOL = preset("default")["protocol"]
SMALL = ["1,48,48,1"]


def minutes(patterns=SMALL, device_type="cuda", batch_size=25088, names=("kernel", "dense"), attempt=1, **changes):
    protocol = {**PROTOCOL, **changes}
    dtypes, layouts = ["float32", "float16"], ["batch_first", "batch_last"]
    return cost_model.timing_minutes(patterns, device_type, batch_size, dtypes, layouts, names, protocol, attempt)


def test_no_number_takes_longer_than_the_protocol_lets_it():
    huge = "1024,1024,1024,64"
    for device_type in ("cpu", "cuda"):
        assert cost_model.number_seconds("sparse", huge, 25088, device_type, {**PROTOCOL, "max_seconds": 7.0}) == 7.0
    numbers = 2 * 2 * 2
    bound = cost_model.START_S + numbers * (cost_model.SET_UP_S + 600)
    assert minutes([huge], max_seconds=600.0) == math.ceil(bound / 60)


def test_small_products_do_not_ask_for_all_that_the_protocol_allows():
    assert minutes(max_seconds=600.0, max_samples=50) < 10
    fast = cost_model.number_seconds("kernel", "1,48,48,1", 25088, "cuda", {**PROTOCOL, "max_seconds": 600.0})
    slow = cost_model.number_seconds("kernel", "1,48,48,64", 25088, "cuda", {**PROTOCOL, "max_seconds": 600.0})
    assert slow == pytest.approx(64 * fast)


def test_dense_multiplies_the_zeros_too():
    protocol = {**PROTOCOL, "max_seconds": 1e9}
    few = cost_model.number_seconds("dense", "1,48,48,1", 512, "cpu", protocol)
    assert cost_model.number_seconds("dense", "4,48,48,2", 512, "cpu", protocol) == pytest.approx(64 * few)


def test_more_patterns_implementations_and_attempts_ask_for_more():
    long = {"max_seconds": 600.0, "max_samples": 50}
    once = minutes(["1,1024,1024,64"], **long)
    assert minutes(["1,1024,1024,64"] * 3, **long) > 2 * once
    assert minutes(["1,1024,1024,64"], names=("kernel", "dense", "sparse"), **long) > once
    assert minutes(["1,1024,1024,64"], attempt=2, **long) >= 2 * once - 1
    assert cost_model.build_minutes("cuda", 2) == 2 * cost_model.build_minutes("cuda")
    assert cost_model.tuning_minutes(3600, PROTOCOL) > 60
    assert cost_model.ceilings_minutes(["float32"]) < cost_model.ceilings_minutes(["float32", "float16", "bfloat16"])
    assert cost_model.ceilings_minutes(["float32"], seconds=600.0) >= 2 * 2 * 600 / 60


def test_bmm_is_measured_twice():
    long = {"max_seconds": 600.0, "max_samples": 50}
    assert minutes(["1,1024,1024,64"], names=("bmm",), **long) > minutes(["1,1024,1024,64"], names=("kernel",), **long)


@pytest.mark.parametrize(
    ("minutes", "members", "cores", "most", "each"),
    [
        (5, 37, 8, None, 5),
        (5, 37, 8, 25, 5),
        (5, 37, 8, 20, 4),
        (5, 37, 1, 60, 1),
        (30, 3, 8, 20, 20),
        (5, 100, 1, 60, 1),
        (5, 0, 8, 60, 5),
    ],
)
def test_members_of_a_group_share_what_a_job_may_ask_for(monkeypatch, minutes, members, cores, most, each):
    if most is None:
        monkeypatch.delenv(cost_model.MOST_MINUTES_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(cost_model.MOST_MINUTES_VARIABLE, str(most))
    assert cost_model.member_minutes(minutes, members, cores) == each
