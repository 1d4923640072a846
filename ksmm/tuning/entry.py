"""One line of a tuning file: what was fastest on a pattern, for some batch sizes, a dtype, a layout, a precision."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch

from ksmm.names import dtype_name
from ksmm.problem import DTYPES, LAYOUTS, Problem

PRECISIONS = ("compensated", "strict")
"""Of float32 on CUDA: `kernel` as it is by default, and `kernel_strict`; nothing is remembered of TF32."""

Key = tuple[tuple[int, int, int, int], str, str, str]
"""Pattern, dtype, layout and precision."""


@dataclass(frozen=True)
class Choice:
    """What to do for a range of batch sizes; `configuration` is None where the kernel has only one way."""

    first: int
    last: int
    implementation: str
    configuration: str | None


@dataclass(frozen=True)
class Entry:
    """What was measured on one problem.

    Attributes:
        pattern: (a, b, c, d).
        first_batch, last_batch: the batch sizes that it speaks for.
        batch_size: the one that was measured.
        dtype, layout: by name.
        precision: one of PRECISIONS for float32 on CUDA, else "".
        implementation: the fastest of the kernel and its rivals.
        configuration: the name of the kernel's fastest; None on a CPU, where it has no names.
        configuration_ms: milliseconds of that.
        untuned: the implementation that "auto" takes without this entry; `kernel_strict` itself where that was tuned.
        untuned_configuration: the cost model's choice; `configuration` where that failed or cannot be timed.
        untuned_ms: milliseconds of that.
        rivals_ms: milliseconds of the other implementations by name, as far as they were measured.
        measured_with: the number, in the file, of what it was measured with.
    """

    pattern: tuple[int, int, int, int]
    first_batch: int
    last_batch: int
    batch_size: int
    dtype: str
    layout: str
    precision: str
    implementation: str
    configuration: str | None
    configuration_ms: float
    untuned: str
    untuned_configuration: str | None
    untuned_ms: float
    rivals_ms: dict[str, float]
    measured_with: int

    @property
    def key(self) -> Key:
        """All that it is looked up by but the batch size."""
        return self.pattern, self.dtype, self.layout, self.precision

    @property
    def choice(self) -> Choice:
        """What follows from it."""
        return Choice(self.first_batch, self.last_batch, self.implementation, self.configuration)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {**dataclasses.asdict(self), "pattern": list(self.pattern)}

    @classmethod
    def from_dict(cls, values: Any) -> Entry:
        """Reads what to_dict wrote.

        Raises:
            ValueError: it is not what to_dict writes; the message names the field.
        """
        if not isinstance(values, dict):
            raise ValueError(f"is a {type(values).__name__}, not an object")
        names = {field.name for field in dataclasses.fields(cls)}
        if set(values) != names:
            raise ValueError(f"has the wrong keys: {', '.join(sorted(set(values) ^ names))}")
        for name, value in values.items():
            if not _CHECKS[name](value):
                raise ValueError(f"key {name} is {value!r}")
        entry = cls(**{**values, "pattern": tuple(values["pattern"])})
        if not entry.first_batch <= entry.batch_size <= entry.last_batch:
            raise ValueError(f"batch_size {entry.batch_size} lies outside of its range")
        return entry


def bucket(batch_size: int) -> tuple[int, int]:
    """The range of batch sizes that one measurement speaks for: powers of two.

    >>> bucket(25088)
    (16384, 32767)
    """
    first = 1 << (batch_size.bit_length() - 1)
    return first, 2 * first - 1


def key_of(problem: Problem, precision: str) -> Key:
    """What a problem is looked up by."""
    return tuple(problem.pattern), dtype_name(problem.dtype), problem.layout, precision


def precision_of(dtype: torch.dtype, device_type: str, strict: bool = False) -> str | None:
    """The precision that a product has by default, or strictly; None for TF32, of which nothing is known."""
    if device_type != "cuda" or dtype != torch.float32:
        return ""
    if strict:
        return "strict"
    matmul = torch.backends.cuda.matmul
    precision = getattr(matmul, "fp32_precision", None)  # since PyTorch 2.9, where allow_tf32 may refuse to answer
    tf32 = matmul.allow_tf32 if precision is None else precision == "tf32"
    return None if tf32 else "compensated"


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value < 2**63


def _is_milliseconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_pattern(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(map(_is_count, value))


def _are_times(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_milliseconds, value.values()))


_CHECKS = {
    "pattern": _is_pattern,
    **dict.fromkeys(("first_batch", "last_batch", "batch_size"), _is_count),
    "dtype": lambda value: value in tuple(DTYPES),
    "layout": lambda value: value in LAYOUTS,
    "precision": lambda value: value in ("", *PRECISIONS),
    **dict.fromkeys(("implementation", "untuned"), _is_name),
    **dict.fromkeys(("configuration", "untuned_configuration"), lambda value: value is None or _is_name(value)),
    **dict.fromkeys(("configuration_ms", "untuned_ms"), _is_milliseconds),
    "rivals_ms": _are_times,
    "measured_with": lambda value: type(value) is int and value >= 0,
}
