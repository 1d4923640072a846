"""The scripts that put records into tables: what is wrong or set aside is told, and nothing is lost."""

import csv
import importlib
import sys

import pytest

from ksmm.measure.identity import identities_in
from ksmm.measure.journal import Journal
from ksmm.measure.measurement import Measurement
from ksmm.measure.records import read_record, write_record
from ksmm.resume import mend_results
from tests.measure.sample_records import energy, measurement, network_measurement, record_content, untimed, write_sample
from tests.workflow.conftest import ROOT

from run_summary import summary  # isort: skip - found through conftest

ELSEWHERE = {"slug": "tesla-v100", "name": "Tesla V100", "type": "cuda"}
SCRIPTS = {"time": "aggregate", "energy": "aggregate_energy", "networks": "aggregate_networks"}


@pytest.fixture
def aggregate(tmp_path, monkeypatch):
    """Runs the script of a study on its records in a folder of results, as the rules do: aggregate(study, *options)."""
    monkeypatch.syspath_prepend(str(ROOT / "workflow" / "scripts"))

    def run(study, *options):
        folder = tmp_path / study
        lists = tmp_path if study == "time" else folder
        command = ["--records", *sorted((folder / "records").glob("*.json")), "--rejected", folder / "rejected"]
        command += ["--device", "cpu-x86_64", "--journal", folder / "journal", "--table", tmp_path / f"{study}.csv"]
        command += ["--rejected-list", lists / "rejected.csv", "--wrong-list", lists / "wrong.csv", *options]
        monkeypatch.setattr(sys, "argv", ["script", *map(str, command)])
        importlib.import_module(SCRIPTS[study]).main()
        return rows(lists / "rejected.csv"), rows(lists / "wrong.csv")

    return run


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_record_of(study, path, **changes):
    """A record with a result that is right and one that is wrong."""
    values = {"energy": energy()} if study == "energy" else {}
    entries = [measurement(**values).to_dict(), untimed("wrong", "planted", implementation="dense").to_dict()]
    if study == "networks":
        failed = {"samples_s": (), "runs_per_sample": 0, "median_s": None, "iqr_s": None, "protocol_met": None}
        wrong = network_measurement(status="wrong", reason="planted", implementation="kernel", **failed)
        entries = [network_measurement().to_dict(), wrong.to_dict()]
    write_record(path, record_content(job=path.stem, measurements=entries, **changes))
    return path


@pytest.mark.parametrize("study", SCRIPTS)
def test_a_wrong_result_of_every_study_is_loud(study, aggregate, tmp_path, caplog):
    write_record_of(study, tmp_path / study / "records" / "a.json")
    set_aside, (wrong,) = aggregate(study)
    assert set_aside == []
    assert wrong["reason"] == "planted"
    assert wrong["implementation"] in ("dense", "kernel")
    assert "WRONG: " in caplog.text
    said = summary(tmp_path)
    assert "WRONG RESULTS, which have no time:" in said
    assert any(wrong["implementation"] in line and "planted" in line for line in said.splitlines())


@pytest.mark.parametrize("study", SCRIPTS)
def test_what_resume_set_aside_is_listed_once(study, aggregate, tmp_path):
    good, bad = (write_record_of(study, tmp_path / study / "records" / f"{name}.json") for name in ("a", "b"))
    aggregate(study)
    bad.write_text(bad.read_text()[:100])
    mend_results(tmp_path, "cpu-x86_64")
    assert good.exists() and not bad.exists()
    (row,), _ = aggregate(study)
    assert row["record"].startswith("b-")
    assert "is not whole JSON" in row["reason"]
    assert f"records set aside:\n    {row['record']}: " in summary(tmp_path)
    assert aggregate(study)[0] == []
    good.write_text("")
    assert [row["record"][:2] for row in aggregate(study)[0]] == ["a-"]


@pytest.mark.parametrize("study", ["energy", "networks"])
def test_rules_put_both_lists_into_the_report(study):
    rules = (ROOT / "workflow" / "rules" / f"{study}.smk").read_text()
    for name in ("wrong", "rejected"):
        assert f'{name}=report(\n            RESULTS / "{study}/{name}.csv",' in rules


def test_a_bad_record_of_others_is_copied_and_the_journal_is_cleared_all_the_same(aggregate, tmp_path):
    mine = write_record_of("energy", tmp_path / "energy" / "records" / "a.json")
    journal = Journal(tmp_path / "energy" / "journal")
    record = read_record(mine)
    for identity, values in zip(identities_in(record), record["measurements"], strict=True):
        journal.add(identity, Measurement.from_dict(values))
    journal.add({"of": "another job"}, measurement())
    theirs = write_sample(tmp_path / "theirs" / "b.json", measurement(energy=energy()), device=ELSEWHERE)
    theirs.write_text(theirs.read_text()[:100])
    (row,), _ = aggregate("energy", "--imported", theirs)
    assert row["record"].startswith("b-")
    assert theirs.exists()
    assert len(list(journal.folder.iterdir())) == 1
    assert len(aggregate("energy", "--imported", theirs)[0]) == 1  # it is still among those of others


def test_only_what_others_measured_may_be_of_another_device(aggregate, tmp_path):
    write_record_of("energy", tmp_path / "energy" / "records" / "a.json")
    strange = write_record_of("energy", tmp_path / "energy" / "records" / "b.json", device=ELSEWHERE)
    theirs = write_record_of("energy", tmp_path / "theirs" / "c.json", device=ELSEWHERE)
    (row,), _ = aggregate("energy", "--imported", theirs)
    assert "b.json is of device tesla-v100, among those of cpu-x86_64" in row["reason"]
    assert not strange.exists()
    assert {row["device"] for row in rows(tmp_path / "energy.csv")} == {"cpu-x86_64", "tesla-v100"}
