"""Pattern and Chain: sizes, parsing, the support, and what they refuse."""

from __future__ import annotations

import re

import pytest
import torch

import ksmm
from ksmm.reference import to_dense


def test_sizes_and_ratios() -> None:
    pattern = ksmm.Pattern(2, 48, 192, 4)
    assert pattern.shape == (2 * 48 * 4, 2 * 192 * 4)
    assert pattern.nnz == 2 * 48 * 192 * 4
    assert pattern.density == pytest.approx(pattern.nnz / (pattern.rows * pattern.columns))
    assert pattern.memory_ratio == pytest.approx((48 + 192) / (48 * 192))
    assert pattern.energy_ratio == pytest.approx(4 * (48 + 192) / (48 * 192))


@pytest.mark.parametrize("text", ["1,192,48,2", " 1, 192 ,48,2 ", "(1,192,48,2)", "[1, 192, 48, 2]"])
def test_parse(text: str) -> None:
    assert ksmm.Pattern.parse(text) == ksmm.Pattern(1, 192, 48, 2)


def test_text_round_trip() -> None:
    pattern = ksmm.Pattern(6, 64, 32, 5)
    assert ksmm.Pattern.parse(str(pattern)) == pattern
    assert pattern.slug == "6x64x32x5"
    assert tuple(pattern) == pattern.weight_shape == (6, 64, 32, 5)


@pytest.mark.parametrize("text", ["", "1,2,3", "1,2,3,4,5", "1,2,x,4", "1;2;3;4", "1.0,2,3,4", "1,,3,4"])
def test_malformed_text_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="four integers separated by commas") as error:
        ksmm.Pattern.parse(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("value", [0, -3])
def test_entries_below_one_are_refused(position: int, value: int) -> None:
    entries = [2, 2, 2, 2]
    entries[position] = value
    with pytest.raises(ValueError, match=f"entry {'abcd'[position]} is {value}; it must be at least 1"):
        ksmm.Pattern(*entries)


@pytest.mark.parametrize("value", [1.0, "2", None, True, 2.5])
def test_entries_that_are_not_integers_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="must be a positive integer"):
        ksmm.Pattern(1, value, 2, 2)


def test_integers_of_other_libraries_are_accepted() -> None:
    assert ksmm.Pattern(torch.tensor(3), 1, 1, 1) == ksmm.Pattern(3, 1, 1, 1)


@pytest.mark.parametrize("entries", [(2, 3, 4, 5), (1, 2, 3, 1), (3, 1, 1, 2), (1, 1, 1, 1)])
def test_support_is_the_kronecker_product(entries: tuple[int, int, int, int]) -> None:
    pattern = ksmm.Pattern(*entries)
    support = pattern.support()
    assert tuple(support.shape) == pattern.shape
    assert support.sum() == pattern.nnz
    a, b, c, d = entries
    for row, column in support.nonzero().tolist():
        assert row // (b * d) == column // (c * d) < a
        assert row % d == column % d
    weight = torch.rand(entries) + 0.5
    assert torch.equal(to_dense(weight) != 0, support)


def test_dense_matrix_holds_each_weight_where_the_definition_says() -> None:
    a, b, c, d = 2, 3, 4, 5
    weight = torch.rand(a, b, c, d)
    matrix = to_dense(weight)
    for i in range(a):
        for r in range(b):
            for k in range(c):
                for j in range(d):
                    assert matrix[i * b * d + r * d + j, i * c * d + k * d + j] == weight[i, r, k, j]


def test_chain_shape_and_order() -> None:
    chain = ksmm.Chain([(1, 768, 192, 2), ksmm.Pattern(6, 64, 64, 1)])
    assert chain.shape == (1536, 384)
    assert len(chain) == 2
    assert list(chain) == [ksmm.Pattern(1, 768, 192, 2), ksmm.Pattern(6, 64, 64, 1)]
    assert chain.nnz == 768 * 192 * 2 + 6 * 64 * 64
    assert chain.density == pytest.approx(chain.nnz / (1536 * 384))


def test_chain_that_does_not_chain_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"factors 1 \(1,4,6,2\) and 2 \(1,4,6,2\) do not chain: .* 12 columns.* 8 rows"
    ):
        ksmm.Chain([(1, 4, 6, 2), (1, 4, 6, 2)])


def test_empty_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one pattern"):
        ksmm.Chain([])


@pytest.mark.parametrize("text", [None, (1, 192, 48, 2), ksmm.Pattern(1, 2, 2, 1)])
def test_what_is_no_text_is_named(text: object) -> None:
    message = rf"pattern is {re.escape(repr(text))} \(.*\); it must be text such as '1,192,48,2'"
    with pytest.raises(TypeError, match=message):
        ksmm.Pattern.parse(text)
