import csv
import json

import pandas as pd
import plan
import pytest

from ksmm.energy_table import write_energy_table
from ksmm.networks.table import write_networks_table
from ksmm.table import write_table
from tests.figures.synthetic_energy import synthetic_energy_table
from tests.figures.synthetic_networks import synthetic_networks


@pytest.fixture
def planned(small_table, tmp_path, monkeypatch):
    write_table(small_table, tmp_path / "time.csv")
    write_energy_table(synthetic_energy_table(4), tmp_path / "energy.csv")
    output = tmp_path / "results" / "figures.json"
    monkeypatch.setattr("sys.argv", ["plan.py", "--table", str(tmp_path / "time.csv"), "--output", str(output)])
    plan.main()
    return output


def study_by_name(name: str) -> str:
    if "energy" in name or name.startswith("fig24"):
        return "energy"
    of_networks = ("table04", "table06", "table07", "table_language")
    return "networks" if name.startswith(of_networks) else "time"


def test_says_of_every_script_what_it_is(planned):
    entries = json.loads(planned.read_text(encoding="utf-8"))
    assert set(entries) == set(plan.scripts())
    for name, entry in entries.items():
        assert set(entry) == {"kind", "study", "title", "caption", "missing"}
        assert entry["kind"] == ("figure" if name.startswith("fig") else "table")
        assert entry["study"] == study_by_name(name)
        assert bool(entry["caption"]) == (entry["missing"] is None)


def test_a_table_that_is_not_there_is_a_reason(planned):
    entry = json.loads(planned.read_text(encoding="utf-8"))["table04_vit_submodules"]
    assert entry["study"] == "networks"
    assert entry["missing"] == "there is no networks.csv; `snakemake --cores all networks` measures it"


def test_tables_beside_it_are_read(small_table, tmp_path):
    write_table(small_table, tmp_path / "time.csv")
    write_networks_table(synthetic_networks(), tmp_path / "networks.csv")
    entries = plan.plan(plan.read_tables(tmp_path / "time.csv"))
    assert entries["table04_vit_submodules"]["missing"] is None
    assert entries["table04_vit_submodules"]["caption"]


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
    assert len(set(plan.read_tables(tmp_path / "time.csv")["energy"].device)) > 1
