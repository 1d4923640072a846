"""Which tests stay together when pytest-xdist runs them in several processes, and which begin first.

A folder that shares what takes minutes (a cluster, a finished run) is run by one process, and so is a file; what
compiles for minutes is spread test by test. Begun first is what takes longest: it mostly waits.

pytest-xdist's own groups (`--dist loadgroup`) do nothing with this version of pytest.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED_FOLDERS = ("tests/slurm/", "tests/workflow/")
SPREAD_FILES = ("tests/cuda/test_compiles.py", "tests/cuda/test_emulation.py")


class Together(LoadScopeScheduling):
    """Hands out groups of tests, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        if path in SPREAD_FILES:
            return nodeid
        return next((folder for folder in SHARED_FOLDERS if path.startswith(folder)), path)


def rank(item: pytest.Item) -> int:
    """A sort key: tests of a lower rank begin earlier."""
    first = (*SHARED_FOLDERS, *SPREAD_FILES)
    return next((number for number, path in enumerate(first) if item.nodeid.startswith(path)), len(first))
