"""How a network is run: call by call, replayed from a CUDA graph, compiled, or both."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ksmm.measure import timer
from ksmm.networks.network import Network

_MOST_COMPILATIONS = 64
"""Of one block: where it knows its own number (to find its cache), each is compiled on its own."""


def prepare(network: Network, mode: str) -> Callable[[], torch.Tensor]:
    """What runs the network once in a mode, warmed up; the result may be overwritten by the next run.

    compile: torch.compile with its defaults and fixed shapes, block by block, so that equal blocks are compiled once.
    cuda_graph: the forward pass is captured once and replayed, so that launching costs one call.

    Raises:
        RuntimeError: the forward pass cannot be captured, or not be compiled.
    """
    if "compile" in mode:
        torch._dynamo.reset()
        torch._dynamo.config.recompile_limit = max(_MOST_COMPILATIONS, torch._dynamo.config.recompile_limit)
        for block in network.blocks:
            block.compile(dynamic=False)
    run = network.run
    run()
    return _captured(run) if mode.endswith("cuda_graph") else run


def _captured(run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    latest = []

    def kept() -> None:
        latest[:] = [run()]

    graph = timer.captured(kept, 1, warm_up_runs=2)

    def replay() -> torch.Tensor:
        graph.replay()
        return latest[0]

    return replay
