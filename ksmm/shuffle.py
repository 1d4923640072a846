"""Perfect shuffle permutations (appendix C), and the block-diagonal form that Algorithm 1 multiplies with."""

from __future__ import annotations

import torch

from ksmm.patterns import Pattern


def perfect_shuffle(p: int, q: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """P_{p,q}, the (p, q) perfect shuffle of appendix C: Lemma C.1 and Equation (1) hold as they are printed.

    Column i·p + j is the unit vector of index i + q·j (0 ≤ i < q, 0 ≤ j < p), so that P_{p,q}ᵀ x gathers every q-th
    entry of x. Equation (3) prints these unit vectors as rows; with that matrix, which is the transposed one, Lemma
    C.1 fails for b, d > 1 (it would need P_{b,d} (1_{b×c} ⊗ I_d) P_{c,d}ᵀ), so the transposition here is deliberate.

    Returns:
        A permutation matrix of shape (p·q, p·q).
    """
    order = torch.arange(p * q).view(p, q).T.reshape(-1)
    return torch.eye(p * q, dtype=dtype)[:, order]


def permutations(pattern: Pattern, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """(P, Q) of Equation (1), such that S_(a,b,c,d) = P S_(ad,b,c,1) Q.

    P is I_a ⊗ P_{b,d}, of shape (a·b·d, a·b·d), and Q is (I_a ⊗ P_{c,d})ᵀ, of shape (a·c·d, a·c·d).
    """
    identity = torch.eye(pattern.a, dtype=dtype)
    left = torch.kron(identity, perfect_shuffle(pattern.b, pattern.d, dtype))
    right = torch.kron(identity, perfect_shuffle(pattern.c, pattern.d, dtype)).T
    return left, right
