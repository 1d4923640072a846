"""Which implementations of PyTorch are measured beside the kernel: those that were ever faster, where they can be."""

from __future__ import annotations

from ksmm.problem import Problem

RIVALS = ("bmm_strided", "bmm")
"""Measured on every problem. In the published sweeps `bmm_strided` is faster than `kernel` on up to 10 of 124 patterns
of a dtype and layout, `dense` on up to 2, `bmm` on one, and none of the others is."""

MOST_DENSE_ENTRIES = {2: 2**18, 4: 2**14}
"""Of the matrix of `dense`, zeros included, by the bytes of an entry.

Zeros cost nothing as long as their products take no longer than reading X and writing Y: in 16 bits on the matrix units
of an H100 or H200, by their 200 to 300 operations for each byte of memory, up to about 500 × 500 entries. In float32,
by multiply-adds, that would be 40 × 40, and launches hide up to 128 × 128. The sweeps have `dense` ahead of `kernel` in
16 bits alone, up to 262,144 entries, and ahead of `kernel_strict` up to 16,384.
"""


def rivals(problem: Problem) -> tuple[str, ...]:
    """The names of the implementations that are measured beside the kernel, in this order.

    `dense` is among them where its matrix is small, and where a·d = 1: then it has no zeros.
    """
    pattern = problem.pattern
    has_no_zeros = pattern.a * pattern.d == 1
    is_small = pattern.rows * pattern.columns <= MOST_DENSE_ENTRIES.get(problem.dtype.itemsize, 0)
    return (*RIVALS, "dense") if has_no_zeros or is_small else RIVALS
