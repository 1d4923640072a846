"""The rest of a GPU at its power limit, on a simulated clock."""

import pytest

from ksmm.measure.protocol import Protocol
from ksmm.measure.rest import rest


class Gpu:
    """Power falls by 20 W with each look at it; the clock stands still but for sleep."""

    def __init__(self, power_w, reasons=0):
        self.now, self.power_w, self.reasons = 0.0, power_w, reasons

    def state(self):
        self.power_w -= 20.0
        return {"power_w": self.power_w, "power_limit_w": 700.0, "throttle_reasons": self.reasons}

    def sleep(self, seconds):
        self.now += seconds

    def rest(self, most_s):
        return rest(most_s, self.state, lambda: self.now, self.sleep)


def test_it_rests_until_power_has_fallen():
    gpu = Gpu(600.0)
    assert 0 < gpu.rest(10.0) < 1.0
    assert gpu.power_w <= 0.75 * 700


@pytest.mark.parametrize("reasons", [0x04, 0x08, 0x20, 0x40, 0x80])
def test_it_rests_no_longer_than_it_may_where_it_stays_slow(reasons):
    gpu = Gpu(300.0, reasons)
    assert gpu.rest(0.5) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("reasons", [0, 0x01, 0x02, 0x10])
def test_a_gpu_that_has_power_left_does_not_rest(reasons):
    assert Gpu(300.0, reasons).rest(0.5) == 0.0


def test_none_where_none_is_wanted_or_nothing_is_known():
    assert Gpu(900.0, 0x04).rest(0.0) == 0.0
    assert rest(5.0, dict, lambda: 0.0, pytest.fail) == 0.0
    assert Protocol().rest_seconds == 0.5
