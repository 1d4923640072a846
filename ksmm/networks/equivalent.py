"""The dense equivalent of a network: what a Kronecker-sparse network is checked against."""

from __future__ import annotations

import copy

import torch
from torch import nn

from ksmm.linear import KSLinear


def dense_equivalent(model: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
    """A copy of the model with an nn.Linear in the place of each KSLinear, its weight the product of the factors.

    Args:
        model: a module whose KSLinear layers are in batch_first; it may itself be one. It is not changed.
        dtype: of the copy, None for the model's own. The product of the factors is made in float64 and then rounded.

    Returns:
        The copy, with the model's training mode.
    """
    if isinstance(model, KSLinear):
        return _linear(model, dtype)
    found = {name: module for name, module in model.named_modules() if isinstance(module, KSLinear)}
    # Copying what is replaced anyway would take its memory twice.
    memo = {id(module): _linear(module, dtype) for module in found.values()}
    return copy.deepcopy(model, memo).to(dtype)


def _linear(layer: KSLinear, dtype: torch.dtype | None) -> nn.Linear:
    weight = layer.factors[0]
    linear = nn.Linear(
        layer.in_features, layer.out_features, layer.bias is not None, weight.device, dtype or weight.dtype
    )
    with torch.no_grad():
        linear.weight.copy_(copy.deepcopy(layer).double().to_dense())
        if layer.bias is not None:
            linear.bias.copy_(layer.bias)
    return linear.train(layer.training)
