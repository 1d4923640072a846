"""A cache of keys and values whose position does not advance, so that one step can be repeated, and captured."""

from __future__ import annotations

import torch


class RepeatableCache:
    """Keys and values of all layers at a fixed length, in the interface that transformers' models use.

    A step writes its keys and values behind `offset` earlier ones, in place, and attends to all of them. It does not
    advance: repeating the step repeats the same work, which a timer needs. With offset 0 it is the cache that a prefill
    fills.

    Args:
        layers: number of layers.
        shape: (batch size, heads, offset + tokens of a step, head size).
        offset: how many there are before the step, random ones.
        dtype: of keys and values.
        device: of keys and values.
    """

    is_compileable = False

    def __init__(
        self,
        layers: int,
        shape: tuple[int, int, int, int],
        offset: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        self.offset = offset
        self.keys = [torch.randn(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.values = [torch.randn(shape, dtype=dtype, device=device) for _ in range(layers)]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens before the step."""
        return self.offset

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """The same."""
        return self.offset

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Tokens that are attended to, and where they begin."""
        return self.offset + query_length, 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: object, **options: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes a layer's keys and values of the step, and returns all of that layer's."""
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[:, :, self.offset :].copy_(key_states)
        values[:, :, self.offset :].copy_(value_states)
        return keys, values

    def picked(self, items: list[int], dtype: torch.dtype) -> RepeatableCache:
        """A copy with some of the sequences, in a dtype."""
        other = object.__new__(type(self))
        other.offset = self.offset
        other.keys = [tensor[items].to(dtype) for tensor in self.keys]
        other.values = [tensor[items].to(dtype) for tensor in self.values]
        return other
