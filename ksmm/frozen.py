"""One factor of a frozen layer: its weight, packed once for each implementation that multiplies by it."""

from __future__ import annotations

import torch

from ksmm.functional import choice_of, choices
from ksmm.implementations import Packed, get_implementation


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
        self._weight, self._layout = weight, layout
        self._ranges = choices(
            tuple(weight.shape), weight.dtype, layout, weight.device.type, implementation, weight.device.index, True
        )
        name = self._ranges[0][2]
        self._of_large = name, self._pack(name)
        self._packed = dict([self._of_large])

    def chosen(self, x: torch.Tensor) -> tuple[str, Packed]:
        """The implementation for the batch size of x, by name, and the weight as packed for it.

        That of large batches where the choice does not depend on the batch size; in graphs of torch.compile and
        torch.jit.trace, which serve every batch size; and where a CUDA graph is captured before another is packed.

        Args:
            x: shape (B, a·c·d) in batch_first, (a·c·d, B) in batch_last.
        """
        if len(self._ranges) == 1 or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return self._of_large
        name = choice_of(self._ranges, x.shape[0 if self._layout == "batch_first" else 1])
        packed = self._packed.get(name)
        if packed is None:
            if type(x) is not torch.Tensor or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
                return self._of_large
            packed = self._pack_later(name)
        return name, packed

    def _pack(self, name: str) -> Packed:
        return get_implementation(name).pack(self._weight.detach(), self._layout)

    def _pack_later(self, name: str) -> Packed:
        """As at freezing, whatever the mode of the present call; others may come for it on any stream."""
        with torch.inference_mode(False), torch.no_grad():
            packed = self._pack(name)
        if self._weight.is_cuda:
            torch.cuda.current_stream(self._weight.device).synchronize()
        self._packed[name] = packed
        return packed
