"""The constructors of Table 1 against its definitions."""

from __future__ import annotations

import pytest
import torch

import ksmm
from ksmm.fourier import bit_reversal, dft_matrix, dft_weights
from ksmm.patterns import Pattern
from ksmm.reference import to_dense


def test_dense() -> None:
    assert list(ksmm.dense(30, 20)) == [Pattern(1, 30, 20, 1)]
    assert ksmm.dense(30, 20).density == 1


def test_low_rank() -> None:
    chain = ksmm.low_rank(30, 20, 4)
    assert list(chain) == [Pattern(1, 30, 4, 1), Pattern(1, 4, 20, 1)]
    product = to_dense(torch.rand(1, 30, 4, 1)) @ to_dense(torch.rand(1, 4, 20, 1))
    assert torch.linalg.matrix_rank(product) == 4


@pytest.mark.parametrize("levels", [1, 2, 3, 6])
def test_square_dyadic(levels: int) -> None:
    chain = ksmm.square_dyadic(2**levels)
    assert list(chain) == [Pattern(2 ** (l - 1), 2, 2, 2 ** (levels - l)) for l in range(1, levels + 1)]  # noqa: E741
    assert chain.shape == (2**levels, 2**levels)


@pytest.mark.parametrize("levels", [1, 3, 5])
def test_kaleidoscope(levels: int) -> None:
    chain = ksmm.kaleidoscope(2**levels)
    rising = [(2 ** (l - 1), 2, 2, 2 ** (levels - l)) for l in range(1, levels + 1)]  # noqa: E741
    falling = [(2 ** (levels - l), 2, 2, 2 ** (l - 1)) for l in range(1, levels + 1)]  # noqa: E741
    assert [tuple(p) for p in chain] == rising + falling


@pytest.mark.parametrize(("levels", "block"), [(1, 3), (2, 5), (4, 16)])
def test_block_butterfly(levels: int, block: int) -> None:
    chain = ksmm.block_butterfly(2**levels * block, block)
    expected = [(2 ** (l - 1), 2 * block, 2 * block, 2 ** (levels - l)) for l in range(1, levels + 1)]  # noqa: E741
    assert [tuple(p) for p in chain] == expected
    assert chain.shape == (2**levels * block, 2**levels * block)


@pytest.mark.parametrize(("rows", "columns", "blocks"), [(24, 12, 3), (12, 24, 4), (16, 16, 4)])
def test_monarch(rows: int, columns: int, blocks: int) -> None:
    chain = ksmm.monarch(rows, columns, blocks)
    inner = min(rows, columns) // blocks
    assert [tuple(p) for p in chain] == [
        (1, rows // blocks, inner, blocks),
        (blocks, inner, columns // blocks, 1),
    ]
    assert chain.shape == (rows, columns)


def test_deformable_butterfly() -> None:
    patterns = [(2, 3, 4, 5), (4, 5, 2, 2), (1, 4, 7, 4)]
    assert [tuple(p) for p in ksmm.deformable_butterfly(patterns)] == patterns
    with pytest.raises(ValueError, match="do not chain"):
        ksmm.deformable_butterfly([(2, 3, 4, 5), (4, 5, 2, 3)])


@pytest.mark.parametrize("size", [0, 1, 3, 12, -4])
def test_sizes_that_are_not_powers_of_two_are_named(size: int) -> None:
    for constructor in (ksmm.square_dyadic, ksmm.kaleidoscope):
        with pytest.raises(ValueError, match=f"size {size} is not"):
            constructor(size)


def test_blocks_that_do_not_divide_are_named() -> None:
    with pytest.raises(ValueError, match="24 × 10 cannot have 3 blocks"):
        ksmm.monarch(24, 10, 3)
    with pytest.raises(ValueError, match="size 20 is not"):
        ksmm.block_butterfly(20, 3)


@pytest.mark.parametrize("levels", [1, 2, 4, 7])
def test_dft_is_a_square_dyadic_product_up_to_its_columns(levels: int) -> None:
    """Figure 1."""
    size = 2**levels
    weights = dft_weights(size)
    assert [tuple(w.shape) for w in weights] == [tuple(p) for p in ksmm.square_dyadic(size)]
    product = torch.eye(size, dtype=torch.complex128)
    for weight in weights:
        product = product @ to_dense(weight)
    permutation = bit_reversal(size)
    assert sorted(permutation.tolist()) == list(range(size))
    torch.testing.assert_close(product, dft_matrix(size)[:, permutation], rtol=0, atol=1e-12 * size)
    torch.testing.assert_close(
        dft_matrix(size), torch.fft.fft(torch.eye(size, dtype=torch.complex128)), rtol=0, atol=1e-12 * size
    )


def test_sizes_that_are_no_integers_are_named() -> None:
    for constructor in (ksmm.square_dyadic, ksmm.kaleidoscope):
        with pytest.raises(TypeError, match=r"size is 8\.0 \(float\); it must be a positive integer"):
            constructor(8.0)
    for arguments, named in ((("a", 10, 2), r"rows is 'a' \(str\)"), ((10, 10, 2.0), r"blocks is 2\.0 \(float\)")):
        with pytest.raises(TypeError, match=named):
            ksmm.monarch(*arguments)
    with pytest.raises(TypeError, match="block_size is None"):
        ksmm.block_butterfly(20, None)
