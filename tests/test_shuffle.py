"""Lemma C.1 and Equation (1)."""

from __future__ import annotations

import pytest
import torch

import ksmm
from ksmm.implementations.bmm import Bmm
from ksmm.reference import to_dense
from ksmm.shuffle import perfect_shuffle, permutations

PATTERNS = [(1, 2, 3, 4), (2, 3, 2, 3), (3, 4, 5, 1), (4, 1, 6, 2), (1, 1, 1, 1), (2, 5, 3, 7)]


@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 3), (4, 4), (5, 2), (1, 7), (7, 1)])
def test_perfect_shuffle_is_the_transpose_of_equation_3_as_printed(p: int, q: int) -> None:
    matrix = perfect_shuffle(p, q)
    identity = torch.eye(p * q, dtype=matrix.dtype)
    printed = identity[[i + q * j for i in range(q) for j in range(p)]]
    assert torch.equal(matrix, printed.T)
    assert torch.equal(matrix @ matrix.T, identity)


def test_lemma_c1_fails_for_equation_3_as_printed() -> None:
    """Why the transposition is there: b = 2, c = d = 3."""
    ones, identity = torch.ones(2, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    left = perfect_shuffle(2, 3) @ torch.kron(ones, identity) @ perfect_shuffle(3, 3).T
    assert not torch.equal(left, torch.kron(identity, ones))


@pytest.mark.parametrize("entries", PATTERNS)
def test_lemma_c1(entries: tuple[int, int, int, int]) -> None:
    _, b, c, d = entries
    ones = torch.ones(b, c, dtype=torch.float64)
    identity = torch.eye(d, dtype=torch.float64)
    left = perfect_shuffle(b, d).T @ torch.kron(ones, identity) @ perfect_shuffle(c, d)
    assert torch.equal(left, torch.kron(identity, ones))


@pytest.mark.parametrize("entries", PATTERNS)
def test_equation_1(entries: tuple[int, int, int, int]) -> None:
    pattern = ksmm.Pattern(*entries)
    left, right = permutations(pattern)
    block_diagonal = ksmm.Pattern(pattern.a * pattern.d, pattern.b, pattern.c, 1).support().double()
    assert torch.equal(left @ block_diagonal @ right, pattern.support().double())


@pytest.mark.parametrize("entries", PATTERNS)
def test_algorithm_1_packs_the_block_diagonal_matrix(entries: tuple[int, int, int, int]) -> None:
    pattern = ksmm.Pattern(*entries)
    weight = torch.randn(entries, dtype=torch.float64)
    left, right = permutations(pattern)
    blocks = Bmm().pack(weight, "batch_first").data
    assert torch.equal(left.T @ to_dense(weight) @ right.T, torch.block_diag(*blocks))
