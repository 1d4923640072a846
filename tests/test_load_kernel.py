"""Loading the kernel library: for saved graphs in a process that has multiplied nothing, and where there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ksmm
from ksmm import build
from ksmm.functional import choices
from ksmm.implementations import kernel
from ksmm.tuning import forget

READERS = {
    "export": "torch.export.load('{path}').module()",
    "trace": "torch.jit.load('{path}')",
}


def run(*lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("way", READERS)
@pytest.mark.parametrize("device", ["cpu"])
def test_a_saved_layer_is_read_in_a_fresh_process(way: str, frozen: bool, tmp_path: Path, kernel_library: None) -> None:
    layer = ksmm.KSLinear([(1, 12, 6, 2), (2, 6, 8, 1)], implementation="kernel").requires_grad_(False)
    path, x = tmp_path / f"layer.{'pt2' if way == 'export' else 'pt'}", torch.randn(5, 16)
    with torch.no_grad():
        layer = layer.freeze() if frozen else layer
        if way == "export":
            torch.export.save(torch.export.export(layer, (x,)), path)
        else:
            torch.jit.save(torch.jit.trace(layer, (x,)), path)
        torch.save((x, layer(x)), tmp_path / "product.pt")
    reads = (f"layer = {READERS[way].format(path=path)}", f"x, y = torch.load('{tmp_path / 'product.pt'}')")
    compares = "torch.testing.assert_close(layer(x), y)"
    result = run("import torch, ksmm", "ksmm.load_kernel()", *reads, compares)
    assert result.returncode == 0, result.stderr
    assert run("import torch, ksmm", *reads, compares).returncode != 0  # else load_kernel would not be needed


def test_without_a_library_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "load", lambda: (None, "the kernel library is not built; run: python -m ksmm build"))
    with pytest.raises(RuntimeError, match="not built; run: python -m ksmm build"):
        ksmm.load_kernel()


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that finds no library, but a compiler, and has not said so yet."""
    monkeypatch.setattr(kernel, "load", lambda: (None, "the kernel library is not built; run: python -m ksmm build"))
    monkeypatch.setattr(build, "missing_tools", lambda: None)
    kernel.say_if_missing.cache_clear()
    forget()
    yield
    kernel.say_if_missing.cache_clear()
    forget()


def test_auto_says_once_that_it_lacks_the_kernel(unbuilt: None, caplog: pytest.LogCaptureFixture) -> None:
    shape = (1, 192, 48, 2)
    choices(shape, torch.float64, "batch_first", "cpu", "auto")
    choices(shape, torch.float32, "batch_first", "cpu", "bmm")
    assert caplog.text == ""
    for dtype in (torch.float32, torch.bfloat16):
        assert choices(shape, dtype, "batch_first", "cpu", "auto")[0][2] == "bmm"
    (record,) = caplog.records
    assert "does without the kernel" in record.message and "run: python -m ksmm build" in record.message


def test_auto_says_nothing_where_nothing_can_be_built(
    unbuilt: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(build, "missing_tools", lambda: "no C++ compiler found")
    choices((1, 192, 48, 2), torch.float32, "batch_first", "cpu", "auto")
    assert caplog.text == ""
