"""The operator under test."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


@pytest.fixture(scope="session")
def operator() -> Callable[..., torch.Tensor]:
    """torch.ops.ksmm.ks_matmul(x, weight, layout) with its CUDA part; skips visibly where it is not to be had."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    from ksmm import Pattern, implementations
    from ksmm.problem import Problem

    problem = Problem(Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first", "cuda")
    reason = implementations()["kernel"].supports(problem)
    if reason is not None:
        pytest.skip(reason)
    return torch.ops.ksmm.ks_matmul
