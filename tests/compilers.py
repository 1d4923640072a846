"""Compilers that some tests need, and what becomes of these tests where there are none."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRED = "KSMM_TESTS_NEED_COMPILERS"
"""The environment variable by which CI (.ci/run) says that all compilers are to be there."""


def skip_or_fail(reason: str) -> NoReturn:
    """Skips the test visibly; where REQUIRED is set it fails, since what nobody compiles would pass for compiled."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{reason}, and {REQUIRED} is set", pytrace=False)
    pytest.skip(reason)
