"""The roofline: the time below which no product of a factor can get on a device."""

from __future__ import annotations

from ksmm.problem import Problem


def attainable_seconds(problem: Problem, bytes_per_s: float, operations_per_s: float) -> float:
    """The larger of bytes moved over copy bandwidth and operations over the matrix product rate.

    Bytes are X, the weights and Y, each moved once; operations are 2·B·abcd.

    Args:
        problem: what is computed.
        bytes_per_s: copy bandwidth, bytes read and bytes written both counted.
        operations_per_s: matrix product rate of the problem's dtype.

    Raises:
        ValueError: a ceiling is not positive.
    """
    for name, value in (("bytes_per_s", bytes_per_s), ("operations_per_s", operations_per_s)):
        if not value > 0:
            raise ValueError(f"{name} is {value}; a measured ceiling is positive")
    return max(problem.bytes_moved / bytes_per_s, problem.operations / operations_per_s)


def is_memory_bound(problem: Problem, bytes_per_s: float, operations_per_s: float) -> bool:
    """Whether moving the bytes takes longer than the operations do."""
    return problem.bytes_moved / bytes_per_s > problem.operations / operations_per_s
