"""Why a linear layer of someone else's model cannot be replaced without losing something of it."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ksmm.linear import PARAMETER_DTYPES
from ksmm.names import dtype_name

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

_WEIGHT_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Of Tensor.register_hook and its like."""


def refusal(model: nn.Module, name: str, module: nn.Module) -> str | None:
    """None if a layer can be replaced, else why not.

    Args:
        model: the whole, in which others may use the layer's parameters.
        name: of the layer, as in model.named_modules().
        module: the layer.
    """
    parent = model.get_submodule(name.rpartition(".")[0])
    if isinstance(parent, _READERS):
        return f"its parent, a {type(parent).__name__}, reads its weight instead of calling it"
    if type(parent).__name__ == "OptimizedModule":  # by name, as importing torch._dynamo takes a second
        return "torch.compile has compiled it and calls what it compiled; replace layers first, then compile"
    if hasattr(module, "parametrizations"):
        return "its parameters are parametrized; torch.nn.utils.parametrize.remove_parametrizations ends that"
    if isinstance(module, nn.Linear) and type(module) is not nn.Linear:
        return f"it is a {type(module).__name__}, of which only its class knows what it computes; nn.Linear is replaced"
    if module._compiled_call_impl is not None:  # layer.compile()
        return "it is compiled, and a new layer would not be; replace layers first, then compile"
    if (dtype := module.weight.dtype) not in PARAMETER_DTYPES:
        return (
            f"its weight has dtype {dtype_name(dtype)}; KSLinear takes {', '.join(map(dtype_name, PARAMETER_DTYPES))}"
        )
    return _what_would_be_lost(module) or _shared(model, name, module)


def _what_would_be_lost(module: nn.Module) -> str | None:
    """What was added to a layer that a new one would not have; None if nothing. The bias goes over as it is."""
    if "forward" in vars(module):
        return "it has a forward of its own (layer.forward = ...), which would be lost; del layer.forward ends that"
    hooks = [(module, hook) for hook in _HOOKS] + [(module.weight, hook) for hook in _WEIGHT_HOOKS]
    for holder, hook in hooks:
        if getattr(holder, hook, None):
            where = "" if holder is module else " on its weight"
            return f"it has hooks ({hook.strip('_').replace('_', ' ')}{where}), which would be lost; remove them first"
    for kind, names in (("buffers", module._buffers), ("modules", module._modules)):
        if names:
            return f"it has {kind} of its own ({', '.join(names)}), which would be lost"
    return None


def _shared(model: nn.Module, name: str, module: nn.Module) -> str | None:
    """Where else a layer, or one of its parameters or their memory, is used; None if nowhere."""
    own = {id(parameter): own_name for own_name, parameter in module.named_parameters(recurse=False)}
    memory = [(own_name, _memory(parameter)) for own_name, parameter in module.named_parameters(recurse=False)]
    for other, parameter in model.named_parameters(remove_duplicate=False):
        if other.rpartition(".")[0] == name:
            continue
        if id(parameter) in own:
            return f"its {own[id(parameter)]} is shared with {other}, which would keep the old one"
        theirs = _memory(parameter)
        for own_name, ours in memory:
            if max(ours.start, theirs.start) < min(ours.stop, theirs.stop):
                return f"its {own_name} lies in the same memory as {other}, which would keep the old one"
    return None


def _memory(parameter: nn.Parameter) -> range:
    """The addresses from its first element to its last; of one that has none (meta, fake, sparse, lazy) no address.

    Not those of its storage: parameters that are parts of one buffer, each its own, are not shared.
    """
    if is_lazy(parameter) or parameter.is_meta or parameter.layout != torch.strided:
        return range(0)
    if parameter.numel() == 0 or parameter.data_ptr() == 0:
        return range(0)
    last = sum((size - 1) * stride for size, stride in zip(parameter.shape, parameter.stride(), strict=True))
    return range(parameter.data_ptr(), parameter.data_ptr() + (last + 1) * parameter.element_size())
