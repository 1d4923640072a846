"""The names of dtypes and layouts, for what reads records and tables, and has no need of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Of a number, by PyTorch's name of its dtype."""

DTYPE_NAMES = tuple(DTYPE_BYTES)

LAYOUTS = ("batch_first", "batch_last")
"""batch_first: X is B × N; batch_last: X is N × B (Section 2.2)."""


def dtype_name(dtype: torch.dtype | str) -> str:
    """The name of a dtype: "float32" for torch.float32, and for "float32"."""
    return str(dtype).removeprefix("torch.")
