"""`replace_linear`: KSLinear in the place of linear layers of a model that someone else wrote."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable

import torch
from torch import nn

from ksmm.heuristic import default_chain
from ksmm.linear import KSLinear
from ksmm.patterns import Chain, Pattern
from ksmm.problem import dtype_name
from ksmm.replacement_report import Replaced, ReplacementReport

Rule = Callable[[int, int], Chain | Iterable[Pattern | tuple[int, int, int, int]] | None]
"""From in_features and out_features to a chain; None leaves the layer as it is."""

_READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)
"""Modules of PyTorch that read the weight of a linear layer below them instead of calling the layer."""

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def replace_linear(
    model: nn.Module,
    rule: Rule = default_chain,
    *,
    modules: str | re.Pattern[str] | Iterable[str | re.Pattern[str]] = "*",
    exclude: str | re.Pattern[str] | Iterable[str | re.Pattern[str]] = (),
    implementation: str = "auto",
) -> ReplacementReport:
    """Puts KSLinear in the place of linear layers: nn.Linear, and the Conv1D of transformers (GPT-2). In place.

    A new layer has the device, dtype, training mode and requires_grad of the old one, and its bias (the same parameter)
    if there was one. Its weights are drawn anew: nothing is factorised. Everything is checked first, so that an error
    leaves the model as it was. An optimizer that holds the old weights must be made again.

    >>> model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
    >>> print(replace_linear(model, modules="2"))
    1 layer replaced: 525,568 parameters became 304,384 (57.9 %), 1,048,576 operations a row 606,208 (57.8 %)
      2: 1024 -> 256, (1,32,32,8) · (8,32,128,1)

    Args:
        model: changed in place; it must contain the layers, not be one.
        rule: from (in_features, out_features) to a chain of that size, in the paper's order; None leaves a layer dense.
        modules: names of layers as in model.named_modules(): a glob ("*.mlp.*"; * matches dots too) or a compiled
            regular expression, which must match the whole name; or several of them.
        exclude: the same; what it matches is left as it is.
        implementation: of the new layers, as for KSLinear.

    Returns:
        What was replaced and what was left, with parameters and operations before and after.

    Raises:
        ValueError: no layer has such a name, or one of those chosen cannot be replaced: its weight or bias is shared
            with another module (tied embeddings), it has hooks or parametrizations, it is of a subclass of nn.Linear,
            its parent reads its weight instead of calling it (nn.MultiheadAttention), it is not in a floating-point
            dtype, or the rule gives a chain of another size. The message names every such layer and why.
    """
    chosen = _chosen(model, _names(modules), _names(exclude))
    refused = {name: reason for name, module in chosen.items() if (reason := _refusal(model, name, module))}
    chains = {} if refused else _chains(chosen, rule, refused)
    if refused:
        lines = "\n".join(f"  {name}: {reason}" for name, reason in refused.items())
        raise ValueError(f"these layers cannot be replaced; leave them out with exclude=, or mend them:\n{lines}")
    before = count_parameters(model), linear_operations(model)
    layers = {name: _like(chosen[name], chain, implementation) for name, chain in chains.items()}
    for name, layer in layers.items():
        parent, _, own_name = name.rpartition(".")
        setattr(model.get_submodule(parent), own_name, layer)
    replaced = tuple(
        Replaced(name, *linear_sizes(new), new.chain, new.bias is not None) for name, new in layers.items()
    )
    left = tuple(name for name in chosen if name not in chains)
    return ReplacementReport(replaced, left, *before, count_parameters(model), linear_operations(model))


def is_linear(module: nn.Module) -> bool:
    """Whether a module is an nn.Linear (or of a subclass of it), or the Conv1D of transformers.

    The latter is known by its name and its weight of shape (nx, nf), so that transformers is not imported.
    """
    return isinstance(module, nn.Linear) or _is_transformers_conv1d(module)


def _is_transformers_conv1d(module: nn.Module) -> bool:
    weight, sizes = getattr(module, "weight", None), (getattr(module, "nx", None), getattr(module, "nf", None))
    return type(module).__name__ == "Conv1D" and isinstance(weight, torch.Tensor) and tuple(weight.shape) == sizes


def linear_sizes(module: nn.Module) -> tuple[int, int]:
    """in_features and out_features of a linear layer."""
    if isinstance(module, nn.Linear | KSLinear):
        return module.in_features, module.out_features
    return tuple(module.weight.shape)  # Conv1D keeps the transposed matrix


def _names(given: str | re.Pattern[str] | Iterable[str | re.Pattern[str]]) -> list[re.Pattern[str]]:
    listed = [given] if isinstance(given, str | re.Pattern) else list(given)
    return [entry if isinstance(entry, re.Pattern) else re.compile(fnmatch.translate(entry)) for entry in listed]


def _chosen(model: nn.Module, wanted: list[re.Pattern], unwanted: list[re.Pattern]) -> dict[str, nn.Module]:
    """The linear layers of these names, every name of a layer that has several."""
    if is_linear(model):
        raise ValueError(f"the model is itself a {type(model).__name__}; put a KSLinear in its place where it is used")
    linear = {name: module for name, module in model.named_modules(remove_duplicate=False) if is_linear(module)}
    found = {
        name: module
        for name, module in linear.items()
        if any(p.fullmatch(name) for p in wanted) and not any(p.fullmatch(name) for p in unwanted)
    }
    if not found:
        known = ", ".join(list(linear)[:8]) + (" ..." if len(linear) > 8 else "")
        asked = ", ".join(repr(pattern.pattern) for pattern in wanted)
        raise ValueError(f"no linear layer has a name that matches {asked}; there are {known or 'none in this model'}")
    return found


def _refusal(model: nn.Module, name: str, module: nn.Module) -> str | None:
    """None if a layer can be replaced, else why not."""
    parent = model.get_submodule(name.rpartition(".")[0])
    if isinstance(parent, _READERS):
        return f"its parent, a {type(parent).__name__}, reads its weight instead of calling it"
    if hasattr(module, "parametrizations"):
        return "its parameters are parametrized; torch.nn.utils.parametrize.remove_parametrizations ends that"
    if isinstance(module, nn.Linear) and type(module) is not nn.Linear:
        return f"it is a {type(module).__name__}, of which only its class knows what it computes; nn.Linear is replaced"
    hooks = [hook for hook in _HOOKS if getattr(module, hook, None)]
    if hooks:
        return f"it has hooks ({hooks[0].strip('_').replace('_', ' ')}), which would be lost; remove them first"
    if not module.weight.is_floating_point():
        return f"its weight has dtype {dtype_name(module.weight.dtype)}; a floating-point dtype is needed"
    return _shared(model, name, module)


def _shared(model: nn.Module, name: str, module: nn.Module) -> str | None:
    """Where else a layer, or one of its parameters, is used; None if nowhere."""
    own = {id(parameter): own_name for own_name, parameter in module.named_parameters(recurse=False)}
    for other, parameter in model.named_parameters(remove_duplicate=False):
        holder = other.rpartition(".")[0]
        if id(parameter) in own and holder != name:
            return f"its {own[id(parameter)]} is shared with {other}, which would keep the old one"
    return None


def _chains(chosen: dict[str, nn.Module], rule: Rule, refused: dict[str, str]) -> dict[str, Chain]:
    """The chain of each layer that the rule gives one; why a chain does not do goes to `refused`."""
    chains = {}
    for name, module in chosen.items():
        in_features, out_features = linear_sizes(module)
        try:
            given = rule(in_features, out_features)
            chain = given if given is None or isinstance(given, Chain) else Chain(given)
        except (ValueError, TypeError) as error:
            refused[name] = f"the rule has no chain for ({in_features}, {out_features}): {error}"
            continue
        if chain is None:
            continue
        if chain.shape != (out_features, in_features):
            rows, columns = chain.shape
            refused[name] = f"it is {in_features} -> {out_features}, and the rule's chain {chain} {columns} -> {rows}"
        chains[name] = chain
    return chains


def _like(old: nn.Module, chain: Chain, implementation: str) -> KSLinear:
    """A layer that differs from the old one in its weights alone."""
    weight = old.weight
    new = KSLinear(chain, old.bias is not None, "batch_first", implementation, weight.device, weight.dtype)
    new.factors.requires_grad_(weight.requires_grad)
    new.bias = old.bias
    return new.train(old.training)


def count_parameters(model: nn.Module) -> int:
    """Parameters of a model; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def linear_operations(model: nn.Module) -> int:
    """Floating-point operations of every linear layer on one row of its input, 2 a weight; biases are not counted."""
    total = 0
    for module in model.modules():
        if isinstance(module, KSLinear):
            total += 2 * module.chain.nnz
        elif is_linear(module):
            in_features, out_features = linear_sizes(module)
            total += 2 * in_features * out_features
    return total
