"""Fixtures that all tests share."""

from __future__ import annotations

import itertools

import pytest
import torch

import ksmm
from ksmm.implementations import get_implementation
from tests.processes import Together, rank

TOLERANCES = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
"""Relative error (Frobenius) against float64: about ten times the rounding of one result."""

_LOCKS = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The order of tests that several processes share."""
    if hasattr(config, "workerinput"):
        items.sort(key=rank)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    """Which process gets which tests, where there are several."""
    config.option.loadscopereorder = False
    return Together(config, log)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    """Each device that a test runs on; CUDA is skipped visibly where there is none."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return request.param


@pytest.fixture
def kernel_library(device: str) -> None:
    """The kernel's operators on that device; what uses them is skipped where the library is not built."""
    problem = ksmm.Problem(ksmm.Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first", device)
    reason = get_implementation("kernel").supports(problem)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def _own_locks(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test locks devices for itself, and never waits for what else measures on the machine."""
    locks = tmp_path_factory.getbasetemp() / f"locks-{next(_LOCKS)}"
    monkeypatch.setenv("KSMM_LOCK_DIRECTORY", str(locks))


@pytest.fixture(autouse=True)
def _strict_float32() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.fixture(autouse=True)
def _fresh_seed(record_property) -> None:
    """New random inputs each run; the seed is in the report of a failure (and in junit's properties)."""
    seed = torch.seed()
    record_property("torch_seed", seed)
    print(f"torch.manual_seed({seed})")  # noqa: T201 - pytest shows it only when the test fails
