"""Subjects: which entries one job of this study measures, in order.

What is compared with each other is in one subject, since jobs may run on different GPUs; and no entry is in two of
them, since the table keeps one of two measurements of the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ksmm.networks.entry import FULLY_CONNECTED, Entry
from ksmm.networks.sizes import GPTS, LLAMAS, SIZES, VITS

SUBMODULES = (
    *(f"linear_{shape}{bias}" for shape in ("n_n", "4n_n", "n_4n") for bias in ("", "_bias")),
    "feed_forward",
    "attention",
    "block",
)


def entries(
    subject: str, size: str, accuracy_classes: Sequence[str], implementations: Sequence[str], modes: Sequence[str]
) -> list[Entry]:
    """The entries of a subject.

    Modes other than eager are measured for the dense network and for the first implementation, and not in TF32, those
    that compile of whole networks only; kernel_strict only in the class that it is made for.

    Args:
        subject: one of SUBJECTS.
        size: one of sizes.SIZES.
        accuracy_classes: of the entries, at least one.
        implementations: of Kronecker-sparse multiplication; dense networks are always measured.
        modes: of the entries, at least one.

    Raises:
        ValueError: an unknown subject or size, or an entry with an unknown part of its name.
    """
    if subject not in SUBJECTS:
        raise ValueError(f"unknown subject {subject!r}; choose one of {', '.join(SUBJECTS)}")
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r}; choose one of {', '.join(SIZES)}")
    found = []
    for accuracy_class in accuracy_classes:
        for implementation in (FULLY_CONNECTED, *implementations):
            if implementation == "kernel_strict" and accuracy_class != "strict":
                continue
            for mode in modes:
                if mode == "eager" or (
                    accuracy_class != "tf32" and implementation in (FULLY_CONNECTED, implementations[0])
                ):
                    found += SUBJECTS[subject](SIZES[size], implementation, accuracy_class, mode)
    return found


def _entry(
    network: str,
    part: str,
    implementation: str,
    accuracy_class: str,
    mode: str,
    shape: tuple[int, int],
    chains: str = "default",
    cached_tokens: int = 0,
) -> Entry:
    chains = "" if implementation == FULLY_CONNECTED else chains
    return Entry(network, part, chains, implementation, accuracy_class, mode, *shape, cached_tokens)


def _vit_submodules(names: dict, implementation: str, accuracy_class: str, mode: str) -> list[Entry]:
    """Tables 4 and 7 without the whole network: what one call costs, and what it costs the device alone."""
    size = VITS[names["vit"]]
    shape = size.batch_size, size.tokens
    parts = SUBMODULES if mode in ("eager", "cuda_graph") else ()
    return [_entry(names["vit"], part, implementation, accuracy_class, mode, shape, "paper") for part in parts]


def _vit(names: dict, implementation: str, accuracy_class: str, mode: str) -> list[Entry]:
    """The last line of Table 4, and with the default chains, too, of timm's model as well; these are not compiled.

    The dense network's line of Table 6 is in here, too.
    """
    if mode == "compile_cuda_graph":
        return []
    size = VITS[names["vit"]]
    shape = size.batch_size, size.tokens
    found = [_entry(names["vit"], "whole", implementation, accuracy_class, mode, shape, "paper")]
    if mode != "compile" and implementation != FULLY_CONNECTED:
        found.append(_entry(names["vit"], "whole", implementation, accuracy_class, mode, shape))
    if mode != "compile" and names["vit"] == "vit_s16":
        found.append(_entry("vit_s16_timm", "whole", implementation, accuracy_class, mode, shape))
    if mode == "eager" and implementation == FULLY_CONNECTED:
        found.append(_entry(names["vit"], "feed_forward_linears", implementation, accuracy_class, mode, shape))
    return found


def _vit_feed_forward_share(names: dict, implementation: str, accuracy_class: str, mode: str) -> list[Entry]:
    """Table 6: dense networks alone, those that no other subject measures whole."""
    if implementation != FULLY_CONNECTED or mode != "eager":
        return []
    return [
        _entry(name, part, implementation, accuracy_class, mode, (VITS[name].batch_size, VITS[name].tokens))
        for name in names["larger_vits"]
        for part in ("whole", "feed_forward_linears")
    ]


def _gpt2_prefill(names: dict, implementation: str, accuracy_class: str, mode: str) -> list[Entry]:
    """Compiled for the longest alone: each shape is compiled anew, and where launches count decode says so."""
    shapes = GPTS[names["gpt2"]].prefill
    if "compile" in mode:
        shapes = shapes[-1:] if mode == "compile" else ()
    return [_entry(names["gpt2"], "prefill", implementation, accuracy_class, mode, shape) for shape in shapes]


def _gpt2_decode(names: dict, implementation: str, accuracy_class: str, mode: str) -> list[Entry]:
    """One token for each sequence; compiled for the first batch size alone."""
    shapes = GPTS[names["gpt2"]].decode
    return [
        _entry(names["gpt2"], "decode", implementation, accuracy_class, mode, (batch_size, 1), cached_tokens=cached)
        for batch_size, cached in (shapes[:1] if "compile" in mode else shapes)
    ]


def _llama(names: dict, implementation: str, accuracy_class: str, mode: str) -> list[Entry]:
    """One block, not compiled; from a CUDA graph, too, since in 16 bits the host takes longer for a short prompt."""
    shapes = LLAMAS[names["llama"]].inputs if mode in ("eager", "cuda_graph") else ()
    return [_entry(names["llama"], "block", implementation, accuracy_class, mode, shape) for shape in shapes]


SUBJECTS: dict[str, Callable[[dict, str, str, str], list[Entry]]] = {
    "vit_submodules": _vit_submodules,
    "vit": _vit,
    "vit_feed_forward_share": _vit_feed_forward_share,
    "gpt2_prefill": _gpt2_prefill,
    "gpt2_decode": _gpt2_decode,
    "llama": _llama,
}
"""Name of a job -> what makes its entries."""
