"""The paper's lists, and samples of them."""

from __future__ import annotations

import collections
import itertools

import pytest

import ksmm
from ksmm.pattern_lists import stratified_sample

LIMIT = 2_147_483_647


def test_benchmark_patterns_are_those_of_figure_8_in_its_order() -> None:
    multiplicities = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    blocks = [48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
    skipped = [(1024, 256), (256, 1024), (128, 512), (512, 128), (64, 256), (256, 64)]
    expected = []

    def add(a: int, b: int, c: int, d: int) -> None:
        fits = max(25_088 * a * c * d, 25_088 * a * b * d, a * b * c * d) <= LIMIT
        if fits and (b == c or b == 4 * c or c == 4 * b):
            expected.append((a, b, c, d))

    for b, c, d in itertools.product(blocks, blocks, multiplicities):
        add(1, b, c, d)
    for a, b, c, d in itertools.product(multiplicities, blocks, blocks, [4, 16, 64]):
        if a != 1 and (b, c) not in skipped:
            add(a, b, c, d)
    patterns = [tuple(p) for p in ksmm.benchmark_patterns()]
    assert patterns == expected
    assert len(patterns) == len(set(patterns)) == 627


def test_energy_patterns() -> None:
    patterns = ksmm.energy_patterns()
    assert len(patterns) == len(set(patterns)) == 960
    assert {p.a for p in patterns} == {1, 4, 16, 32, 64}
    assert all(p.b == p.c or p.b == 4 * p.c or p.c == 4 * p.b for p in patterns)
    assert not any((p.b, p.c) in {(1024, 256), (256, 1024), (128, 512), (512, 128)} for p in patterns)


@pytest.mark.parametrize("size", [1, 2, 37, 120, 626, 627, 10_000])
def test_sample_is_a_subset_in_order_and_repeatable(size: int) -> None:
    patterns = ksmm.benchmark_patterns()
    sample = stratified_sample(patterns, size)
    assert len(sample) == min(size, len(patterns))
    assert sample == [p for p in patterns if p in set(sample)]
    assert sample == stratified_sample(patterns, size)


def test_sample_is_spread_over_ratios_and_multiplicity() -> None:
    patterns = ksmm.benchmark_patterns()
    sample = stratified_sample(patterns, 60)
    assert sum(p.a == 1 for p in sample) == 30
    counts = collections.Counter(p.memory_ratio for p in sample if p.a == 1)
    assert set(counts) == {p.memory_ratio for p in patterns if p.a == 1}
    assert max(counts.values()) - min(counts.values()) <= 1


def test_another_seed_gives_another_sample() -> None:
    patterns = ksmm.benchmark_patterns()
    assert stratified_sample(patterns, 40, seed=1) != stratified_sample(patterns, 40, seed=2)


def test_a_sample_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="sample of 0 patterns"):
        stratified_sample(ksmm.benchmark_patterns(), 0)
