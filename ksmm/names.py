"""The names of dtypes and layouts, for what reads records and tables, and has no need of PyTorch."""

from __future__ import annotations

DTYPE_NAMES = ("float32", "float16", "bfloat16")
"""PyTorch's."""

LAYOUTS = ("batch_first", "batch_last")
"""batch_first: X is B × N; batch_last: X is N × B (Section 2.2)."""
