"""A problem: what one number is measured on (pattern × batch size × dtype × layout, on a kind of device)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ksmm import work
from ksmm.names import DTYPE_NAMES, LAYOUTS
from ksmm.patterns import Pattern

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPE_NAMES}


def check_layout(layout: str) -> str:
    """Returns the layout.

    Raises:
        ValueError: it is not one of LAYOUTS.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}; choose one of {', '.join(LAYOUTS)}")
    return layout


def parse_dtype(name: str) -> torch.dtype:
    """The torch dtype of a name such as "float32".

    Raises:
        ValueError: it is not one of DTYPES.
    """
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}; choose one of {', '.join(DTYPES)}")
    return DTYPES[name]


@dataclass(frozen=True)
class Problem:
    """One multiplication Y = X Kᵀ: pattern, batch size, dtype, layout and kind of device ("cpu", "cuda")."""

    pattern: Pattern
    batch_size: int
    dtype: torch.dtype
    layout: str
    device_type: str = "cpu"

    def __post_init__(self) -> None:
        check_layout(self.layout)
        if self.batch_size < 0:
            raise ValueError(f"batch size is {self.batch_size}; it must be at least 0")

    @property
    def input_shape(self) -> tuple[int, int]:
        """Shape of X as stored: (B, a·c·d) in batch_first, (a·c·d, B) in batch_last."""
        return self._stored(self.pattern.columns)

    @property
    def output_shape(self) -> tuple[int, int]:
        """Shape of Y as stored: (B, a·b·d) in batch_first, (a·b·d, B) in batch_last."""
        return self._stored(self.pattern.rows)

    def _stored(self, features: int) -> tuple[int, int]:
        return (self.batch_size, features) if self.layout == "batch_first" else (features, self.batch_size)

    @property
    def operations(self) -> int:
        """See ksmm.work.operations."""
        return work.operations(self.pattern, self.batch_size)

    @property
    def bytes_moved(self) -> int:
        """See ksmm.work.bytes_moved."""
        return work.bytes_moved(self.pattern, self.batch_size, self.dtype.itemsize)
