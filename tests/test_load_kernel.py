"""Saved graphs with the kernel's operators, read by a process that has multiplied nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ksmm
from ksmm.implementations import kernel

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
