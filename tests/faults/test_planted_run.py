"""The pipeline in a copy of the repository in which everything goes wrong that can go wrong without being killed.

In a folder with spaces and a quote, in a locale with decimal commas: a compiler fails; then an implementation computes
wrong numbers, one runs out of memory, one poisons its process, and a notebook raises; then the notebook is mended.
"""

from __future__ import annotations

import json
import locale
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest

from ksmm import build
from ksmm.table import read_table
from tests.workflow.conftest import ROOT, TEST_CONFIG

pytestmark = pytest.mark.workflow

PLANTED = textwrap.dedent(
    '''
    """Planted faults."""
    import torch
    from ksmm.implementations.base import REGISTRY, register
    from ksmm.implementations.einsum import Einsum


    @register
    class PlantedMemory(Einsum):
        name = "planted_memory"

        def matmul(self, packed, x):
            return torch.empty(2**60)


    @register
    class PlantedPoison(Einsum):
        name = "planted_poison"

        def supports(self, problem):
            return None if problem.pattern.a == 1 else "one is enough"

        def matmul(self, packed, x):
            def fail(*arguments):
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            for implementation in REGISTRY.values():
                type(implementation).matmul = fail
            fail()


    @register
    class PlantedWrong(Einsum):
        name = "planted_wrong"

        def matmul(self, packed, x):
            y = super().matmul(packed, x)
            y[-1, -1] += 1
            return y
    '''
)

SETTINGS = {
    "results": "my results",
    "device": "cpu",
    "cpu": {"patterns": {"explicit": ["1,48,48,1", "2,16,64,3"]}},
    "layouts": ["batch_last"],
    "implementations": ["bmm", "einsum", "kernel", "planted_memory", "planted_poison", "planted_wrong"],
    "networks": {"in_all": False},
    "energy": {"measure": False},
    "figures": ["fig19_time_over_roofline", "table_status"],
    "notebooks": ["memory_rewrite", "planted"],
}


def notebook(code: str) -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell(code)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


@pytest.fixture(scope="module")
def decimal_commas(tmp_path_factory) -> dict[str, str]:
    """What sets a German locale in the environment, as far as one can be compiled here."""
    folder = tmp_path_factory.mktemp("locales")
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    if shutil.which("localedef") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        return {}
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}


class Copy:
    """A copy of the repository in a folder with a name to stumble over, and what its pipeline said."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.root, self.folder = folder / "it's a copy", folder / "a run of it"
        self.folder.mkdir()
        for part in ("ksmm", "workflow", "figures", "notebooks", "profiles"):
            ignored = shutil.ignore_patterns("_build", "__pycache__", "csrc" if part != "ksmm" else "")
            shutil.copytree(ROOT / part, self.root / part, ignore=ignored)
        shutil.copy(ROOT / "Snakefile", self.root)
        (self.root / "ksmm" / "implementations" / "planted.py").write_text(PLANTED)
        nbformat.write(notebook("raise ValueError('planted: ' + 'a fault')"), self.root / "notebooks/planted.ipynb")
        # every Python of the pipeline follows the locale, as one that is embedded in a program of a desktop does
        (self.root / "sitecustomize.py").write_text("import locale\nlocale.setlocale(locale.LC_ALL, '')\n")
        (self.folder / "settings.json").write_text(json.dumps(SETTINGS))
        self.snakemake = (
            *("snakemake", "--snakefile", str(self.root / "Snakefile"), "--cores", "2"),
            *("--configfile", str(TEST_CONFIG), "settings.json"),
        )
        self.environment = os.environ | environment | {"PYTHONPATH": str(self.root)}
        self.environment["KSMM_LOCK_DIRECTORY"] = str(folder / "locks")
        (self.results,) = [self.folder / "my results" / f"cpu-{os.uname().machine.lower()}"]

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess:
        command = command or self.snakemake
        return subprocess.run(
            [sys.executable, "-m", *command],
            **{"cwd": self.folder, "env": self.environment | more, "check": False},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        )

    def modified(self, *names: str) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for name in names for path in self.results.glob(name)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory, decimal_commas) -> Copy:
    return Copy(tmp_path_factory.mktemp("faults"), decimal_commas)


@pytest.fixture(scope="module")
def without_compiler(copy) -> subprocess.CompletedProcess:
    """A run whose compiler fails."""
    compiler = copy.folder / "c++"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-c*) echo "error: planted" >&2; exit 1;; esac\nexec c++ "$@"\n')
    compiler.chmod(0o755)
    return copy.run(CXX=shlex.quote(str(compiler)), KSMM_BUILD_DIRECTORY=str(copy.folder / "nothing built"))


@pytest.fixture(scope="module")
def planted(copy, without_compiler) -> tuple[subprocess.CompletedProcess, set[str]]:
    """What the next run says and makes, with a compiler that works, and everything that is planted."""
    built = build.find()
    where = {} if built is None else {"KSMM_BUILD_DIRECTORY": str(Path(built.library).parents[1])}
    copy.environment |= where
    return copy.run(), {path.name for path in copy.results.rglob("*")}


@pytest.fixture(scope="module")
def mended(copy, planted) -> tuple[subprocess.CompletedProcess, dict[str, int]]:
    """What resume does once the notebook is mended, and when what it must not make again was written."""
    before = copy.modified("time/records/*.json", "build.json", "ceilings.json", "time.csv", "figures/*.png")
    nbformat.write(notebook("print('mended')"), copy.root / "notebooks/planted.ipynb")
    return copy.run("ksmm", "resume"), before


def test_the_locale_has_decimal_commas(copy, decimal_commas):
    if not decimal_commas:
        pytest.skip("no German locale can be compiled here; the runs have another one")
    code = "import locale; print(locale.format_string('%g', 1.5))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=copy.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1,5\n"
    assert locale.format_string("%g", 1.5) == "1.5"  # this process is another one


@pytest.mark.skipif(build.missing_tools() is not None, reason=str(build.missing_tools()))
def test_a_compiler_that_fails_stops_the_run_with_its_message(copy, without_compiler):
    assert without_compiler.returncode != 0
    assert "the kernel library could not be built" in without_compiler.stdout
    assert "error: planted" in without_compiler.stdout


def test_every_fault_is_a_status_with_its_reason_and_the_others_are_measured(copy, planted):
    table = read_table(copy.results / "time.csv")
    statuses = table.groupby(["implementation", "a"]).status.agg(set)
    for name in ("bmm", "einsum"):
        assert statuses[name, 1] == statuses[name, 2] == {"ok"}
    assert statuses["planted_poison", 1] == {"failed"}
    assert statuses["planted_memory", 1] == statuses["planted_memory", 2] == {"out_of_memory"}
    assert statuses["planted_wrong", 1] == statuses["planted_wrong", 2] == {"wrong"}
    if build.find() is not None:
        assert statuses["kernel", 1] == statuses["kernel", 2] == {"ok"}
    assert table[table.status != "ok"].median_s.isna().all()
    assert table[table.status != "ok"].reason.str.len().gt(0).all()
    assert (table[table.status == "ok"].roofline_s > 0).all()


def test_a_wrong_result_is_loud(copy, planted, mended):
    for output in (planted[0].stdout, mended[0].stdout):
        assert "WRONG RESULTS, which have no time:" in output
        assert "planted_wrong, float32 batch_last on 2 patterns, the first 1,48,48,1: " in output
    page = (copy.results / "report.html").read_text()
    front = page[page.index("workflow_desc = ") : page.index("</script>", page.index("workflow_desc = "))]
    assert "Wrong results" in front
    assert "planted_wrong" in front


def test_a_notebook_that_raises_stops_nothing_but_the_report(copy, planted):
    done, made = planted
    assert done.returncode != 0
    assert "planted: a fault" in done.stdout
    assert "the notebook up to the error is my results" in done.stdout
    assert {"planted-float32.failed.ipynb", "memory_rewrite-float32.html", "fig19_time_over_roofline.png"} <= made
    assert not {"planted-float32.html", "report.html"} & made


def test_the_next_run_makes_what_is_missing_and_nothing_else(copy, mended):
    done, before = mended
    assert done.returncode == 0, done.stdout
    assert before == copy.modified("time/records/*.json", "build.json", "ceilings.json", "time.csv", "figures/*.png")
    assert len(before) == 5
    assert (copy.results / "notebooks" / "planted-float32.html").exists()
    assert (copy.results / "report.html").exists()
    assert str(copy.results.parent.relative_to(copy.folder)) in done.stdout


def test_who_repairs_an_implementation_has_it_measured_again(copy, mended):
    (copy.root / "ksmm" / "implementations" / "planted.py").write_text(f"{PLANTED}# repaired\n")
    assert "time_patterns" in copy.run(*copy.snakemake, "--dry-run").stdout
