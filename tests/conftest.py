"""Fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parent

IN_ONE_PROCESS = ("slurm", "workflow")
"""Folders whose tests share what takes minutes: a cluster, a finished run. One process has them all."""

BY_FILE = ("faults", "figures", "measure", "networks")
"""Folders in which the tests of a file share something."""

TOLERANCES = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""Relative error (Frobenius) against float64: about ten times the rounding of one result."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For pytest-xdist: what must stay together does, and the longest, which mostly waits, begins first."""
    items.sort(key=lambda item: _folder(item) not in IN_ONE_PROCESS)  # stable
    for item in items:
        folder = _folder(item)
        if folder in IN_ONE_PROCESS:
            item.add_marker(pytest.mark.xdist_group(folder))
        elif folder in BY_FILE:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    """Each device that a test runs on; CUDA is skipped visibly where there is none."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return request.param


@pytest.fixture(autouse=True)
def _strict_float32() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.fixture(autouse=True)
def _fresh_seed(record_property) -> None:
    """New random inputs each run; the seed is in the report of a failure (and in junit's properties)."""
    seed = torch.seed()
    record_property("torch_seed", seed)
    print(f"torch.manual_seed({seed})")  # noqa: T201 - pytest shows it only when the test fails
