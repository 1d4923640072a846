"""The work of a product: how much it moves and computes at least, whatever multiplies. No PyTorch: names will do."""

from __future__ import annotations

from dataclasses import dataclass

from ksmm.names import DTYPE_BYTES
from ksmm.patterns import Pattern


def operations(pattern: Pattern, batch_size: int) -> int:
    """2·B·abcd floating-point operations."""
    return 2 * batch_size * pattern.nnz


def bytes_moved(pattern: Pattern, batch_size: int, bytes_per_number: int) -> int:
    """Bytes that cross device memory at least: X and the weights read once, Y written once."""
    return (batch_size * (pattern.rows + pattern.columns) + pattern.nnz) * bytes_per_number


@dataclass(frozen=True)
class Work:
    """What a roofline has to know of a ksmm.problem.Problem: its pattern, batch size, and the name of its dtype."""

    pattern: Pattern
    batch_size: int
    dtype: str

    @property
    def operations(self) -> int:
        """See `operations`."""
        return operations(self.pattern, self.batch_size)

    @property
    def bytes_moved(self) -> int:
        """See `bytes_moved`."""
        return bytes_moved(self.pattern, self.batch_size, DTYPE_BYTES[self.dtype])
