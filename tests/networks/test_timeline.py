"""Whose the time is where kernels overlap: no moment is counted twice, and none in which something runs is lost."""

import pytest

from ksmm.networks.timeline import kernel_times


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], {}),
        ([("a", 0, 2), ("b", 2, 5)], {"a": (1, 2), "b": (1, 3)}),
        ([("a", 0, 2), ("b", 7, 8), ("a", 10, 14)], {"a": (2, 6), "b": (1, 1)}),
        ([("a", 0, 4), ("b", 3, 9)], {"a": (1, 4), "b": (1, 5)}),
        ([("a", 0, 4), ("b", 3, 9), ("c", 8, 10)], {"a": (1, 4), "b": (1, 5), "c": (1, 1)}),
        ([("a", 0, 10), ("b", 2, 5)], {"a": (1, 10), "b": (1, 0)}),
        ([("a", 0, 10), ("b", 2, 5), ("c", 6, 12)], {"a": (1, 10), "b": (1, 0), "c": (1, 2)}),
        ([("a", 0, 4), ("a", 3, 5)], {"a": (2, 5)}),
        ([("b", 3, 9), ("a", 0, 4)], {"a": (1, 4), "b": (1, 5)}),
    ],
    ids=["none", "touching", "disjoint", "overlapping", "three", "nested", "after a nested one", "itself", "unordered"],
)
def test_a_moment_belongs_to_the_kernel_that_began_first(runs, expected):
    assert kernel_times(runs) == expected
