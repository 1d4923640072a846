"""docs/faults.md names a test for each fault, and each of them exists."""

import ast
import re

from tests.workflow.conftest import ROOT

PAGE = ROOT / "docs" / "faults.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_fault_says_what_is_seen_what_is_lost_and_what_shows_it():
    assert len(rows()) >= 25
    for row in rows():
        assert len(row) == 4, row
        assert all(row), row
        assert NAMED.findall(row[3]), row


def test_every_test_that_is_named_exists():
    named = [found for row in rows() for found in NAMED.findall(row[3])]
    for file, name in named:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"


def test_every_test_of_a_fault_is_named():
    text = PAGE.read_text(encoding="utf-8")
    for path in (ROOT / "tests" / "faults").glob("test_*.py"):
        assert path.name in text or path.name == "test_documented.py"
