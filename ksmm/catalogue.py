"""The paper's Table 1: known families of structured matrices as chains of Kronecker patterns."""

from __future__ import annotations

from collections.abc import Iterable

from ksmm.patterns import Chain, Pattern, any_integer


def dense(rows: int, columns: int) -> Chain:
    """One factor without zeros: (1, M, N, 1)."""
    return Chain([Pattern(1, rows, columns, 1)])


def low_rank(rows: int, columns: int, rank: int) -> Chain:
    """M × N of rank r: (1, M, r, 1), (1, r, N, 1)."""
    return Chain([Pattern(1, rows, rank, 1), Pattern(1, rank, columns, 1)])


def square_dyadic(size: int) -> Chain:
    """N × N with N = 2^L: (2^{l-1}, 2, 2, 2^{L-l}) for l = 1 … L, the butterfly of the DFT (Figure 1).

    Raises:
        ValueError: size is not a power of two that is at least 2.
    """
    return block_butterfly(size, 1)


def kaleidoscope(size: int) -> Chain:
    """N × N with N = 2^L: the square dyadic chain, then its mirror image (2^{L-l}, 2, 2, 2^{l-1}).

    Raises:
        ValueError: size is not a power of two that is at least 2.
    """
    butterfly = square_dyadic(size)
    return Chain([*butterfly, *reversed(butterfly.patterns)])


def block_butterfly(size: int, block_size: int) -> Chain:
    """N × N with N = 2^L · t: (2^{l-1}, 2t, 2t, 2^{L-l}) for l = 1 … L.

    Args:
        size: N.
        block_size: t, the size of the blocks that replace the scalars of the square dyadic chain.

    Raises:
        ValueError: size is not a power of two, at least 2, times block_size.
    """
    levels = _exact_log2(size, block_size)
    return Chain(
        Pattern(2 ** (level - 1), 2 * block_size, 2 * block_size, 2 ** (levels - level))
        for level in range(1, levels + 1)
    )


def monarch(rows: int, columns: int, blocks: int) -> Chain:
    """M × N with p blocks: (1, M/p, min(M, N)/p, p), (p, min(M, N)/p, N/p, 1).

    Raises:
        ValueError: blocks does not divide both rows and columns.
    """
    rows, columns, blocks = any_integer("rows", rows), any_integer("columns", columns), any_integer("blocks", blocks)
    if blocks < 1 or rows % blocks or columns % blocks:
        raise ValueError(
            f"a Monarch matrix of {rows} × {columns} cannot have {blocks} blocks: "
            "the number of blocks must be a positive divisor of both dimensions"
        )
    inner = min(rows, columns) // blocks
    return Chain([Pattern(1, rows // blocks, inner, blocks), Pattern(blocks, inner, columns // blocks, 1)])


def deformable_butterfly(patterns: Iterable[Pattern | tuple[int, int, int, int]]) -> Chain:
    """Any patterns with a_l c_l d_l = a_{l+1} b_{l+1} d_{l+1}; a Chain checks just that.

    Raises:
        ValueError: two neighbours do not chain.
    """
    return Chain(patterns)


def _exact_log2(size: int, block_size: int) -> int:
    size, block_size = any_integer("size", size), any_integer("block_size", block_size)
    quotient, rest = divmod(size, block_size) if block_size >= 1 else (0, 1)
    if rest or quotient < 2 or quotient & (quotient - 1):
        raise ValueError(
            f"size {size} is not 2^L · {block_size} with L at least 1; "
            "choose a power of two times the block size (which is 1 for square dyadic and kaleidoscope matrices)"
        )
    return quotient.bit_length() - 1
