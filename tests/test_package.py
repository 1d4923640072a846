"""What `import ksmm` brings, and what it leaves until somebody asks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ksmm

ROOT = Path(__file__).parents[1]


def said_by(program: str, *arguments: str) -> str:
    """What a new Python says that runs the program."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


@pytest.mark.parametrize("name", ksmm.__all__)
def test_all_that_is_promised_is_there(name: str) -> None:
    assert name in dir(ksmm)
    assert getattr(ksmm, name) is not None


def test_static_readers_see_the_same_names() -> None:
    tree = ast.parse(Path(ksmm.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("ksmm.")]
    assert sorted(alias.name for node in imports for alias in node.names) == sorted(ksmm.__all__)


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'ksmm' has no attribute 'kronecker'"):
        ksmm.kronecker  # noqa: B018


@pytest.mark.parametrize("before", ["", "import ksmm.implementations", "from ksmm.implementations import kernel"])
def test_implementations_is_the_function_whatever_was_imported(before: str) -> None:
    assert "kernel" in said_by(f"import ksmm\n{before}\nprint(*ksmm.implementations())").split()


@pytest.mark.parametrize(
    ("folder", "script"),
    [
        *(
            ("figures", name)
            for name in ("fig19_time_over_roofline", "fig07_energy", "table03_speedups", "table_targets")
        ),
        *(("workflow/scripts", name) for name in ("aggregate", "aggregate_energy", "aggregate_networks")),
    ],
)
def test_tables_are_made_and_drawn_without_pytorch(folder: str, script: str) -> None:
    program = "import sys\nsys.path.insert(0, sys.argv[1])\n__import__(sys.argv[2])\nprint('torch' in sys.modules)"
    assert said_by(program, folder, script) == "False"
