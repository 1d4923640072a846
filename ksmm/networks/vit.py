"""Vision transformers and their parts, with random weights (Section 6; appendices B.6 and B.7)."""

from __future__ import annotations

import torch
from torch import nn

from ksmm.networks.entry import Entry
from ksmm.networks.network import Network, OneOutput, UnavailableError, require_transformers
from ksmm.networks.sizes import VITS, VitSize

_PROJECTIONS = ("*q_proj", "*k_proj", "*v_proj")
_FEED_FORWARD = ("*fc1", "*fc2")

_LINEAR = {"linear_n_n": (1, 1), "linear_4n_n": (1, 4), "linear_n_4n": (4, 1)}
"""Part -> inputs and outputs in multiples of N."""


def build_vit(entry: Entry) -> Network:
    """The part of a vision transformer of transformers, in float32 on PyTorch's default device.

    Raises:
        UnavailableError: transformers cannot be imported, or is too old.
        KeyError: the entry's network is not one of sizes.VITS.
    """
    size = VITS[entry.network]
    attention = _replaced_in_attention(entry)
    if entry.part.startswith("linear_"):
        inputs, outputs = (size.hidden * factor for factor in _LINEAR[entry.part.removesuffix("_bias")])
        layer = nn.Linear(inputs, outputs, bias=entry.part.endswith("_bias"))
        return _network(nn.Sequential(layer), entry, inputs, ("*",))
    if entry.part == "feed_forward_linears":
        pairs = [(size.hidden, 4 * size.hidden), (4 * size.hidden, size.hidden)] * size.layers
        layers = nn.Sequential(*(nn.Linear(inputs, outputs, bias=False) for inputs, outputs in pairs))
        for layer in layers:  # with PyTorch's own weights 48 of them in a row underflow in float16
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
        return _network(layers, entry, size.hidden, ("*",))
    if entry.part == "whole":
        model = _model(size, size.layers)
        images = torch.randn(entry.batch_size, 3, size.image, size.image)
        return Network(OneOutput(model, "logits"), (images,), (*attention, *_FEED_FORWARD), tuple(model.vit.layers))
    block = _model(size, 1).vit.layers[0]
    module, replaced = {
        "feed_forward": lambda: (block.mlp, _FEED_FORWARD),
        "attention": lambda: (OneOutput(block.attention), attention),
        "block": lambda: (block, (*attention, *_FEED_FORWARD)),
    }[entry.part]()
    return _network(module, entry, size.hidden, replaced)


def _replaced_in_attention(entry: Entry) -> tuple[str, ...]:
    """Names of layers: appendix B.7 leaves the output projection dense, for which our chains have no reason."""
    return (*_PROJECTIONS, "*o_proj") if entry.chains == "default" else _PROJECTIONS


def _network(module: nn.Module, entry: Entry, features: int, replaced: tuple[str, ...]) -> Network:
    x = torch.randn(entry.batch_size, entry.tokens, features)
    return Network(module, (x,), replaced, (module,))


def _model(size: VitSize, layers: int) -> nn.Module:
    require_transformers()
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=size.hidden,
        num_hidden_layers=layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.hidden,
        image_size=size.image,
        patch_size=size.patch,
        num_labels=size.classes,
        attn_implementation="sdpa",
    )
    return ViTForImageClassification(config)


def build_timm_vit(entry: Entry) -> Network:
    """ViT-S/16 of timm, whole.

    Raises:
        UnavailableError: timm cannot be imported: it needs torchvision, which the CPU-only PyTorch has no build of.
    """
    try:
        import timm
    except ImportError as error:
        raise UnavailableError(f"timm cannot be imported ({error})") from None
    model = timm.create_model("vit_small_patch16_224", pretrained=False)
    return Network(model, (torch.randn(entry.batch_size, 3, 224, 224),), ("blocks.*",), tuple(model.blocks))
