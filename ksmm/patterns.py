"""Kronecker-sparsity patterns (Definition 2.1 of the paper) and chains of them (Figure 1)."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, order=True)
class Pattern:
    """The pattern (a, b, c, d) of a matrix with support I_a ⊗ 1_{b×c} ⊗ I_d.

    Definition 2.1: the matrix has a·b·d rows and a·c·d columns; block i of its diagonal (of a) holds
    b × c diagonal matrices of size d × d.

    >>> pattern = Pattern(1, 192, 48, 2)
    >>> pattern.shape
    (384, 96)
    >>> Pattern.parse("1,192,48,2") == pattern
    True

    Raises:
        TypeError: an entry is not an integer.
        ValueError: an entry is smaller than 1.
    """

    a: int
    b: int
    c: int
    d: int

    def __post_init__(self) -> None:
        for name, described in _ENTRIES:
            object.__setattr__(self, name, positive_integer(described, getattr(self, name)))

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Reads "a,b,c,d" (spaces and enclosing parentheses or brackets are ignored).

        Raises:
            TypeError: it is no text.
            ValueError: the text is not four positive integers.
        """
        if not isinstance(text, str):
            raise TypeError(f"pattern is {text!r} ({type(text).__name__}); it must be text such as '1,192,48,2'")
        entries = text.strip().strip("()[]").split(",")
        try:
            values = [int(entry) for entry in entries]
        except ValueError:
            values = []
        if len(values) != 4:
            raise ValueError(
                f"pattern {text!r} is not four integers separated by commas; write it as a,b,c,d, e.g. 1,192,48,2"
            )
        return cls(*values)

    def __str__(self) -> str:
        return f"{self.a},{self.b},{self.c},{self.d}"

    def __iter__(self) -> Iterator[int]:
        return iter((self.a, self.b, self.c, self.d))

    @property
    def slug(self) -> str:
        """A name for files: "1x192x48x2"."""
        return "x".join(map(str, self))

    @property
    def rows(self) -> int:
        """a·b·d, the output dimension M."""
        return self.a * self.b * self.d

    @property
    def columns(self) -> int:
        """a·c·d, the input dimension N."""
        return self.a * self.c * self.d

    @property
    def shape(self) -> tuple[int, int]:
        """(a·b·d, a·c·d): rows and columns of the matrix."""
        return self.rows, self.columns

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(a, b, c, d): shape of the canonical weight tensor."""
        return self.a, self.b, self.c, self.d

    @property
    def nnz(self) -> int:
        """a·b·c·d, the largest number of nonzero entries."""
        return self.a * self.b * self.c * self.d

    @property
    def density(self) -> float:
        """Nnz over the number of entries, 1/(a·d) (Section 2)."""
        return 1 / (self.a * self.d)

    @property
    def memory_ratio(self) -> float:
        """(b+c)/(bc): rewritten entries of bmm per multiplication, Equation (2)."""
        return (self.b + self.c) / (self.b * self.c)

    @property
    def energy_ratio(self) -> float:
        """d(b+c)/(bc): the proxy for the energy of memory rewritings, Section 5."""
        return self.d * self.memory_ratio

    def support(self) -> torch.Tensor:
        """I_a ⊗ 1_{b×c} ⊗ I_d as a boolean tensor of shape (a·b·d, a·c·d)."""
        import torch  # not needed to name patterns, nor to read tables of them

        identity_a = torch.eye(self.a, dtype=torch.bool)
        ones = torch.ones(self.b, self.c, dtype=torch.bool)
        identity_d = torch.eye(self.d, dtype=torch.bool)
        return torch.kron(torch.kron(identity_a, ones), identity_d)


_ENTRIES = tuple((name, f"pattern entry {name}") for name in "abcd")


def positive_integer(described: str, value: object) -> int:
    """The value as an int.

    Args:
        described: what it is the value of, for errors.
        value: anything.

    Raises:
        TypeError: it is no integer.
        ValueError: it is below 1.
    """
    # the rule, and microseconds of a product count; index() makes a number of what is symbolic in torch.compile
    if type(value) is int and (integer := operator.index(value)) >= 1:
        return integer
    integer = any_integer(described, value)
    if integer < 1:
        raise ValueError(f"{described} is {integer}; it must be at least 1")
    return integer


def any_integer(described: str, value: object) -> int:
    """As positive_integer, without the ValueError."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{described} is {value!r} ({type(value).__name__}); it must be a positive integer") from None


@dataclass(frozen=True, init=False)
class Chain:
    """The patterns of W = K_1 … K_L, in the paper's order: K_L is applied to the input first.

    >>> chain = Chain([(1, 192, 48, 2), (2, 48, 192, 1)])
    >>> chain.shape
    (384, 384)

    Raises:
        TypeError: it is not a list of patterns, or an entry of one is not an integer.
        ValueError: the list is empty, or the columns of one factor differ from the rows of the next.
    """

    patterns: tuple[Pattern, ...]

    def __init__(self, patterns: Iterable[Pattern | tuple[int, int, int, int]]) -> None:
        factors = _listed_patterns(patterns)
        if not factors:
            raise ValueError(
                "a chain needs at least one pattern; give a list such as [(1, 192, 48, 2), (2, 48, 192, 1)]"
            )
        for position, (left, right) in enumerate(itertools.pairwise(factors), start=1):
            if left.columns != right.rows:
                raise ValueError(
                    f"factors {position} ({left}) and {position + 1} ({right}) do not chain: K_{position} has "
                    f"a·c·d = {left.columns} columns, K_{position + 1} has a·b·d = {right.rows} rows; "
                    "they must be equal (the first factor listed is applied last)"
                )
        object.__setattr__(self, "patterns", factors)

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self.patterns)

    def __len__(self) -> int:
        return len(self.patterns)

    def __getitem__(self, index: int) -> Pattern:
        return self.patterns[index]

    def __str__(self) -> str:
        return " · ".join(f"({p})" for p in self.patterns)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows of K_1, columns of K_L): the size of W."""
        return self.patterns[0].rows, self.patterns[-1].columns

    @property
    def nnz(self) -> int:
        """Number of weights, over all factors."""
        return sum(p.nnz for p in self.patterns)

    @property
    def density(self) -> float:
        """Number of weights over the number of entries of W."""
        return self.nnz / math.prod(self.shape)


def _listed_patterns(given: object) -> tuple[Pattern, ...]:
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str | Pattern) else [None]
    if not all(isinstance(entry, Iterable) and not isinstance(entry, str) for entry in listed):
        raise TypeError(
            f"the chain is {given!r}; it must be a list of patterns (a, b, c, d), also for one factor, such as "
            "[(1, 192, 48, 2)]; ksmm.default_chain(in_features, out_features) gives a chain of a size"
        )
    for position, entries in enumerate(map(tuple, listed), start=1):
        if len(entries) != 4:
            raise TypeError(f"factor {position} of the chain is {entries}; it must be four integers (a, b, c, d)")
    return tuple(entry if isinstance(entry, Pattern) else Pattern(*entry) for entry in listed)
