"""An entry: what one number of this study is of."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

CLASSES = {"strict": "float32", "tf32": "float32", "float16": "float16", "bfloat16": "bfloat16"}
"""Accuracy class -> dtype of weights and activations.

strict: errors as of float32 multiply-adds; tf32: TF32 is allowed.
"""

FULLY_CONNECTED = "fully_connected"
"""The implementation of a network that keeps its dense layers (the paper's time(fully-connected))."""

PARTS = (
    "linear_n_n",
    "linear_n_n_bias",
    "linear_4n_n",
    "linear_4n_n_bias",
    "linear_n_4n",
    "linear_n_4n_bias",
    "feed_forward",
    "attention",
    "block",
    "whole",
    "feed_forward_linears",
    "prefill",
    "decode",
)
MODES = ("eager", "cuda_graph", "compile", "compile_cuda_graph")


@dataclass(frozen=True)
class Entry:
    """One measurement to be made.

    Attributes:
        network: a name of ksmm.networks.sizes, or vit_s16_timm.
        part: one of PARTS. linear_4n_n has 4N outputs and N inputs; feed_forward_linears are those of all
            feed-forward networks without biases, one after the other (Table 6).
        chains: a name of ksmm.networks.chains.CHAINS, or of a rule of the caller's; "" where all is dense.
        implementation: FULLY_CONNECTED, or one of ksmm.implementations().
        accuracy_class: one of CLASSES; it includes the dtype.
        mode: one of MODES. compile: torch.compile of each block; cuda_graph: replayed from a CUDA graph.
        batch_size: images, or sequences.
        tokens: per image or sequence, that pass through each linear layer; 1 for decode.
        cached_tokens: keys and values that decode attends to besides its own; else 0.

    Raises:
        ValueError: part, accuracy_class or mode is unknown.
    """

    network: str
    part: str
    chains: str
    implementation: str
    accuracy_class: str
    mode: str
    batch_size: int
    tokens: int
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (("part", PARTS), ("accuracy_class", tuple(CLASSES)), ("mode", MODES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}")

    @property
    def is_dense(self) -> bool:
        """Whether the network keeps its dense layers."""
        return self.implementation == FULLY_CONNECTED

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        cached = f" after {self.cached_tokens}" if self.cached_tokens else ""
        shape = f"{self.batch_size} × {self.tokens}{cached}"
        return f"{self.network} {self.part} {shape} {self.accuracy_class} {self.mode} {self.implementation}"
