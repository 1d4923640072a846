"""What an exception tells: in one line, and whether the process can go on after it."""

from __future__ import annotations

from typing import Any

import torch

from ksmm.implementations.compressed import DEVICE_LOST

_REASON_LENGTH = 300


class PoisonedError(RuntimeError):
    """A CUDA error after which this process cannot use the device any more, where a new process can.

    Attributes:
        measurement: of status failed, what was being measured.
    """

    measurement: Any


def one_line(error: BaseException) -> str:
    """The first line with text of an exception's message, cut; of PyTorch's account of memory the sum.

    Tabulators and the codes that colour a terminal become spaces: no record may hold them.
    """
    lines = str(error).strip().splitlines()
    lines = ["".join(character if character.isprintable() else " " for character in line).strip() for line in lines]
    first = next(filter(None, lines), type(error).__name__)
    return first.split(" Including non-PyTorch memory")[0][:_REASON_LENGTH]


def is_poison(error: BaseException) -> bool:
    """Whether CUDA failed in a way that every later call in this process fails too (an illegal address, say)."""
    if not isinstance(error, DEVICE_LOST) and "CUDA error" not in str(error):
        return False
    if not torch.cuda.is_initialized():
        return True  # nothing to ask, so the careful answer
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError:
        return True
    return False
