"""A pass from a CUDA graph: captured once, and run again by every replay."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from ksmm.networks.modes import prepare


class Device:
    """Stands in for CUDA's capture: while one lasts, a pass only notes what a replay then computes."""

    def __init__(self) -> None:
        self.x, self.y = torch.zeros(3), torch.full((3,), torch.nan)
        self.capturing = False
        self.passes: list[bool] = []

    def run(self) -> torch.Tensor:
        self.passes.append(self.capturing)
        return self.y if self.capturing else self.x + 1

    def replay(self) -> None:
        torch.add(self.x, 1, out=self.y)

    @contextlib.contextmanager
    def capture(self, graph, stream):
        assert graph.replay == self.replay
        assert stream is torch.cuda.Stream()  # the one that was warmed up
        self.capturing = True
        yield
        self.capturing = False


@pytest.fixture
def planted(monkeypatch) -> Device:
    device = Device()
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=device.replay))
    monkeypatch.setattr(torch.cuda, "graph", device.capture)
    return device


def test_a_captured_pass_is_replayed_at_each_run(planted):
    run = prepare(SimpleNamespace(run=planted.run, blocks=()), "cuda_graph")
    assert planted.passes == [False, False, False, True]  # warmed up before it is captured, once
    for value in (1.0, 2.0):
        planted.x.fill_(value)
        planted.y.fill_(torch.nan)
        assert run().tolist() == [value + 1] * 3
    assert len(planted.passes) == 4
