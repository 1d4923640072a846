"""`default_chain`: a chain for a linear layer of any size, where nobody has chosen one."""

from __future__ import annotations

from ksmm.catalogue import monarch
from ksmm.patterns import Chain, positive_integer

BUDGET = 0.25
"""The share of the dense layer's weights that a chain may have: that of the paper's N × N chain (appendix B.7)."""

_MULTIPLES = (64, 32, 16)


def default_chain(in_features: int, out_features: int, budget: float = BUDGET) -> Chain | None:
    """A Monarch chain of two factors with at most `budget` of the dense weights, or None where there is none.

    The chain is (1, M/p, m/p, p), (p, m/p, N/p, 1) with M = out_features, N = in_features and m = min(M, N). It has
    m(M + N)/p weights, (M + N)/(p·max(M, N)) of the dense ones: 2/p for a square layer. Why so:

    - Two factors are the fewest that mix all inputs, and each more is one more pass over device memory.
    - The first that acts has d = 1 and the second a = 1; the rank is min(M, N), as that of the dense layer.
    - M/p, m/p and N/p, the sides of the blocks, are multiples of 64, which matrix units take without padding; where no
      p gives that within the budget, of 32, and then of 16.
    - p is the smallest that keeps the budget: the largest blocks, and the most weights.

    >>> print(default_chain(1024, 4096))
    (1,512,128,8) · (8,128,128,1)

    Args:
        in_features: N.
        out_features: M.
        budget: the largest share of M·N weights.

    Returns:
        The chain; None if no common divisor p of M and N gives blocks of a multiple of 16 within the budget. Such a
        layer (one with 1,000 or 50,257 outputs, say) is better left dense.

    Raises:
        TypeError: a size is no integer.
        ValueError: a size is below 1, or the budget not between 0 and 1.
    """
    in_features = positive_integer("in_features", in_features)
    out_features = positive_integer("out_features", out_features)
    if not 0 < budget <= 1:
        raise ValueError(f"budget is {budget}; it must be above 0 and at most 1, a share of the dense weights")
    most = max(in_features, out_features)
    for multiple in _MULTIPLES:
        for blocks in range(1, min(in_features, out_features) // multiple + 1):
            fits = not any(size % (blocks * multiple) for size in (in_features, out_features))
            if fits and in_features + out_features <= budget * blocks * most:
                return monarch(out_features, in_features, blocks)
    return None
