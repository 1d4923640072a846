"""A network as it is measured: a module, what it is fed, and its dense equivalent on some of that."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ksmm.networks.cache import RepeatableCache
from ksmm.networks.equivalent import dense_equivalent


class UnavailableError(RuntimeError):
    """A network that cannot be built or run here; the message says what is missing."""


def require_transformers() -> None:
    """Checks that networks can be made of transformers.

    Raises:
        UnavailableError: it cannot be imported, or is older than 5.18: until 4 it calls its modules by other names, and
            until 5.17 attention in a captured CUDA graph takes a mask, and slower kernels, where eager one has none.
    """
    try:
        import transformers
    except ImportError as error:
        raise UnavailableError(f"transformers cannot be imported ({error}); pip install -e .[networks]") from None
    if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 18):
        raise UnavailableError(f"transformers is {transformers.__version__}, and must be 5.18 or newer")


@dataclass(frozen=True)
class Network:
    """A module in evaluation mode with its inputs, all on one device.

    Attributes:
        module: called with the inputs, and the cache if there is one; it returns a tensor. The first dimension of
            inputs and result is the batch, whose items do not depend on each other.
        inputs: of the module.
        replaced: globs for the names of the layers that a Kronecker-sparse network replaces.
        blocks: the repeated parts, or the module itself: what torch.compile is given.
        cache: keys and values of earlier tokens, or None.
    """

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    replaced: tuple[str, ...]
    blocks: tuple[nn.Module, ...]
    cache: RepeatableCache | None = None

    def run(self) -> torch.Tensor:
        """One forward pass."""
        return self.module(*self.inputs, *([] if self.cache is None else [self.cache]))

    def equivalent_output(self, items: list[int], dtype: torch.dtype) -> torch.Tensor:
        """What the dense equivalent of the module, in a dtype, makes of some items of the batch."""
        module = dense_equivalent(self.module, dtype)
        inputs = [x[items].to(dtype) if x.is_floating_point() else x[items] for x in self.inputs]
        caches = [] if self.cache is None else [self.cache.picked(items, dtype)]
        return module(*inputs, *caches)


class OneOutput(nn.Module):
    """A module that returns the tensor of another one's result: the field of a name, or the first of a tuple.

    Args:
        inner: the other module.
        field: the name of a field of its result, "" for the first entry of a tuple, or the tensor itself.
        options: given to every call.
    """

    def __init__(self, inner: nn.Module, field: str = "", **options: object) -> None:
        super().__init__()
        self.inner = inner
        self.field = field
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The inner module's output."""
        result = self.inner(x, **self.options)
        if self.field:
            return getattr(result, self.field)
        return result[0] if isinstance(result, tuple) else result
