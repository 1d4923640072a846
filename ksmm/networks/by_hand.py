"""Measuring a vision transformer with chains of one's own choice, for the notebook and the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ksmm.measure import provenance
from ksmm.measure.protocol import Protocol
from ksmm.measure.recording import recording
from ksmm.networks.chains import CHAINS
from ksmm.networks.entry import FULLY_CONNECTED, Entry
from ksmm.networks.measure import measure
from ksmm.networks.sizes import VITS
from ksmm.networks.subjects import SUBMODULES
from ksmm.networks.table import NETWORKS, rows_of
from ksmm.patterns import Chain
from ksmm.replace import Rule
from ksmm.table_file import frame_of

if TYPE_CHECKING:
    import pandas

Chains = str | Mapping[str, Sequence[Sequence[int]]]
"""A name of CHAINS, or patterns by size: {"1536x384": [[1, 768, 192, 2], [6, 64, 64, 1]]}, outputs × inputs."""


def measure_vit(
    architecture: str,
    chains: Chains,
    batch_size: int,
    accuracy_classes: Sequence[str],
    implementations: Sequence[str],
    device_type: str,
    protocol: Protocol,
    parts: Sequence[str] = (*SUBMODULES, "whole"),
) -> pandas.DataFrame:
    """Measures the parts of a vision transformer, dense and Kronecker-sparse, the device locked.

    Args:
        architecture: one of sizes.VITS.
        chains: see Chains; layers of a size that it does not name stay dense.
        batch_size: images.
        accuracy_classes: at least one.
        implementations: of Kronecker-sparse layers.
        device_type: "cpu" or "cuda".
        protocol: how each is timed.
        parts: of the network.

    Returns:
        A table with the columns of networks.csv; chains are called "own" if they are no name.

    Raises:
        ValueError: unknown architecture or chains.
        DeviceAbsentError: no such device.
    """
    if architecture not in VITS:
        raise ValueError(f"unknown architecture {architecture!r}; choose one of {', '.join(VITS)}")
    rule, name = rule_of(chains), chains if isinstance(chains, str) else "own"
    tokens = VITS[architecture].tokens
    with recording("by_hand", device_type, protocol.to_dict()) as content:
        content["provenance"]["software"]["versions"] |= provenance.versions("transformers")
        content["measurements"] = [
            measure(
                Entry(architecture, part, *kind, accuracy_class, "eager", batch_size, tokens),
                protocol,
                device_type,
                rule,
            ).to_dict()
            for accuracy_class in accuracy_classes
            for kind in (("", FULLY_CONNECTED), *((name, implementation) for implementation in implementations))
            for part in parts
        ]
    return frame_of(rows_of(content), NETWORKS)


def rule_of(chains: Chains) -> Rule:
    """The rule that chains stand for.

    Raises:
        ValueError: an unknown name, a key that is not "<outputs>x<inputs>", or a chain of another size.
    """
    if isinstance(chains, str):
        if chains not in CHAINS:
            raise ValueError(f"unknown chains {chains!r}; choose one of {', '.join(CHAINS)}, or give patterns by size")
        return CHAINS[chains]
    known = {size: Chain([tuple(pattern) for pattern in patterns]) for size, patterns in chains.items()}
    for size, chain in known.items():
        rows, columns = chain.shape
        if size != f"{rows}x{columns}":
            raise ValueError(f"the chain {chain} is of size {rows}x{columns}, not {size}")
    return lambda in_features, out_features: known.get(f"{out_features}x{in_features}")
