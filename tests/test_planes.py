"""ksmm::planes, the copy that weight gradients are made of."""

from __future__ import annotations

import pytest
import torch

from tests.conftest import TOLERANCES

pytestmark = pytest.mark.usefixtures("kernel_library")


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "shape",
    [
        *[(5, 1, 3, 1), (7, 2, 40, 3), (64, 1, 192, 2), (33, 3, 9, 16), (1, 1, 1, 8), (0, 2, 4, 4)],
        # those that fill blocks of 192, 256 and 384 threads, whole or in tiles, in units of 8, 4 and 2
        *[(3, 1, 256, 24), (2, 2, 48, 192), (2, 1, 96, 384), (3, 1, 1000, 8), (5, 3, 20, 12), (7, 1, 98, 62)],
    ],
)
def test_against_a_permutation(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> None:
    batch, a, b, d = shape
    x = torch.randn(batch, a * b * d, device=device).to(dtype)
    planes = torch.ops.ksmm.planes(x, a, d)
    assert planes.is_contiguous() and torch.equal(planes, x.view(batch, a, b, d).transpose(2, 3))
    wide = torch.randn(batch, a * b * d + 1, device=device).to(dtype)[:, 1:]
    assert torch.equal(torch.ops.ksmm.planes(wide, a, d), wide.reshape(batch, a, b, d).transpose(2, 3))


@pytest.mark.parametrize(("batch", "a", "d"), [(6, 2, 4), (6, 2, 1), (6, 1, 48), (6, 12, 4), (1, 2, 1), (0, 2, 4)])
def test_opcheck(batch: int, a: int, d: int, device: str) -> None:
    """A new tensor also where nothing moves: with d = 1, b = 1, or no elements."""
    x = torch.randn(batch, 48, device=device).half()
    torch.library.opcheck(torch.ops.ksmm.planes.default, (x, a, d))


def test_features_that_do_not_divide_are_named(device: str) -> None:
    with pytest.raises(ValueError, match=r"x has shape \[5, 9\].*2·2"):
        torch.ops.ksmm.planes(torch.randn(5, 9, device=device), 2, 2)
