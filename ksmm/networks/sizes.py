"""The networks that are measured: their sizes, and what is fed to them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VitSize:
    """A vision transformer and its input: `batch_size` images of image_size × image_size × 3."""

    hidden: int
    layers: int
    heads: int
    patch: int = 16
    image: int = 224
    batch_size: int = 128
    classes: int = 1000

    @property
    def tokens(self) -> int:
        """Patches of an image, and the class token."""
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True)
class GptSize:
    """A GPT-2 and its inputs: pairs of batch size and length, of a prompt for prefill, of what is cached for decode."""

    hidden: int
    layers: int
    heads: int
    vocabulary: int = 50257
    prefill: tuple[tuple[int, int], ...] = ((1, 128), (1, 1024), (8, 1024))
    decode: tuple[tuple[int, int], ...] = ((1, 512), (8, 512))


@dataclass(frozen=True)
class LlamaSize:
    """One block of a Llama, and its inputs: pairs of batch size and length."""

    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    inputs: tuple[tuple[int, int], ...] = ((1, 512), (2, 2048))


VITS = {
    "vit_s16": VitSize(384, 12, 6),  # Touvron et al. 2021, as the paper's [24]
    "vit_b16": VitSize(768, 12, 12),
    "vit_l16": VitSize(1024, 24, 16),
    "vit_h14": VitSize(1280, 32, 16, patch=14),
    "vit_tiny": VitSize(96, 2, 2, patch=8, image=32, batch_size=2, classes=10),
    "vit_tiny_wide": VitSize(192, 2, 2, patch=8, image=32, batch_size=2, classes=10),
}
GPTS = {
    "gpt2_medium": GptSize(1024, 24, 16),
    "gpt2_tiny": GptSize(128, 2, 2, vocabulary=256, prefill=((1, 16), (2, 32)), decode=((1, 16),)),
}
LLAMAS = {
    "llama_8b_block": LlamaSize(4096, 14336, 32, 8),
    "llama_tiny_block": LlamaSize(128, 512, 4, 4, inputs=((1, 16),)),
}

SIZES = {
    "paper": {
        "vit": "vit_s16",
        "larger_vits": ("vit_b16", "vit_l16", "vit_h14"),
        "gpt2": "gpt2_medium",
        "llama": "llama_8b_block",
    },
    "tiny": {
        "vit": "vit_tiny",
        "larger_vits": ("vit_tiny_wide",),
        "gpt2": "gpt2_tiny",
        "llama": "llama_tiny_block",
    },
}
"""What a config's `size` stands for: the paper's networks, and small ones that a CPU runs through in seconds."""
