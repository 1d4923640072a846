"""The kernel on the CPU for few rows, and few columns: weights read where they are stored, columns turned to rows."""

from __future__ import annotations

import pytest
import torch

from ksmm import DTYPES, Pattern
from tests.test_kernel_cpu import KERNEL, PATTERNS, _built, _nan_poisoned, check, kernel, operands  # noqa: F401

PACKED_FROM, STORED_TO = 300, 8
"""Rows for which batch_first packs float32 weights, and so few that it reads them where they are stored (with vectors
of 16 lanes up to 256)."""


@pytest.mark.usefixtures("_nan_poisoned")
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("pattern", [(2, 130, 90, 3), (1, 96, 120, 1), (3, 70, 65, 17), (1, 200, 64, 16)], ids=str)
def test_few_columns_are_multiplied_as_rows(pattern, dtype):
    bias = torch.randn(Pattern(*pattern).rows).to(dtype)
    for batch in (1, 2, 4, 5, 17, 40, 63):  # batch_last turns up to 4, in float32 up to bc / (b + c)
        x, weight = operands(pattern, batch, "batch_last", dtype)
        wide = torch.full((len(x), batch + 5), float("nan"), dtype=dtype)
        wide[:, 2 : 2 + batch] = x
        for stored in (weight, KERNEL.pack(weight, "batch_last").data):
            for columns in (x, wide[:, 2 : 2 + batch]):
                y = kernel(columns, stored, "batch_last", bias)
                check(y, x, weight, "batch_last", f"batch {batch}", bias)
                if batch <= 4:
                    assert torch.equal(y, kernel(x.T.contiguous(), stored, "batch_first", bias).T)


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_weights_read_where_they_are_stored_give_the_same_bits_as_packed_ones(pattern):
    x, weight = operands(pattern, PACKED_FROM, "batch_first")
    bias = torch.randn(Pattern(*pattern).rows)
    for stored in (weight, KERNEL.pack(weight, "batch_first").data):
        packed = kernel(x, stored, "batch_first", bias)
        check(kernel(x, stored, "batch_first"), x, weight, "batch_first", pattern)
        for rows in (1, 3, STORED_TO, 250):
            assert torch.equal(kernel(x[:rows], stored, "batch_first", bias), packed[:rows]), (pattern, rows)
