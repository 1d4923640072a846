"""Which implementations are measured beside the kernel."""

from __future__ import annotations

import pytest
import torch

from ksmm import Pattern, Problem, implementations
from ksmm.tuning.rivals import RIVALS, rivals


@pytest.mark.parametrize(
    ("entries", "dtype", "has_dense"),
    [
        ((1, 48, 48, 8), torch.bfloat16, True),  # 384 × 384
        ((1, 64, 256, 4), torch.float16, True),  # 256 × 1,024, the most
        ((1, 64, 257, 4), torch.float16, False),
        ((4, 4, 16, 4), torch.float32, True),  # 64 × 256, the most
        ((8, 16, 16, 1), torch.float32, True),
        ((1, 64, 64, 3), torch.float32, False),
        ((1, 64, 64, 3), torch.float16, True),
        ((1, 4096, 4096, 1), torch.float32, True),  # without zeros
        ((2, 1024, 1024, 4), torch.float16, False),
    ],
)
def test_dense_is_measured_where_its_zeros_cost_little(entries: tuple, dtype: torch.dtype, has_dense: bool) -> None:
    found = rivals(Problem(Pattern(*entries), 25_088, dtype, "batch_last"))
    assert found == ((*RIVALS, "dense") if has_dense else RIVALS)
    assert set(found) <= implementations().keys()
