"""The notebooks run from end to end on synthetic tables, alone, and are committed without outputs."""

import json
import subprocess
import sys

import nbformat
import pandas as pd
import papermill
import pytest

from ksmm.networks.table import write_networks_table
from ksmm.table import write_table
from tests.figures.conftest import FIGURES
from tests.figures.synthetic_networks import synthetic_networks
from tests.figures.synthetic_table import synthetic_table, with_later
from tests.scripts import load_script

NOTEBOOKS = {path.stem: path for path in sorted(FIGURES.parent.glob("notebooks/*.ipynb"))}
PARAMETERS = {name: {"table", "device", "dtype", "layout", "output"} for name in NOTEBOOKS} | {
    "vit_submodules": {
        *("table", "device", "dtype", "output"),
        *("architecture", "chains", "batch", "implementations", "measure"),
    }
}


def execute(name, table, tmp_path, **parameters):
    """The notebook's markdown and the number of its pictures."""
    source, write = ("networks", write_networks_table) if name == "vit_submodules" else ("time", write_table)
    write(table, tmp_path / f"{source}.csv")
    parameters = {"table": str(tmp_path / f"{source}.csv"), "output": str(tmp_path / "out"), **parameters}
    done = papermill.execute_notebook(
        NOTEBOOKS[name], tmp_path / "done.ipynb", parameters, progress_bar=False, cwd=str(tmp_path)
    )
    outputs = [output.get("data", {}) for cell in done.cells for output in cell.get("outputs", [])]
    text = "\n".join(str(data["text/markdown"]) for data in outputs if "text/markdown" in data)
    return text, sum("image/png" in data for data in outputs)


def test_all_are_there():
    assert {"memory_rewrite", "layout_study", "vit_submodules"} <= set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_committed_without_outputs(name):
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_parameters(name):
    assert set(papermill.inspect_notebook(str(NOTEBOOKS[name]))) == PARAMETERS[name]


def test_what_is_published_sets_the_parameters_that_a_notebook_has():
    module = load_script("workflow/scripts/execute_notebook.py")
    values = dict.fromkeys(("table", "device", "dtype", "layout", "output"), "x")
    assert module.taken(NOTEBOOKS["layout_study"], values) == values
    assert set(module.taken(NOTEBOOKS["vit_submodules"], values)) == set(values) - {"layout"}


def test_what_is_published_names_no_folder_of_the_machine(small_table, tmp_path):
    write_table(small_table, tmp_path / "time.csv")
    script, output = FIGURES.parent / "workflow/scripts/execute_notebook.py", tmp_path / "deep" / "study-float32.ipynb"
    command = [sys.executable, script, NOTEBOOKS["memory_rewrite"], "--table", tmp_path / "time.csv"]
    options = ["--device", small_table.device[0], "--dtype", "float32", "--output", output]
    subprocess.run([*command, *options], check=True, timeout=300)
    assert str(tmp_path) not in output.read_text() + output.with_suffix(".html").read_text()
    written = json.loads(output.read_text())["metadata"]["papermill"]
    assert (written["input_path"], written["output_path"]) == ("memory_rewrite.ipynb", output.name)


def test_memory_rewrite(small_table, tmp_path):
    text, pictures = execute("memory_rewrite", small_table, tmp_path, device="cpu-x86_64", dtype="float32")
    assert pictures == 2
    assert "Some CPU, 20 patterns, batch 1,024, float32." in text
    assert "**batch_first**: over 20 patterns" in text and "**batch_last**: over 20 patterns" in text
    assert len(pd.read_csv(tmp_path / "out" / "memory_rewrite-float32.csv")) == 40


def test_memory_rewrite_in_one_layout_without_any_time(failed_table, tmp_path):
    text, pictures = execute("memory_rewrite", failed_table, tmp_path, dtype="float16", layout="batch_last")
    assert pictures == 0
    assert "Left out: batch_last.** bmm has no time in float16 batch_last (failed: the device fell over)" in text


def test_layout_study(tmp_path):
    table = with_later(synthetic_table(12, ["float32", "float16"]))
    text, pictures = execute("layout_study", table, tmp_path, dtype="float16")
    assert pictures == 1
    assert "12 patterns, batch 25,088, float16." in text
    assert "**kernel**: batch_last is faster for" in text
    assert "min(bmm_strided, bmm, einsum, bsr, dense, sparse)" in text
    assert "paper_a100" not in text and "| yes" not in text
    assert "lazylinop" not in text  # nor is it in the figure
    assert len(pd.read_csv(tmp_path / "out" / "layout_study-float16.csv")) > 60


def test_layout_study_in_one_layout(small_table, tmp_path):
    text, pictures = execute("layout_study", small_table, tmp_path, layout="batch_first")
    assert pictures == 0
    assert "Left out: the comparison of layouts." in text
    assert "20.0% (×1.28)" in text and "88.1%" not in text


def test_vit_submodules(tmp_path):
    text, _ = execute("vit_submodules", synthetic_networks(), tmp_path, dtype="float32", implementations=["kernel"])
    assert "vit_s16: N = 384, 12 blocks, batch 128 of 224 × 224, 197 tokens each, chains: paper" in text
    assert "**whole network**, strict, kernel: 10 ms, 0.50 of the dense 20 ms." in text
    assert "linear N × 4N + bias" in text and "bmm_ms" not in text
    rows = pd.read_csv(tmp_path / "out" / "vit_submodules-float32.csv")
    assert len(rows) == 2 * (2 * 10 + 1)  # strict and TF32, dense and kernel; what Table 6 needs of the dense one
    assert set(rows.chains.dropna()) == {"paper"}


def test_an_implementation_that_was_not_measured_is_named():
    import vit_study

    with pytest.raises(ValueError, match="no float32 measurement of mine there; it has bmm, kernel"):
        vit_study.chosen(synthetic_networks(), "float32", "", "", 0, ["mine"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"table": "nowhere.csv"}, r"nowhere\.csv"),
        ({"dtype": "float64"}, "no measurement with dtype 'float64'; it has float32"),
        ({"device": "abacus"}, "no measurement with device 'abacus'; it has cpu-x86_64"),
        ({"layout": "batch_middle"}, "layout is 'batch_middle'; choose one of batch_first, batch_last or both"),
    ],
)
def test_bad_parameters_are_named(parameters, message, small_table, tmp_path, monkeypatch):
    import studies

    write_table(small_table, tmp_path / "time.csv")
    values = {"table": str(tmp_path / "time.csv"), "device": "", "dtype": "float32", "layout": "both", **parameters}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        studies.load(values["table"], values["device"], values["dtype"])
        studies.chosen_layouts(values["layout"])


def test_of_a_table_of_two_devices_one_is_chosen(small_table, tmp_path):
    import studies

    path = tmp_path / "time.csv"
    write_table(pd.concat([small_table, small_table.assign(device="nvidia-h200")]), path)
    with pytest.raises(ValueError, match=r"cpu-x86_64 and nvidia-h200, .* give the parameter device"):
        studies.load(str(path), "", "float32")
    assert len(studies.load(str(path), "nvidia-h200", "float32")) == len(small_table)


def test_the_first_table_is_found(small_table, tmp_path, monkeypatch):
    import studies

    monkeypatch.setattr(studies, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match="make figures"):
        studies.load("", "", "float32")
    for folder in ("measurements/b", "results/c"):
        (tmp_path / folder).mkdir(parents=True)
        write_table(small_table.assign(device=folder[-1]), tmp_path / folder / "time.csv")
    assert set(studies.load("", "", "float32").device) == {"c"}
    assert set(studies.load("", "b", "float32").device) == {"b"}
