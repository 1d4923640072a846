"""Which tests stay together when pytest-xdist runs them in several processes, and which begin first.

A folder that shares what takes minutes (a cluster, a finished run) is run by one process, and so is a file; what
compiles for minutes is spread test by test. Begun first is what takes longest: it mostly waits.

pytest-xdist's own groups (`--dist loadgroup`) do nothing with this version of pytest. And where a process dies (a
segmentation fault), its scheduler hands out again all groups that the process ever had, those that are finished, too:
whoever gets such a one waits for its tests for ever.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SHARED_FOLDERS = ("tests/slurm/", "tests/workflow/")
SPREAD_FILES = ("tests/cuda/test_compiles.py", "tests/cuda/test_emulation.py")


class Together(LoadScopeScheduling):
    """Hands out groups of tests, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        if path in SPREAD_FILES:
            return nodeid
        return next((folder for folder in SHARED_FOLDERS if path.startswith(folder)), path)

    def remove_node(self, node: WorkerController) -> str | None:
        """The test at which a process died, None if it had none left; the tests that were to follow are others' now."""
        left = {
            scope: [test for test, done in unit.items() if not done] for scope, unit in self.assigned_work[node].items()
        }
        self.assigned_work.pop(node)
        crashed = next((test for tests in left.values() for test in tests), None)
        for scope, tests in left.items():
            if others := [test for test in tests if test != crashed]:
                self.workqueue[scope] = dict.fromkeys(others, False)
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        """A process begins a test once it knows the one after it, or that there is none."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def rank(item: pytest.Item) -> int:
    """A sort key: tests of a lower rank begin earlier."""
    first = (*SHARED_FOLDERS, *SPREAD_FILES)
    return next((number for number, path in enumerate(first) if item.nodeid.startswith(path)), len(first))
