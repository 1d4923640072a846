"""Scripts that are no modules of a package, as modules."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"


def load_script(name: str) -> ModuleType:
    """The script of that path in the repository, imported without being run as a program.

    What lies beside it is found, as when it is run.
    """
    path = ROOT / name
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(path.parent))
    try:
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def run_benchmark(script: str, *options: object) -> subprocess.CompletedProcess[str]:
    """A script of benchmarks/, run as a program to its end."""
    command = [sys.executable, str(BENCHMARKS / f"{script}.py"), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
