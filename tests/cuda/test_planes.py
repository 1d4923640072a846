"""Tiles of planes, whose blocks share X, or X and W, or are alone: whole ones, and parts."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
import torch

from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.cuda.nvcc import ROOT
from tests.cuda.products import assert_close, inputs, number_of, stored_as, tolerance
from tests.shapes import beginning_elsewhere, bias_of, expected, poison

pytestmark = pytest.mark.cuda


class Tile(NamedTuple):
    """A tile of the family, by what its configuration is called."""

    name: str
    d: tuple[int, ...]  # that it takes, or some of them
    shares: bool
    buffered: bool


def compiled_tiles() -> list[Tile]:
    """All of the family, with a name of its own where W is prepared.

    Raises:
        ValueError: some are listed in a way that is not understood here.
    """
    text = (ROOT / "ksmm/csrc/cuda/hopper/planes_family.h").read_text()
    listed_tiles = re.findall(r'KSMM_TILE\("([^"]+)", (DIRECT|EITHER), ([^)]+)\)', text)
    if len(listed_tiles) != text.count('KSMM_TILE("') or not listed_tiles:
        raise ValueError(f"{len(listed_tiles)} of the tiles in planes_family.h are understood; mend the pattern above")
    tiles = []
    for name, weight, listed in listed_tiles:
        j, _, _, _, _, _, wide, *rest = (value.strip() for value in listed.split(","))
        d = (24, 40) if wide == "true" else (int(j),)
        shares, buffered = any(int(along) > 1 for along in rest[:2]), any(int(chunks) > 0 for chunks in rest[2:])
        tiles += [Tile(name + way, d, shares, buffered) for way in ("", " prepared")[: 1 + (weight == "EITHER")]]
    return tiles


TILES = compiled_tiles()
THAT_SHARE = [tile for tile in TILES if tile.shares]
OF_SEVERAL_TILES = [tile for tile in TILES if tile.buffered or not tile.shares]

if torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("the copy engine is that of compute capability 9.0", allow_module_level=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tile", THAT_SHARE, ids=lambda tile: tile.name)
# b within the first block of a cluster, in both, and in the first of the next; c of one step, and of several
@pytest.mark.parametrize(("b", "c"), [(20, 16), (48, 40), (64, 136), (72, 8), (200, 72)])
@pytest.mark.parametrize("batch", [1, 65, 300, 5_000])
def test_blocks_that_share(operator, tile: Tile, dtype: torch.dtype, b: int, c: int, batch: int) -> None:
    for d in tile.d:
        assert_twice_right(operator, tile.name, Problem(Pattern(2, b, c, d), batch, dtype, "batch_first", "cuda"))


# b of less than a tile, and of several, with parts of chunks of Y; an odd number of tiles, whose blocks are launched by
# two; more tiles than there are multiprocessors, so that one follows another
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tile", OF_SEVERAL_TILES, ids=lambda tile: tile.name)
@pytest.mark.parametrize(("b", "c"), [(24, 16), (200, 72), (264, 8)])
@pytest.mark.parametrize("batch", [1, 129, 10_001])
def test_tiles_that_follow_each_other(operator, tile: Tile, dtype: torch.dtype, b: int, c: int, batch: int) -> None:
    for d in tile.d:
        assert_twice_right(operator, tile.name, Problem(Pattern(3, b, c, d), batch, dtype, "batch_first", "cuda"))


# b d of which two blocks i are no multiple of 16 bytes apart: a tile's bias may be aligned where the whole is not
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("begins", range(8))
def test_a_bias_begins_anywhere(operator, dtype: torch.dtype, begins: int) -> None:
    problem = Problem(Pattern(3, 22, 16, 2), 300, dtype, "batch_first", "cuda")
    x, weight = inputs(problem)
    stored, bias = stored_as(weight, "packed"), bias_of(problem, True)
    own = torch.cat((bias[:begins], bias))[begins:]
    reference = expected(x, weight, problem.layout, bias)
    entries = [entry.split(" ", 1) for entry in torch.ops.ksmm.configurations(x, stored, problem.layout)]
    numbers = [int(number) for number, name in entries if name.startswith("planes")]
    assert numbers
    for number in numbers:
        y = operator(x, stored, problem.layout, own, "default", number)
        assert_close(y, reference, tolerance(dtype, problem.pattern))


# X and Y that are large enough for X to leave the L2 cache last
def test_large_products(operator) -> None:
    problem = Problem(Pattern(4, 128, 128, 4), 25_088, torch.float16, "batch_first", "cuda")
    x, weight = inputs(problem)
    stored = stored_as(weight, "packed")
    reference = expected(x, weight, problem.layout, None)
    entries = [entry.split(" ", 1) for entry in torch.ops.ksmm.configurations(x, stored, problem.layout)]
    numbers = {name: int(number) for number, name in entries if name.startswith("planes")}
    assert numbers
    for name, number in numbers.items():
        poison(problem)
        y = operator(x, stored, problem.layout, None, "default", number)
        assert_close(y, reference, tolerance(problem.dtype, problem.pattern), name)


def assert_twice_right(operator, name: str, problem: Problem) -> None:
    """Two runs of that configuration over poisoned memory are close to float64, and the same bit by bit.

    The bias of the second begins where no vector does.
    """
    x, weight = inputs(problem)
    stored, bias = stored_as(weight, "packed"), bias_of(problem, True)
    number, results = number_of(name, x, stored, problem.layout), []
    for own in (bias, beginning_elsewhere(bias)):
        poison(problem)
        results.append(operator(x, stored, problem.layout, own, "default", number))
    reference = expected(x, weight, problem.layout, bias)
    assert_close(results[0], reference, tolerance(problem.dtype, problem.pattern))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)  # says how many differ
