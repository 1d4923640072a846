"""What a frozen layer keeps: its weights, packed once for each implementation that multiplies by them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from ksmm.functional import choice_of, choices
from ksmm.implementations import Packed, get_implementation


class FrozenChain:
    """The packed weights of a layer, and what tells whether they are still the layer's.

    Attributes:
        factors: in the order of the products, K_L first.
        dtype: of the weights.
        device: of the weights.

    Args:
        weights: K_1 first.
        layout: "batch_first" or "batch_last".
        implementation: a name, or "auto".

    Raises:
        ValueError: as FrozenFactor.
    """

    def __init__(self, weights: Iterable[torch.Tensor], layout: str, implementation: str) -> None:
        weights = list(weights)
        self.factors = [FrozenFactor(weight, layout, implementation) for weight in weights][::-1]
        self.dtype, self.device = weights[0].dtype, weights[0].device
        # with their versions and addresses, which are nobody else's as long as the factors hold that memory
        self._weights = [
            (weight, None if weight.is_inference() else weight._version, weight.data_ptr()) for weight in weights
        ]

    def is_of(self, factors: nn.ParameterList) -> bool:
        """Whether the weights are those that were packed: the same tensors, and not changed in place since."""
        weights = factors._parameters  # iterating over the factors takes as long as a small product
        if len(weights) != len(self._weights):  # parametrized ones are not there
            return False
        if factors._forward_pre_hooks or factors._forward_hooks:  # pruning, or what else makes other weights of them
            return False
        only_identity = torch.compiler.is_compiling()  # versions and addresses are no part of a graph
        for weight, (packed, version, address) in zip(weights.values(), self._weights, strict=True):
            if weight is not packed:
                return False
            if only_identity:
                continue
            if not (version is None or weight._version == version) or weight.data_ptr() != address:
                return False
        return True

    def is_over(self, factors: nn.ParameterList) -> bool:
        """Whether a weight that was packed has changed, or may soon, unseen: a call records gradients of it.

        A step of a fused optimizer, by which the weight may change then, leaves its version as it was.
        """
        if any(
            weight.data_ptr() != address or not (version is None or weight._version == version)
            for weight, version, address in self._weights
        ):
            return True
        packed = {id(weight) for weight, _, _ in self._weights}
        return torch.is_grad_enabled() and any(
            weight.requires_grad and id(weight) in packed for weight in factors.parameters()
        )


class FrozenFactor:
    """A weight that is packed for the implementation of large batches, and for others at the first batch for them.

    Args:
        weight: shape (a, b, c, d).
        layout: "batch_first" or "batch_last".
        implementation: a name, or "auto", whose choice may depend on the batch size.

    Raises:
        ValueError: there is no such implementation, or it does not support the problem.
    """

    def __init__(self, weight: torch.Tensor, layout: str, implementation: str) -> None:
        self._weight, self._layout = weight.detach(), layout
        self._ranges = choices(
            tuple(weight.shape), weight.dtype, layout, weight.device.type, implementation, weight.device.index, True
        )
        name = self._ranges[0][2]
        self._of_large = name, self._pack(name)
        self._packed = dict([self._of_large])

    def chosen(self, x: torch.Tensor) -> tuple[str, Packed]:
        """The implementation for the batch size of x, by name, and the weight as packed for it.

        That of large batches where the choice does not depend on the batch size; in graphs of torch.compile,
        torch.jit.trace and make_fx, which serve every batch size; and where a CUDA graph is captured before another is
        packed.

        Args:
            x: shape (B, a·c·d) in batch_first, (a·c·d, B) in batch_last.
        """
        if len(self._ranges) == 1 or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return self._of_large
        batch_size = x.shape[0 if self._layout == "batch_first" else 1]
        if type(batch_size) is not int:  # symbolic
            return self._of_large
        name = choice_of(self._ranges, batch_size)
        packed = self._packed.get(name)
        if packed is None:
            if type(x) is not torch.Tensor or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
                return self._of_large
            packed = self._pack_later(name)
        return name, packed

    def _pack(self, name: str) -> Packed:
        return get_implementation(name).pack(self._weight, self._layout)

    def _pack_later(self, name: str) -> Packed:
        """As at freezing, whatever the mode of the present call; others may come for it on any stream."""
        with torch.inference_mode(False), torch.no_grad():
            packed = self._pack(name)
        if self._weight.is_cuda:
            torch.cuda.current_stream(self._weight.device).synchronize()
        self._packed[name] = packed
        return packed
