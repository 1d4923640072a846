"""Which chain takes the place of which linear layer: the paper's (appendix B.7), or the heuristic's."""

from __future__ import annotations

from ksmm.heuristic import default_chain
from ksmm.patterns import Chain
from ksmm.replace import Rule


def paper_chain(in_features: int, out_features: int) -> Chain:
    """The chains of appendix B.7, given there for N = 384 and here for any N that 24 divides.

    N × N: (1, N/2, N/8, 2), (2, N/8, N/2, 1), a quarter of the dense weights, of rank N/4 at most. 4N × N:
    (1, 2N, N/2, 2), (6, N/6, N/6, 1), 54 %. The appendix lists 4N × N twice, where the second must be N × 4N; it has
    the transposed chain here: (6, N/6, N/6, 1), (1, N/2, 2N, 2).

    >>> print(paper_chain(384, 1536))
    (1,768,192,2) · (6,64,64,1)

    Raises:
        ValueError: another size.
    """
    n = min(in_features, out_features)
    if n % 24 or max(in_features, out_features) not in (n, 4 * n):
        raise ValueError(
            f"the paper has chains for N × N, 4N × N and N × 4N, where 24 divides N; {out_features} × {in_features} "
            "is none of these: choose the chains 'default'"
        )
    if in_features == out_features:
        return Chain([(1, n // 2, n // 8, 2), (2, n // 8, n // 2, 1)])
    if out_features > in_features:
        return Chain([(1, 2 * n, n // 2, 2), (6, n // 6, n // 6, 1)])
    return Chain([(6, n // 6, n // 6, 1), (1, n // 2, 2 * n, 2)])


CHAINS: dict[str, Rule] = {"paper": paper_chain, "default": default_chain}
"""Name in records -> rule."""
