"""`lazylinop`: the current package of the paper's authors, if it is installed (the extra `lazylinop`).

On a CPU it multiplies with NumPy; on CUDA, through CuPy, it is the authors' own kernel, which it compiles and tunes
itself at the first product of each batch size. Both see PyTorch's memory through DLPack, so nothing is copied.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import warnings
from types import ModuleType
from typing import Any

import numpy
import torch

from ksmm.implementations.base import Implementation, Packed, register
from ksmm.implementations.compressed import DEVICE_LOST
from ksmm.names import dtype_name
from ksmm.problem import Problem
from ksmm.reference import pattern_of

_DTYPES = (torch.float16, torch.float32, torch.float64)
_NEEDED = {"cpu": ("lazylinop", "psutil"), "cuda": ("lazylinop", "psutil", "cupy", "pyopencl")}
"""Also what lazylinop 1.24 does not declare: without PyOpenCL its CUDA route stops with an AttributeError."""

_TRIAL = (1, 64, 64, 2)


@register
class LazyLinOp(Implementation):
    """lazylinop.butterfly.ksm, which multiplies from the left: batch_last alone."""

    name = "lazylinop"
    differentiable = False
    trial_fractions = (8,)  # for a 64th of 25,088 it looks through all tile sizes, in Python, for 10 to 30 seconds

    def supports(self, problem: Problem) -> str | None:
        if problem.device_type not in _NEEDED:
            return f"device {problem.device_type}; lazylinop runs on cpu and cuda"
        if problem.layout != "batch_last":
            return f"{problem.layout}: lazylinop multiplies from the left, so the batch comes last"
        if problem.dtype not in _DTYPES:
            names = ", ".join(map(dtype_name, _DTYPES))
            return f"dtype {dtype_name(problem.dtype)}; NumPy and CuPy have {names}"
        if problem.dtype == torch.float16 and problem.device_type == "cuda":
            return "float16: lazylinop's CUDA kernel rounds every partial sum to float16, a relative error of 1e-3"
        for package in _NEEDED[problem.device_type]:
            if importlib.util.find_spec(package) is None:
                return f"the package {package} is not installed; see the extra lazylinop in pyproject.toml"
        return _unsupported(problem.dtype, problem.device_type)

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        return Packed(pattern_of(weight), layout, _operator(weight.detach().contiguous()))

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        return _multiply(packed.data, x)


def _operator(weight: torch.Tensor) -> Any:
    backend = "ksmm" if weight.device.type == "cuda" else "xp"
    with _present_stream(weight):
        return _ksm()(_arrays(weight).from_dlpack(weight), {"backend": backend, "params": None})


def _multiply(operator: Any, x: torch.Tensor) -> torch.Tensor:
    with _present_stream(x):
        return torch.from_dlpack(operator @ _arrays(x).from_dlpack(x.detach()))


def _arrays(tensor: torch.Tensor) -> ModuleType:
    return numpy if tensor.device.type == "cpu" else importlib.import_module("cupy")


def _present_stream(tensor: torch.Tensor) -> contextlib.AbstractContextManager:
    """CuPy computes on a stream of its own unless it is told PyTorch's."""
    if tensor.device.type == "cpu":
        return contextlib.nullcontext()
    stream, cuda = torch.cuda.current_stream(tensor.device), importlib.import_module("cupy").cuda
    if hasattr(stream, "__cuda_stream__") and hasattr(cuda.Stream, "from_external"):
        return cuda.Stream.from_external(stream)
    return cuda.ExternalStream(stream.cuda_stream, stream.device_index)  # deprecated since CuPy 14


@functools.cache
def _ksm() -> Any:
    """lazylinop.butterfly.ksm, imported late: importing lazylinop takes seconds."""
    with warnings.catch_warnings(record=True):  # packages that other parts of lazylinop would like to have
        return importlib.import_module("lazylinop.butterfly").ksm


@functools.cache
def _unsupported(dtype: torch.dtype, device_type: str) -> str | None:
    """None if this lazylinop multiplies on the device, else what it said on a small trial."""
    if device_type == "cuda" and not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    weight = torch.full(_TRIAL, 0.5, dtype=dtype, device=device_type)
    try:
        _multiply(_operator(weight), torch.ones(128, 256, dtype=dtype, device=device_type))
    except (torch.OutOfMemoryError, *DEVICE_LOST):
        raise  # says nothing of what lazylinop can do
    except Exception as error:  # noqa: BLE001 - it raises AttributeError, RuntimeError and plain Exception
        said = (str(error).strip() or "nothing more").splitlines()[0]
        return f"lazylinop on {device_type}: {type(error).__name__}: {said}"
    return None
