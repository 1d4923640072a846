"""The discrete Fourier transform as a square dyadic chain (Figure 1)."""

from __future__ import annotations

import math

import torch

from ksmm.catalogue import square_dyadic


def dft_matrix(size: int) -> torch.Tensor:
    """F[m, n] = exp(−2πi·mn/N), complex128, of shape (N, N)."""
    index = torch.arange(size, dtype=torch.float64)
    return torch.exp(-2j * math.pi * torch.outer(index, index) / size)


def dft_weights(size: int) -> list[torch.Tensor]:
    """Weights of the square dyadic chain K_1 … K_L whose product is F with its columns in bit-reversed order.

    Decimation in time: F_N = [[I, Ω], [I, −Ω]] (I_2 ⊗ F_{N/2}) P with Ω = diag(exp(−2πi·j/N)), applied L times;
    P sorts even indices before odd ones, and the product of all P is the bit reversal.

    Args:
        size: N, a power of two that is at least 2.

    Returns:
        L canonical weights, complex128; the l-th of shape (2^{l−1}, 2, 2, 2^{L−l}).

    Raises:
        ValueError: size is not a power of two that is at least 2.
    """
    weights = []
    for a, b, c, d in square_dyadic(size):
        twiddle = torch.exp(-1j * math.pi * torch.arange(d, dtype=torch.float64) / d)
        one = torch.ones(d, dtype=torch.complex128)
        block = torch.stack([one, twiddle, one, -twiddle]).view(1, b, c, d)
        weights.append(block.expand(a, b, c, d).contiguous())
    return weights


def bit_reversal(size: int) -> torch.Tensor:
    """The permutation of 0 … N−1 (a power of two) that reverses the order of each index's bits."""
    bits = size.bit_length() - 1
    return torch.tensor([int(f"{index:0{bits}b}"[::-1], 2) if bits else 0 for index in range(size)])
