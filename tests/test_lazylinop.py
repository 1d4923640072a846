"""`lazylinop` says why it cannot multiply, and copies nothing where it can. Its products: test_implementations.py."""

from __future__ import annotations

import importlib.util

import pytest
import torch

import ksmm
from ksmm.implementations import get_implementation
from ksmm.implementations import lazylinop as module

PATTERN = ksmm.Pattern(2, 6, 4, 3)


def reason(dtype: torch.dtype = torch.float32, layout: str = "batch_last", device_type: str = "cpu") -> str | None:
    return get_implementation("lazylinop").supports(ksmm.Problem(PATTERN, 8, dtype, layout, device_type))


@pytest.fixture
def installed() -> None:
    """Skips where lazylinop is not installed; it is in none of the extras that the tests need."""
    if importlib.util.find_spec("lazylinop") is None:
        pytest.skip("lazylinop is not installed")


def test_what_it_never_takes() -> None:
    assert reason(layout="batch_first") == "batch_first: lazylinop multiplies from the left, so the batch comes last"
    assert reason(torch.bfloat16) == "dtype bfloat16; NumPy and CuPy have float16, float32, float64"
    assert reason(torch.float16, device_type="cuda").startswith("float16: lazylinop's CUDA kernel rounds every partial")
    assert reason(device_type="meta") == "device meta; lazylinop runs on cpu and cuda"


@pytest.mark.parametrize(
    ("device_type", "absent"),
    [("cpu", "lazylinop"), ("cpu", "psutil"), ("cuda", "lazylinop"), ("cuda", "cupy"), ("cuda", "pyopencl")],
)
def test_a_package_that_is_missing_is_named(monkeypatch, device_type: str, absent: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == absent else package)
    found = reason(device_type=device_type)
    assert found == f"the package {absent} is not installed; see the extra lazylinop in pyproject.toml"


def test_what_it_says_on_a_trial_is_the_reason(monkeypatch) -> None:
    def fail(weight: torch.Tensor) -> None:
        raise AttributeError("'NoneType' object has no attribute 'Context'\nand more")

    monkeypatch.setattr(importlib.util, "find_spec", lambda package: package)
    monkeypatch.setattr(module, "_operator", fail)
    module._unsupported.cache_clear()
    assert reason() == "lazylinop on cpu: AttributeError: 'NoneType' object has no attribute 'Context'"
    module._unsupported.cache_clear()


def test_running_out_of_memory_is_not_remembered(monkeypatch) -> None:
    def fail(weight: torch.Tensor) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(importlib.util, "find_spec", lambda package: package)
    monkeypatch.setattr(module, "_operator", fail)
    module._unsupported.cache_clear()
    with pytest.raises(torch.OutOfMemoryError):
        reason()
    module._unsupported.cache_clear()


def test_x_is_not_copied(installed, monkeypatch) -> None:
    """What lazylinop gets is X's memory, and what ks_matmul returns is lazylinop's."""
    lazylinop = get_implementation("lazylinop")
    weight, x = torch.randn(PATTERN.weight_shape), torch.randn(PATTERN.columns, 16)
    packed = lazylinop.pack(weight, "batch_last")
    seen = []

    class Spy:
        def __matmul__(self, array):
            seen.append((array.__array_interface__["data"][0], packed.data @ array))
            return seen[-1][1]

    y = lazylinop.matmul(type(packed)(packed.pattern, packed.layout, Spy()), x)
    ((address, array),) = seen
    assert address == x.data_ptr()
    assert y.data_ptr() == array.__array_interface__["data"][0]


def test_it_is_in_the_time_report(installed, capsys) -> None:
    from ksmm import cli

    line = "time 1,16,8,2 --layout batch_last --batch 64 --device cpu --max-seconds 0.02 --implementations lazylinop"
    assert cli.main(line.split()) == 0
    assert "lazylinop" in capsys.readouterr().out
