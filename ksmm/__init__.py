"""Multiplication with Kronecker-sparse matrices: supports I_a ⊗ 1_{b×c} ⊗ I_d, and chains of them."""

from ksmm.catalogue import (
    block_butterfly,
    deformable_butterfly,
    dense,
    kaleidoscope,
    low_rank,
    monarch,
    square_dyadic,
)
from ksmm.functional import ks_matmul
from ksmm.heuristic import default_chain
from ksmm.implementations import implementations
from ksmm.implementations.kernel import load_kernel
from ksmm.linear import KSLinear
from ksmm.pattern_lists import benchmark_patterns, energy_patterns
from ksmm.patterns import Chain, Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from ksmm.replace import replace_linear
from ksmm.version import __version__

__all__ = [
    "DTYPES",
    "LAYOUTS",
    "Chain",
    "KSLinear",
    "Pattern",
    "Problem",
    "__version__",
    "benchmark_patterns",
    "block_butterfly",
    "default_chain",
    "deformable_butterfly",
    "dense",
    "energy_patterns",
    "implementations",
    "kaleidoscope",
    "ks_matmul",
    "load_kernel",
    "low_rank",
    "monarch",
    "replace_linear",
    "square_dyadic",
]
