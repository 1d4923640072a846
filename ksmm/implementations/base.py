"""What an implementation is, and the registry that finds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ksmm.operands import along_features
from ksmm.patterns import Pattern
from ksmm.problem import Problem

REGISTRY: dict[str, Implementation] = {}


@dataclass(frozen=True)
class Packed:
    """Weights in the format that one implementation multiplies with.

    Attributes:
        pattern: the pattern of the factor.
        layout: "batch_first" or "batch_last", the layout of the inputs to come.
        data: the implementation's own tensor or tensors.
    """

    pattern: Pattern
    layout: str
    data: Any


class Implementation(ABC):
    """One way of multiplying by a factor.

    A subclass is registered by `@register` and lives in a file of its own in `ksmm/implementations/`, where it is
    found by being there. It holds no state, never changes a dtype, never prints.
    """

    name: ClassVar[str]
    """The name in records, figures and calls."""

    differentiable: ClassVar[bool] = True
    """Whether autograd can trace pack and matmul; where it cannot, `ks_matmul` brings the gradients."""

    trial_fractions: ClassVar[tuple[int, ...]] = (64, 8)
    """Before the whole batch is measured, a 64th and an eighth of it are tried: a product that takes an hour cannot be
    stopped. An implementation that prepares itself for each batch size may name fewer."""

    @abstractmethod
    def supports(self, problem: Problem) -> str | None:
        """None if the problem can be multiplied, else the reason why not (it ends up in the record)."""

    @abstractmethod
    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        """Converts the canonical weight, of shape (a, b, c, d); done once for many products."""

    def pack_once(self, weight: torch.Tensor, layout: str) -> Packed:
        """As `pack`, for weights that are used once; what it returns may share their memory.

        The gradient has the strides of the weight, also those of a single element, which are only numbers, but which
        torch.nn.parallel.DistributedDataParallel compares.
        """
        if weight.requires_grad and weight.is_contiguous():
            weight = weight.reshape(-1).view(weight.shape)
        return self.pack(weight, layout)

    @abstractmethod
    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        """Y = X Kᵀ.

        Args:
            packed: what `pack` returned for this layout.
            x: shape (B, a·c·d) in batch_first, (a·c·d, B) in batch_last; of the dtype and device of the weight.

        Returns:
            Shape (B, a·b·d) in batch_first, (a·b·d, B) in batch_last.
        """

    def matmul_bias(self, packed: Packed, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Y = X Kᵀ + bias, in one step where the implementation can.

        Args:
            packed: what `pack` returned for this layout.
            x: as for `matmul`.
            bias: shape (a·b·d,), of the dtype and device of x.

        Returns:
            As `matmul`.
        """
        return self.matmul(packed, x) + along_features(bias, packed.layout)

    def configuration_of(self, packed: Packed, x: torch.Tensor) -> str:
        """The name of the configuration in which `matmul` takes these operands; empty where there is only one way."""
        return ""


def register(cls: type[Implementation]) -> type[Implementation]:
    """Class decorator: puts an instance of the class into the registry, under its name.

    Raises:
        ValueError: the name is taken.
    """
    if cls.name in REGISTRY:
        raise ValueError(f"two implementations are named {cls.name!r}: {REGISTRY[cls.name]!r} and {cls!r}")
    REGISTRY[cls.name] = cls()
    return cls
