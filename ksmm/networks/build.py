"""From an entry to the network that is measured."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from ksmm.implementations import get_implementation
from ksmm.linear import KSLinear
from ksmm.networks.chains import CHAINS
from ksmm.networks.entry import CLASSES, Entry
from ksmm.networks.language import build_gpt2, build_llama_block
from ksmm.networks.network import Network, UnavailableError
from ksmm.networks.sizes import GPTS, LLAMAS, VITS
from ksmm.networks.vit import build_timm_vit, build_vit
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, Problem
from ksmm.replace import Rule, replace_linear

BUILDERS = {
    **dict.fromkeys(VITS, build_vit),
    **dict.fromkeys(GPTS, build_gpt2),
    **dict.fromkeys(LLAMAS, build_llama_block),
    "vit_s16_timm": build_timm_vit,
}
"""Network -> what builds it."""

_ANY = Pattern(1, 1, 1, 1)


def build_network(entry: Entry, device_type: str, seed: int, rule: Rule | None = None) -> Network:
    """The network of an entry, in its dtype, its layers replaced if it is Kronecker-sparse, and these frozen.

    Weights and inputs depend on the seed, and on nothing drawn before; the random state outside is left alone.

    Args:
        entry: what to build.
        device_type: "cpu" or "cuda".
        seed: of weights and inputs.
        rule: for the chains; by default that of the entry's name for them.

    Raises:
        UnavailableError: a package is missing, or the implementation does not take the network's patterns here.
        ValueError: an unknown network or name of chains; the rule has no chain for any layer.
    """
    if entry.network not in BUILDERS:
        raise ValueError(f"unknown network {entry.network!r}; choose one of {', '.join(BUILDERS)}")
    if rule is None and not entry.is_dense and entry.chains not in CHAINS:
        raise ValueError(f"unknown chains {entry.chains!r}; choose one of {', '.join(CHAINS)}, or give a rule")
    with torch.random.fork_rng(), torch.device(device_type):
        torch.manual_seed(seed)
        network = BUILDERS[entry.network](entry)
        dtype = DTYPES[CLASSES[entry.accuracy_class]]
        module = network.module.to(dtype).eval().requires_grad_(False)
        if not entry.is_dense:
            _make_sparse(module, network.replaced, rule or CHAINS[entry.chains])
            _freeze(
                module,
                entry.implementation,
                Problem(_ANY, entry.batch_size * entry.tokens, dtype, "batch_first", device_type),
            )
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in network.inputs)
    cache = network.cache and network.cache.picked(list(range(entry.batch_size)), dtype)
    return dataclasses.replace(network, inputs=inputs, cache=cache)


def _make_sparse(module: nn.Module, names: tuple[str, ...], rule: Rule) -> None:
    """Replaces layers; a rule that replaces none would have the dense network timed as a sparse one."""
    report = replace_linear(module, rule, modules=names)
    if not report.replaced:
        raise ValueError(f"the rule has no chain for any of the layers {', '.join(report.left)}")


def _freeze(module: nn.Module, implementation: str, problem: Problem) -> None:
    """Packs the weights of every KSLinear once, as for inference, where an implementation takes the problem."""
    for layer in module.modules():
        if not isinstance(layer, KSLinear):
            continue
        for pattern in layer.chain if implementation != "auto" else ():
            reason = get_implementation(implementation).supports(dataclasses.replace(problem, pattern=pattern))
            if reason is not None:
                raise UnavailableError(f"{implementation} cannot multiply pattern {pattern}: {reason}")
        layer.implementation = implementation
        layer.freeze()
