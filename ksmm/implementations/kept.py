"""What the kernel makes of a packed weight in some configurations, on CUDA devices: made once, for many products.

Several configurations read W in another order, or as other numbers, than it is packed in, and which depends on their
tiles: by stages, or as halves of float32. Each product would make that again, by a launch of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import torch

from ksmm.implementations.base import Packed

MOST_KEPT = 4
"""Of so many configurations a packed weight keeps what they make of it; batches of different sizes may have several."""


@dataclass
class Answers:
    """Which configurations were found to be the fastest for a packed weight.

    Attributes:
        age: what tells answers of now from those that were given before tuning files were read again.
        numbers: of the configurations, by what was asked.
    """

    age: object = None
    numbers: dict[Hashable, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PackedForMany(Packed):
    """Packed weights for many products.

    Attributes:
        kept: by configuration, what it made of the weight, an empty list where it makes nothing; None where nothing is
            to be made, of memory that others may change.
        answers: the configurations that products with it took (ksmm.tuning.numbers).
    """

    kept: dict[int, list[torch.Tensor]] | None = field(default_factory=dict, repr=False, compare=False)
    answers: Answers = field(default_factory=Answers, repr=False, compare=False)

    def __reduce__(self) -> tuple:
        """Without what is kept, and without answers: numbers of configurations mean something else to another build."""
        return type(self), (self.pattern, self.layout, self.data, None if self.kept is None else {})


def kept_weight(packed: PackedForMany, configuration: int, x: torch.Tensor, precision: str) -> list[torch.Tensor]:
    """What a configuration made of the weight, for ksmm::ks_matmul_kept; empty where it makes nothing.

    Makes it at the first call, and waits for the device then: others may come for it on any stream. Nothing is made
    while a CUDA graph is captured, which would make it again at each replay, and not before.

    Args:
        packed: the weight.
        configuration: the number of one, or -1, of which nothing is kept.
        x: as for `Implementation.matmul`.
        precision: what the operator is asked for.
    """
    found = packed.kept.get(configuration)
    if found is None:
        if configuration < 0 or not (_is_plain(x) and _may_make(x)):
            return []
        chosen, made = _make(packed, configuration, x, precision)
        found = _store(packed, configuration, made if chosen == configuration else [])
    return found


def choose_and_keep(packed: PackedForMany, x: torch.Tensor, precision: str) -> int:
    """The configuration that the cost model chooses, -1 where that shall be asked again at the next product.

    It depends on the batch size, and on whether x is contiguous at a multiple of 16 bytes: others are asked each time.

    Args:
        packed: the weight.
        x: as for `Implementation.matmul`.
        precision: what the operator is asked for.
    """
    if not (_is_plain(x) and _may_make(x)):
        return -1
    configuration, made = _make(packed, -1, x, precision)
    if configuration not in packed.kept:
        _store(packed, configuration, made)
    return configuration


def _is_plain(x: torch.Tensor) -> bool:
    """Whether every configuration takes it that takes such a problem; not tensors that only look like some."""
    return type(x) is torch.Tensor and x.numel() > 0 and x.is_contiguous() and x.data_ptr() % 16 == 0


def _may_make(x: torch.Tensor) -> bool:
    return x.is_cuda and not torch.cuda.is_current_stream_capturing()


def _make(packed: PackedForMany, configuration: int, x: torch.Tensor, precision: str) -> tuple[int, list[torch.Tensor]]:
    with torch.no_grad():
        return torch.ops.ksmm.keep.default(x, packed.data, packed.layout, precision, configuration)


def _store(packed: PackedForMany, configuration: int, made: list[torch.Tensor]) -> list[torch.Tensor]:
    if made and sum(map(bool, packed.kept.values())) >= MOST_KEPT:
        made = []
    if made:
        torch.cuda.current_stream(packed.data.device).synchronize()
    packed.kept[configuration] = made
    return made
