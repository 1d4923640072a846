"""`replace_linear`: KSLinear in the place of linear layers of a model that someone else wrote."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ksmm.functional import choices
from ksmm.heuristic import default_chain
from ksmm.implementations import check_implementation
from ksmm.linear import KSLinear
from ksmm.patterns import Chain, Pattern
from ksmm.refusal import refusal
from ksmm.replacement_report import Replaced, ReplacementReport

Rule = Callable[[int, int], Chain | Iterable[Pattern | tuple[int, int, int, int]] | None]
"""From in_features and out_features to a chain; None leaves the layer as it is."""


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
            regular expression, which must match the whole name; or several of them, each of which must match a layer.
        exclude: the same; what it matches is left as it is.
        implementation: of the new layers, as for KSLinear.

    Returns:
        What was replaced and what was left, with parameters and operations before and after.

    Raises:
        TypeError: modules or exclude is no name or list of names.
        ValueError: no layer has such a name, or one that was chosen and has a chain cannot be replaced: its weight or
            bias is shared with another module (tied embeddings), it has hooks, parametrizations, a forward, buffers or
            modules of its own, it is of a subclass of nn.Linear, its parent does not call it (nn.MultiheadAttention
            reads its weight, torch.compile keeps what it compiled), it is compiled, its dtype is none of
            PARAMETER_DTYPES, the rule gives a chain of another size, or the implementation does not multiply the chain
            in that dtype on that device. The message names every such layer and why.
    """
    chosen = _chosen(model, _names(modules, "modules"), _names(exclude, "exclude"))
    check_implementation(implementation)
    refused: dict[str, str] = {}
    chains = _chains(model, chosen, rule, implementation, refused)
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


class _Name:
    """A glob or a compiled regular expression, as it was given and as it is matched."""

    def __init__(self, given: str | re.Pattern[str], argument: str) -> None:
        expression = given if isinstance(given, re.Pattern) else re.compile(fnmatch.translate(given))
        self.matches = expression.fullmatch
        text = given.pattern if isinstance(given, re.Pattern) else given
        self.text = f"{text!r} ({argument}=)"


def _names(given: str | re.Pattern[str] | Iterable[str | re.Pattern[str]], argument: str) -> list[_Name]:
    listed = [given] if isinstance(given, str | re.Pattern) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(entry, str | re.Pattern) for entry in listed):
        raise TypeError(
            f"{argument} is {given!r}; it must be a glob or a compiled regular expression for names of layers, "
            "or several of them"
        )
    return [_Name(entry, argument) for entry in listed]


def _chosen(model: nn.Module, wanted: list[_Name], unwanted: list[_Name]) -> dict[str, nn.Module]:
    """The linear layers of these names, every name of a layer that has several."""
    if is_linear(model):
        raise ValueError(f"the model is itself a {type(model).__name__}; put a KSLinear in its place where it is used")
    linear = {name: module for name, module in model.named_modules(remove_duplicate=False) if is_linear(module)}
    known = ", ".join(list(linear)[:8]) + (" ..." if len(linear) > 8 else "") or "none in this model"
    astray = [entry.text for entry in (*wanted, *unwanted) if not any(map(entry.matches, linear))]
    if astray:
        raise ValueError(f"no linear layer has a name that matches {', '.join(astray)}; there are {known}")
    found = {
        name: module
        for name, module in linear.items()
        if any(entry.matches(name) for entry in wanted) and not any(entry.matches(name) for entry in unwanted)
    }
    if not found:
        raise ValueError(f"modules= without exclude= leaves no linear layer to replace; there are {known}")
    return found


def _chains(
    model: nn.Module, chosen: dict[str, nn.Module], rule: Rule, implementation: str, refused: dict[str, str]
) -> dict[str, Chain]:
    """The chain of each layer that the rule gives one and that can be replaced; why others cannot goes to `refused`."""
    chains = {}
    for name, module in chosen.items():
        in_features, out_features = linear_sizes(module)
        reason = None
        try:
            given = rule(in_features, out_features)
            if given is None:
                continue
            chain = given if isinstance(given, Chain) else Chain(given)
        except (ValueError, TypeError) as error:
            reason = f"the rule has no chain for ({in_features}, {out_features}): {error}"
        else:
            if chain.shape != (out_features, in_features):
                rows, columns = chain.shape
                reason = f"it is {in_features} -> {out_features}, and the rule's chain {chain} {columns} -> {rows}"
        reason = refusal(model, name, module) or reason or _unsupported(chain, module.weight, implementation)
        if reason is None:
            chains[name] = chain
        else:
            refused[name] = reason
    return chains


def _unsupported(chain: Chain, weight: torch.Tensor, implementation: str) -> str | None:
    """Why an implementation cannot multiply a factor in the dtype and on the device of a weight; None if it can.

    Nothing multiplies on the meta device: where it will be is known later.
    """
    device = weight.device
    try:
        for pattern in () if device.type == "meta" else chain:
            choices(pattern.weight_shape, weight.dtype, "batch_first", device.type, implementation, device.index)
    except ValueError as error:
        return str(error)
    return None


def _like(old: nn.Module, chain: Chain, implementation: str) -> KSLinear:
    """A layer that differs from the old one in its weights alone."""
    weight = old.weight
    new = KSLinear(chain, old.bias is not None, "batch_first", implementation, weight.device, weight.dtype)
    new.factors.requires_grad_(weight.requires_grad)
    new.bias = old.bias
    return new.train(old.training)


def count_parameters(model: nn.Module) -> int:
    """Parameters of a model; shared ones count once, and lazy ones, which have no size yet, not."""
    return sum(parameter.numel() for parameter in model.parameters() if not is_lazy(parameter))


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
