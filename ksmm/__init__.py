"""Multiplication with Kronecker-sparse matrices: supports I_a ⊗ 1_{b×c} ⊗ I_d, and chains of them.

What is here is imported when it is first asked for: PyTorch takes more than a second, and who draws a table does not
need it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ksmm.version import __version__

if TYPE_CHECKING:
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
    from ksmm.names import LAYOUTS
    from ksmm.pattern_lists import benchmark_patterns, energy_patterns
    from ksmm.patterns import Chain, Pattern
    from ksmm.problem import DTYPES, Problem
    from ksmm.replace import replace_linear

_MODULES = {
    "catalogue": (
        "block_butterfly",
        "deformable_butterfly",
        "dense",
        "kaleidoscope",
        "low_rank",
        "monarch",
        "square_dyadic",
    ),
    "functional": ("ks_matmul",),
    "heuristic": ("default_chain",),
    "implementations": ("implementations",),
    "implementations.kernel": ("load_kernel",),
    "linear": ("KSLinear",),
    "names": ("LAYOUTS",),
    "pattern_lists": ("benchmark_patterns", "energy_patterns"),
    "patterns": ("Chain", "Pattern"),
    "problem": ("DTYPES", "Problem"),
    "replace": ("replace_linear",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

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


class _Package(ModuleType):
    """ksmm itself, where `implementations` is the function, although a subpackage of that name exists."""

    def __getattr__(self, name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{self.__name__}.{_MODULE_OF[name]}"), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):  # as Python does with each subpackage imported
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
