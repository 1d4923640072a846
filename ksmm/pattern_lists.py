"""The lists of patterns that the paper measures, and stratified samples of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from ksmm.patterns import Pattern

BENCHMARK_BATCH_SIZE = 128 * 196
"""25,088: images a batch times tokens an image (Section 5)."""

_SIZE_LIMIT = 2**31 - 1
_BLOCK_SIZES = (48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_MULTIPLICITIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_REDUNDANT_BLOCKS = {(1024, 256), (256, 1024), (128, 512), (512, 128), (64, 256), (256, 64)}


def benchmark_patterns() -> list[Pattern]:
    """The 627 patterns that the code of Figure 8 yields, in its order (the text says 600).

    X, Y and the weights of each hold fewer than 2^31 elements at a batch of 25,088.
    """
    single = ((1, b, c, d) for b, c, d in itertools.product(_BLOCK_SIZES, _BLOCK_SIZES, _MULTIPLICITIES))
    repeated = (
        (a, b, c, d)
        for a, b, c, d in itertools.product(_MULTIPLICITIES, _BLOCK_SIZES, _BLOCK_SIZES, (4, 16, 64))
        if a != 1 and (b, c) not in _REDUNDANT_BLOCKS
    )
    candidates = itertools.chain(single, repeated)
    return [
        Pattern(a, b, c, d)
        for a, b, c, d in candidates
        if _transformer_ratio(b, c)
        and BENCHMARK_BATCH_SIZE * a * c * d <= _SIZE_LIMIT
        and BENCHMARK_BATCH_SIZE * a * b * d <= _SIZE_LIMIT
        and a * b * c * d <= _SIZE_LIMIT
    ]


def energy_patterns() -> list[Pattern]:
    """The 960 patterns of appendix B.1's energy benchmark, before any limit on their size."""
    return [
        Pattern(a, b, c, d)
        for a, b, c, d in itertools.product(
            (1, 4, 16, 32, 64), _BLOCK_SIZES, _BLOCK_SIZES, (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
        )
        if _transformer_ratio(b, c) and (b, c) not in _REDUNDANT_BLOCKS
    ]


def _transformer_ratio(b: int, c: int) -> bool:
    """Linear layers of transformers are square, or four times wider than high, or the reverse."""
    return b == c or b == 4 * c or c == 4 * b


def stratified_sample(patterns: Sequence[Pattern], size: int, seed: int = 0) -> list[Pattern]:
    """At most `size` patterns, spread evenly over the values of (b+c)/(bc), half of them with a = 1.

    Each stratum is one value of (b+c)/(bc) together with whether a = 1. Strata are visited in turn, so that no
    stratum gives two patterns more than another that still has some. The order of `patterns` is kept, and the
    sample depends on nothing but the arguments.

    Raises:
        ValueError: size is smaller than 1.
    """
    if size < 1:
        raise ValueError(f"a sample of {size} patterns was asked for; it must be at least 1")
    generator = random.Random(seed)
    halves = []
    for single in (True, False):
        strata: dict[float, list[Pattern]] = {}
        for pattern in patterns:
            if (pattern.a == 1) == single:
                strata.setdefault(pattern.memory_ratio, []).append(pattern)
        for members in strata.values():
            generator.shuffle(members)
        order = list(strata.values())
        generator.shuffle(order)
        halves.append([p for turn in itertools.zip_longest(*order) for p in turn if p is not None])
    interleaved = [p for turn in itertools.zip_longest(*halves) for p in turn if p is not None]
    chosen = set(interleaved[:size])
    return [pattern for pattern in patterns if pattern in chosen]
