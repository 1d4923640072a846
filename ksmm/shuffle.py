"""Perfect shuffle permutations (appendix C), and the block-diagonal form that Algorithm 1 multiplies with."""

from __future__ import annotations

import torch

from ksmm.patterns import Pattern


def perfect_shuffle(p: int, q: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """P_{p,q}, Equation (3): the rows R_0, …, R_{q-1} of the identity of size pq, R_i = {i + qj : 0 ≤ j < p}.

    Returns:
        A permutation matrix of shape (p·q, p·q).
    """
    order = torch.arange(p * q).view(p, q).T.reshape(-1)
    return torch.eye(p * q, dtype=dtype)[order]


def permutations(pattern: Pattern, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """(P, Q) of Equation (1), such that S_(a,b,c,d) = P S_(ad,b,c,1) Q.

    P is I_a ⊗ P_{b,d}, of shape (a·b·d, a·b·d), and Q is (I_a ⊗ P_{c,d})ᵀ, of shape (a·c·d, a·c·d).
    Lemma C.1 fixes the convention: P_{b,d}ᵀ (1_{b×c} ⊗ I_d) P_{c,d} = I_d ⊗ 1_{b×c}.
    """
    identity = torch.eye(pattern.a, dtype=dtype)
    left = torch.kron(identity, perfect_shuffle(pattern.b, pattern.d, dtype))
    right = torch.kron(identity, perfect_shuffle(pattern.c, pattern.d, dtype)).T
    return left, right
