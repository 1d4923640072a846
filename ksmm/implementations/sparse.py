"""`sparse`: the factor in compressed sparse row format, its structure ignored (Section 2.1, appendix D.1)."""

from __future__ import annotations

import torch

from ksmm.implementations.base import Implementation, Packed, register
from ksmm.implementations.compressed import compressed_matmul, quietly, unsupported
from ksmm.problem import Problem
from ksmm.reference import pattern_of


@register
class Sparse(Implementation):
    """PyTorch's product with a CSR matrix."""

    name = "sparse"
    differentiable = False

    def supports(self, problem: Problem) -> str | None:
        return unsupported(torch.Tensor.to_sparse_csr, problem.dtype, problem.device_type)

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        return Packed(pattern_of(weight), layout, csr_matrix(weight))

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        return compressed_matmul(packed.data, x, packed.layout)


def csr_matrix(weight: torch.Tensor) -> torch.Tensor:
    """The factor of a canonical weight (a, b, c, d) as a CSR matrix that stores zeros inside the support, too."""
    a, b, c, d = pattern_of(weight)
    index = {"dtype": torch.int64, "device": weight.device}
    i, j, k = (torch.arange(size, **index) for size in (a, d, c))
    # Row (i, r, j) holds the columns (i, k, j) for every k.
    columns = i.view(a, 1, 1, 1) * (c * d) + k.view(1, 1, 1, c) * d + j.view(1, 1, d, 1)
    columns = columns.expand(a, b, d, c).reshape(-1)
    row_starts = torch.arange(0, weight.numel() + 1, c, **index)
    if weight.numel() < 2**31:  # MKL and cuSPARSE are faster on 32-bit indices.
        columns, row_starts = columns.int(), row_starts.int()
    values = weight.permute(0, 1, 3, 2).reshape(-1)
    size = (a * b * d, a * c * d)
    return quietly(lambda: torch.sparse_csr_tensor(row_starts, columns, values, size, check_invariants=False))
