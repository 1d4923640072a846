"""What `sparse` and `bsr` share: asking PyTorch whether it has a compressed product for a dtype and device."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import torch

BLOCK = 16
"""Block size of the trial: what the GPU routines for half precision start from."""

DEVICE_LOST = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()
"""CUDA errors after which nothing works in this process."""


@functools.cache
def unsupported(compress: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype, device_type: str) -> str | None:
    """None if this PyTorch multiplies such a compressed matrix, else what it said on a small trial.

    Args:
        compress: dense matrix to compressed matrix.
        dtype: of both operands.
        device_type: "cpu" or "cuda".
    """
    if device_type == "cuda" and not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    matrix = torch.eye(2 * BLOCK, dtype=dtype, device=device_type)
    try:
        compressed_matmul(quietly(compress, matrix), matrix, "batch_first")
        compressed_matmul(quietly(compress, matrix), matrix, "batch_last")
    except (torch.OutOfMemoryError, *DEVICE_LOST):
        raise  # says nothing of what PyTorch can do, and must not be remembered as if it did
    except RuntimeError as error:  # NotImplementedError is one
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return f"PyTorch {torch.__version__} on {device_type}: {reason}"
    return None


def compressed_matmul(matrix: torch.Tensor, x: torch.Tensor, layout: str) -> torch.Tensor:
    """torch.nn.functional.linear in batch_first, torch.matmul in batch_last (appendix D.1)."""
    if torch.is_inference_mode_enabled():
        # There, linear transposes a compressed matrix made outside with «Cannot set version_counter for inference
        # tensor» (PyTorch 2.13).
        with torch.inference_mode(False), torch.no_grad():
            return compressed_matmul(matrix, x, layout)
    if layout == "batch_first":
        return torch.nn.functional.linear(x, matrix)
    return torch.matmul(matrix, x)


def quietly(compress: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> torch.Tensor:
    """Calls compress without PyTorch's once-a-process notice that compressed tensors are in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse .* tensor support is in beta state")
        return compress(*arguments)
