"""The roofline: the time below which no product of a factor can get on a device, and the energy at that time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ksmm.problem import Problem
    from ksmm.work import Work


def attainable_seconds(work: Work | Problem, bytes_per_s: float, operations_per_s: float) -> float:
    """The larger of bytes moved over copy bandwidth and operations over the matrix product rate.

    Bytes are X, the weights and Y, each moved once; operations are 2·B·abcd.

    Args:
        work: of what is computed.
        bytes_per_s: copy bandwidth, bytes read and bytes written both counted.
        operations_per_s: matrix product rate of the problem's dtype.

    Raises:
        ValueError: a ceiling is not positive.
    """
    for name, value in (("bytes_per_s", bytes_per_s), ("operations_per_s", operations_per_s)):
        if not value > 0:
            raise ValueError(f"{name} is {value}; a measured ceiling is positive")
    return max(work.bytes_moved / bytes_per_s, work.operations / operations_per_s)


def attainable_joules(
    work: Work | Problem, roofline_s: float, idle_w: float, joules_per_byte: float, joules_per_operation: float
) -> float:
    """What a product costs that is as fast as the roofline and pays for each byte and operation what the best pays.

    Power at rest for as long as the roofline is, and on top of it what the bytes (X, the weights and Y, each moved
    once) and the 2·B·abcd operations cost. Energies add up where times overlap (Choi, Bedard, Fowler, Vuduc, A
    Roofline Model of Energy, IPDPS 2013). A matrix product moves bytes of its own, so the sum counts few of them twice.

    Args:
        work: of what is computed.
        roofline_s: what attainable_seconds returns.
        idle_w: power at rest.
        joules_per_byte: above rest, of a copy.
        joules_per_operation: above rest, of a matrix product in the problem's dtype.

    Raises:
        ValueError: one of them is not positive.
    """
    costs = {"roofline_s": roofline_s, "idle_w": idle_w, "joules_per_byte": joules_per_byte}
    for name, value in {**costs, "joules_per_operation": joules_per_operation}.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; a measured ceiling is positive")
    moved = work.bytes_moved * joules_per_byte
    return idle_w * roofline_s + moved + work.operations * joules_per_operation


def is_memory_bound(work: Work | Problem, bytes_per_s: float, operations_per_s: float) -> bool:
    """Whether moving the bytes takes longer than the operations do."""
    return work.bytes_moved / bytes_per_s > work.operations / operations_per_s
