"""The truth that every implementation is held to: float64, written for reading."""

from __future__ import annotations

import math

import torch

from ksmm.patterns import Pattern


def pattern_of(weight: torch.Tensor) -> Pattern:
    """The pattern of a canonical weight tensor, which has shape (a, b, c, d).

    Raises:
        ValueError: the tensor does not have four dimensions, or one of them is empty.
    """
    if weight.dim() != 4 or 0 in weight.shape:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}; the canonical weight of a pattern (a, b, c, d) "
            "is a tensor of shape (a, b, c, d) with every entry at least 1"
        )
    return Pattern(*weight.shape)


def to_dense(weight: torch.Tensor) -> torch.Tensor:
    """The matrix K of a canonical weight: K[i·bd + r·d + j, i·cd + k·d + j] = weight[i, r, k, j].

    Args:
        weight: shape (a, b, c, d).

    Returns:
        Shape (a·b·d, a·c·d), same dtype and device; differentiable.
    """
    a, b, c, d = pattern_of(weight)
    matrix = weight.new_zeros(a, b, d, a, c, d)
    support = matrix.diagonal(dim1=0, dim2=3).diagonal(dim1=1, dim2=3)  # (b, c, a, d), a view
    support.copy_(weight.permute(1, 2, 0, 3))
    return matrix.view(a * b * d, a * c * d)


def reference_matmul(weight: torch.Tensor, x: torch.Tensor, layout: str) -> torch.Tensor:
    """Y = X Kᵀ in float64 (Algorithm 2 as one sum): Y[n, i, r, j] = Σ_k X[n, i, k, j] weight[i, r, k, j].

    Args:
        weight: shape (a, b, c, d).
        x: shape (B, a·c·d) in batch_first, (a·c·d, B) in batch_last.
        layout: "batch_first" or "batch_last".

    Returns:
        float64, shape (B, a·b·d) or (a·b·d, B).
    """
    a, b, c, d = weight.shape
    weight = weight.double()
    if layout == "batch_first":
        x = x.double().reshape(-1, a, c, d)
        return torch.einsum("nikj,irkj->nirj", x, weight).reshape(-1, a * b * d)
    x = x.double().reshape(a, c, d, -1)
    return torch.einsum("ikjn,irkj->irjn", x, weight).reshape(a * b * d, -1)


def relative_error(y: torch.Tensor, reference: torch.Tensor) -> float:
    """‖y − reference‖ / ‖reference‖ (Frobenius), in float64; 0 where both are empty or zero.

    Infinite where y or the reference holds NaN or infinity, and where the reference alone is zero.
    """
    difference = torch.linalg.vector_norm(y.double() - reference).item()
    return ratio_of_norms(difference, torch.linalg.vector_norm(reference).item())


def ratio_of_norms(difference: float, norm: float) -> float:
    """What relative_error makes of the two norms."""
    if difference == 0.0:
        return 0.0
    return difference / norm if norm and math.isfinite(difference) else math.inf
