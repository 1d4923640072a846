import csv
import json
import sys

import pandas as pd
import plan
import pytest

from ksmm.energy_table import write_energy_table
from ksmm.networks.table import write_networks_table
from ksmm.table import write_table
from tests.figures.scripts import SCRIPTS
from tests.figures.synthetic_energy import synthetic_energy_table
from tests.figures.synthetic_networks import synthetic_networks


@pytest.fixture
def planned(small_table, tmp_path, monkeypatch):
    write_table(small_table, tmp_path / "time.csv")
    write_energy_table(synthetic_energy_table(4), tmp_path / "energy.csv")
    output = tmp_path / "results" / "figures.json"
    tables = [str(tmp_path / name) for name in ("time.csv", "energy.csv")]
    monkeypatch.setattr("sys.argv", ["plan.py", "--table", *tables, "--output", str(output)])
    plan.main()
    return output


def study_by_name(name: str) -> str:
    if "energy" in name or name.startswith("fig24"):
        return "energy"
    of_networks = ("table04", "table06", "table07", "table_language")
    return "networks" if name.startswith(of_networks) else "time"


def test_says_of_every_script_what_it_is(planned):
    entries = json.loads(planned.read_text(encoding="utf-8"))
    assert set(entries) == set(SCRIPTS)
    for name, entry in entries.items():
        assert set(entry) == {"kind", "study", "title", "caption", "missing"}
        assert entry["kind"] == ("figure" if name.startswith("fig") else "table")
        assert entry["study"] == study_by_name(name)
        assert bool(entry["caption"]) == (entry["missing"] is None)


def test_a_table_that_is_not_there_is_a_reason(planned):
    entry = json.loads(planned.read_text(encoding="utf-8"))["table04_vit_submodules"]
    assert entry["study"] == "networks"
    assert entry["missing"].startswith("there is no networks.csv; `snakemake --cores all` measures it where")


def test_only_the_tables_that_are_given_are_read(small_table, tmp_path):
    write_table(small_table, tmp_path / "time.csv")
    write_networks_table(synthetic_networks(), tmp_path / "networks.csv")  # of a run before, whose config had networks
    entries = plan.plan(plan.read_tables(tmp_path / "time.csv"))
    assert entries["table04_vit_submodules"]["missing"].startswith("there is no networks.csv")
    entries = plan.plan(plan.read_tables(tmp_path / "time.csv", tmp_path / "networks.csv"))
    assert entries["table04_vit_submodules"]["missing"] is None
    assert entries["table04_vit_submodules"]["caption"]


def test_a_table_of_no_study_is_refused_by_name(tmp_path):
    with pytest.raises(
        ValueError, match=r"times\.csv is the table of no study; .* time\.csv, energy\.csv, networks\.csv"
    ):
        plan.read_tables(tmp_path / "times.csv")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TITLE = 'x\ndef missing(table):", "SyntaxError: unterminated string"),
        ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("TITLE = 'x'\ndef missing(table):\n    return table.nothing", "AttributeError: "),
    ],
)
def test_a_script_that_cannot_be_used_is_missing_and_the_others_are_not(text, said, small_table, tmp_path, monkeypatch):
    (tmp_path / "fig99_new.py").write_text(text)
    (tmp_path / "table99_fine.py").write_text(
        "TITLE = 'fine'\ncaption = lambda table: 'It is.'\nmissing = lambda table: None"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plan, "FOLDER", tmp_path)
    monkeypatch.delitem(sys.modules, "fig99_new", raising=False)
    entries = plan.plan({"time": small_table})
    assert said in entries["fig99_new"]["missing"]
    assert entries["fig99_new"]["missing"].startswith("figures/fig99_new.py cannot be used")
    assert entries["table99_fine"]["missing"] is None


def test_lists_what_is_left_out_and_why(planned):
    with (planned.parent / "left_out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    entries = json.loads(planned.read_text(encoding="utf-8"))
    assert {row["name"] for row in rows} == {name for name, entry in entries.items() if entry["missing"]}
    assert all(row["reason"] == entries[row["name"]]["missing"] for row in rows)
    assert all(row["title"] for row in rows)


def test_without_a_table_of_energies_their_figures_are_missing(small_table):
    entries = plan.plan({"time": small_table})
    missing = {name for name, entry in entries.items() if "energy.measure" in (entry["missing"] or "")}
    assert missing == {name for name, entry in entries.items() if entry["study"] == "energy"}
    assert "fig07_energy" in missing


def test_a_missing_table_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["plan.py", "--table", str(tmp_path / "no.csv"), "--output", str(tmp_path / "x")])
    with pytest.raises(SystemExit, match=r"no\.csv"):
        plan.main()


def test_devices_are_not_mixed(small_table, tmp_path):
    other = small_table.assign(device="nvidia-h200")
    write_table(pd.concat([small_table, other]), tmp_path / "time.csv")
    with pytest.raises(
        ValueError, match="cpu-x86_64 and nvidia-h200, which are not to be mixed; give the table of one"
    ):
        plan.read_tables(tmp_path / "time.csv")


def test_energies_may_be_of_several_devices(small_table, tmp_path):
    write_table(small_table, tmp_path / "time.csv")
    energies = synthetic_energy_table(4)
    write_energy_table(pd.concat([energies, energies.assign(device="tesla-v100")]), tmp_path / "energy.csv")
    assert len(set(plan.read_tables(tmp_path / "energy.csv")["energy"].device)) > 1
