"""The table of what compute-sanitizer says of every configuration, with a program in its place that needs no GPU."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from tests.cuda import sanitize_each

TOOL = """#!/bin/sh
case "$*" in
  *"--tool initcheck"*"three passes --products 2 --filled"*) ;;
  *"--filled"*) exit 4;;
  *"--tool initcheck"*"three passes --products 2"*) echo "========= ERROR SUMMARY: 216 errors"; exit 9;;
  *"--tool initcheck --check-api-memory-access no "*) ;;
  *"--tool initcheck"*) echo "========= ERROR SUMMARY: 9 errors"; exit 9;;
  *"slow tile"*) sleep 600;;
  *"wrong tile"*) echo "1 of 2 products wrong (seed 1)"; exit 1;;
  *"racing tile"*) echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"; exit 9;;
  *"warned tile"*) echo "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)"; exit 0;;
  *"silent tile"*) echo "0 of 2 products wrong (seed 1)"; exit 0;;
  *"broken tile"*) exit 3;;
esac
echo "0 of 2 products wrong (seed 1)"
echo "========= ERROR SUMMARY: 0 errors"
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the script on such configurations; its exit status."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sanitize_each, "reason_missing", lambda: None)

    def run(names: list[str], *options: str) -> int:
        monkeypatch.setattr(sanitize_each, "configurations", lambda many_tiles: names)
        monkeypatch.setattr(sys, "argv", ["sanitize_each.py", str(tmp_path / "said.csv"), *options])
        return sanitize_each.main()

    return run


def table(folder: Path) -> dict[str, tuple[str, str]]:
    with (folder / "said.csv").open(newline="") as file:
        return {line["configuration"]: (line["result"], line["products"]) for line in csv.DictReader(file)}


def test_what_is_said_is_kept_and_not_asked_again(run, tmp_path, capsys):
    assert run(["good tile", "slow tile"], "--seconds", "2") == 0
    assert table(tmp_path) == {"good tile": ("no errors", "2"), "slow tile": ("not ended", "")}
    assert run(["good tile", "slow tile", "late tile"], "--max-seconds", "-1") == 0
    assert "'not begun': 1" in capsys.readouterr().out and "late tile" not in table(tmp_path)
    assert run(["good tile", "slow tile", "late tile"]) == 0
    assert table(tmp_path)["late tile"] == ("no errors", "2")


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("wrong tile", "a wrong product"),
        ("racing tile", "errors"),
        ("warned tile", "errors"),
        ("silent tile", "errors"),
        ("broken tile", "exit status 3"),
    ],
)
def test_a_fault_fails_this_call_and_those_after_it(run, tmp_path, name, result):
    for _ in range(2):
        assert run(["good tile", name]) == 1
    assert table(tmp_path)[name][0] == result


def test_initcheck_leaves_copies_to_the_host_alone(run, tmp_path):
    assert run(["good tile"], "--tool", "initcheck") == 0
    assert table(tmp_path) == {"good tile": ("no errors", "2")}


@pytest.mark.parametrize("tool", ["initcheck", "memcheck"])
def test_memory_is_filled_for_initcheck_of_what_reads_the_copy_engines_writes(run, tmp_path, tool):
    names = ["three passes", "three passes strict"]
    assert run(names, "--tool", tool) == 0
    assert table(tmp_path) == dict.fromkeys(names, ("no errors", "2"))


def test_without_a_gpu_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sanitize_each, "reason_missing", lambda: "no CUDA device")
    monkeypatch.setattr(sys, "argv", ["sanitize_each.py", str(tmp_path / "said.csv")])
    assert sanitize_each.main() == 2
    assert capsys.readouterr().err == "no CUDA device\n"
