"""Accuracy classes: within one of them times are compared; and the check that a network passes before it is timed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from ksmm.measure import timer

_ROUNDOFF = {"strict": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_DENSE_ROUNDOFFS = 256
_WORSE = 4


@contextlib.contextmanager
def precision(accuracy_class: str) -> Iterator[None]:
    """What PyTorch is allowed in this class; what was set before is restored.

    In float16 and bfloat16 sums are in float32, as in the pattern benchmark.
    """
    with timer.strict_precision():
        if accuracy_class == "tf32":
            torch.set_float32_matmul_precision("high")
            torch.backends.cudnn.allow_tf32 = True
        yield


def dense_tolerance(accuracy_class: str) -> float:
    """The largest relative error against float64 of a network that keeps its dense layers.

    256 times the class's unit roundoff: 1.5e-5 in strict, 0.125 in float16. It tells a broken network from a
    working one, over any depth, and no more.
    """
    return _DENSE_ROUNDOFFS * _ROUNDOFF[accuracy_class]


def tolerance(accuracy_class: str, dense_error: float) -> float:
    """The largest relative error of a Kronecker-sparse network: four times that of its dense equivalent.

    Both are against the dense equivalent in float64, and in the same accuracy class, so that the depth of the network
    and what it does to errors cancel. The class's unit roundoff is added, for an equivalent that happens to be exact.
    The factor leaves room for what is rounded between two factors, and in float16 for weights that the dense
    equivalent holds rounded.
    """
    return _WORSE * dense_error + _ROUNDOFF[accuracy_class]
