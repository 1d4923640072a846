import pytest
from hypothesis import given
from hypothesis import strategies as st

import ksmm


@pytest.mark.parametrize(
    ("in_features", "out_features", "chain"),
    [
        (1024, 1024, [(1, 128, 128, 8), (8, 128, 128, 1)]),
        (1024, 4096, [(1, 512, 128, 8), (8, 128, 128, 1)]),
        (14336, 4096, [(1, 512, 512, 8), (8, 512, 1792, 1)]),
        (384, 384, [(1, 32, 32, 12), (12, 32, 32, 1)]),
    ],
)
def test_the_chain_of_common_sizes(in_features, out_features, chain):
    assert ksmm.default_chain(in_features, out_features) == ksmm.Chain(chain)


@pytest.mark.parametrize("sizes", [(384, 1000), (1024, 50257), (7, 7), (1, 1), (16, 16)])
def test_no_chain_for_sizes_without_a_common_divisor_that_does(sizes):
    assert ksmm.default_chain(*sizes) is None


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_what_it_promises_holds_for_every_size(in_units, out_units, budget):
    sizes = 8 * in_units, 8 * out_units
    chain = ksmm.default_chain(*sizes, budget)
    if chain is None:
        return
    assert chain.shape == sizes[::-1]
    assert chain.density <= budget
    assert all(side % 16 == 0 for pattern in chain for side in (pattern.b, pattern.c))
    assert chain[1].rows == min(sizes)


def test_a_budget_of_a_half_gives_the_largest_blocks():
    assert ksmm.default_chain(1024, 1024, budget=0.5)[0] == ksmm.Pattern(1, 256, 256, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 4), "in_features is 0"),
        ((4, -1), "out_features is -1"),
        ((4, 4, 0), "budget is 0"),
        ((4, 4, 2), "budget is 2"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ksmm.default_chain(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((384.0, 1536), r"in_features is 384\.0 \(float\); it must be a positive integer"),
        ((1536, "384"), r"out_features is '384' \(str\)"),
        ((True, 384), r"in_features is True \(bool\)"),
    ],
)
def test_sizes_that_are_no_integers_are_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        ksmm.default_chain(*arguments)
