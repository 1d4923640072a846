import pytest

from ksmm.measure.protocol import Protocol


def test_the_default_is_the_papers():
    assert Protocol().min_samples == 10
    assert Protocol().runs_per_sample == 10


def test_it_survives_a_round_trip():
    protocol = Protocol(max_seconds=1, seed=7)
    assert Protocol.from_mapping(protocol.to_dict()) == protocol


def test_an_unknown_key_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown protocol key 'max_second'; choose among min_samples, .*max_seconds"):
        Protocol.from_mapping({"max_second": 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min_samples", 0),
        ("max_samples", 9),
        ("runs_per_sample", -1),
        ("target_relative_iqr", -0.1),
        ("max_seconds", 0),
        ("max_seconds", float("inf")),
        ("max_seconds", float("nan")),
        ("max_seconds_per_run", -1.0),
        ("rest_seconds", -1.0),
        ("seed", -1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(key, value):
    with pytest.raises(ValueError, match=f"protocol key {key} is .*; it must be"):
        Protocol(**{key: value})


@pytest.mark.parametrize(("key", "value"), [("min_samples", 10.0), ("seed", True), ("max_seconds", "5")])
def test_a_value_of_the_wrong_type_is_refused_by_name(key, value):
    with pytest.raises(TypeError, match=f"protocol key {key} is .*; it must be"):
        Protocol(**{key: value})
