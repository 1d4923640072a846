"""What a config replaces is kept, and what it leaves as it was is not measured again."""

import json
import os

import pytest

from ksmm.measure import recording
from ksmm.measure.earlier import keep_records
from ksmm.measure.job import run_job
from ksmm.measure.records import read_record, write_record
from ksmm.patterns import Pattern


@pytest.fixture
def run(tmp_path, quick, plant):
    """As the pipeline runs a job again: its record is kept, deleted, written anew; run(names) says what it measured.

    The implementations a, b and c are there. The record is run.record.
    """
    packed = []
    for name in ("a", "b", "c"):
        planted = plant(name, supports=lambda problem: start.reason)
        pack = planted.pack
        planted.pack = lambda *arguments, name=name, pack=pack: packed.append(name) or pack(*arguments)

    def start(*names, layouts=("batch_first",), **changes):
        packed.clear()
        keep_records(start.record.parent)
        start.record.unlink(missing_ok=True)
        options = {"device_type": "cpu", "batch_size": 16, "dtypes": ["float32"], "protocol": quick, **changes}
        run_job(
            [Pattern(1, 4, 3, 2)],
            **{"implementations": names, "layouts": layouts, "record": start.record, "journal": tmp_path / "journal"},
            **options,
        )
        return list(packed)

    start.record, start.reason = tmp_path / "records" / "1x4x3x2.json", None
    return start


def versions(run):
    return sorted(run.record.parent.with_name("earlier").glob(f"*/{run.record.name}"))


def test_an_implementation_that_is_added_measures_only_itself(run, caplog):
    assert run("a", "b") == ["a", "b"]
    before = {entry["implementation"]: entry for entry in read_record(run.record)["measurements"]}
    assert run("a", "b", "c") == ["c"]
    after = {entry["implementation"]: entry for entry in read_record(run.record)["measurements"]}
    assert set(after) == {"a", "b", "c"}
    assert {name: after[name] for name in before} == before
    assert f"2 of 3 measurements are of earlier records, {run.record.parents[1]}/earlier/*/1x4x3x2.json" in caplog.text


def test_a_layout_or_a_dtype_that_is_added_measures_only_itself(run):
    assert run("a", "b") == ["a", "b"]
    assert run("a", "b", layouts=["batch_first", "batch_last"]) == ["a", "b"]
    assert run("a", "b", layouts=["batch_first", "batch_last"]) == []
    assert run("a", dtypes=["float32", "bfloat16"]) == ["a"]


def test_who_goes_back_to_an_earlier_config_measures_nothing(run, quick):
    longer = type(quick)(**quick.to_dict() | {"seed": 7})
    assert run("a", "b") == ["a", "b"]
    assert run("a", protocol=longer) == ["a"]
    assert run("c") == ["c"]
    assert run("a", "b", "c") == []
    assert run("a", protocol=longer) == []


@pytest.mark.parametrize("what", ["sources", "versions", "kernel", "record"])
def test_what_was_measured_otherwise_is_measured_again(run, monkeypatch, what):
    assert run("a", "b") == ["a", "b"]
    if what == "sources":
        hashes = recording.implementation_hashes()
        monkeypatch.setattr(recording, "implementation_hashes", lambda: hashes | {"b": "repaired"})
        assert run("a", "b") == ["b"]
        return
    if what == "versions":
        monkeypatch.setattr("ksmm.measure.provenance._LIBRARIES", ("numpy",))
    elif what == "kernel":
        monkeypatch.setattr("ksmm.measure.provenance.kernel_hash", lambda: "another")
    else:
        run.record.write_text(run.record.read_text().replace('"ok"', '"OK"', 1))
    assert run("a", "b") == ["a", "b"]


def test_records_of_before_there_were_hashes_are_kept_and_not_taken_for_the_present_codes(run):
    run("a")
    content = read_record(run.record)
    del content["provenance"]["implementation_hashes"]
    write_record(run.record, content)
    assert run("a") == ["a"]
    assert any("implementation_hashes" not in read_record(path)["provenance"] for path in versions(run))


def test_what_had_to_do_with_the_circumstances_is_tried_again(run):
    run.reason = "not installed"
    assert run("a") == []
    run.reason = None
    assert run("a") == ["a"]


def test_a_job_that_dies_leaves_what_there_was(run):
    run("a", "b")
    before = run.record.read_bytes()
    for _ in range(2):
        with pytest.raises(ValueError, match="unknown implementation"):
            run("a", "nobody")
    assert [path.read_bytes() for path in versions(run)] == [before]
    assert run("a", "b") == []


def test_every_version_is_kept_once_whether_or_not_there_are_hard_links(run, monkeypatch):
    run("a")
    keep_records(run.record.parent)
    (kept,) = versions(run)
    assert kept.samefile(run.record)
    run("a")
    keep_records(run.record.parent)
    assert len(versions(run)) == 2

    def no_links(source, target):
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    run("a")
    keep_records(run.record.parent)
    keep_records(run.record.parent)
    assert len(versions(run)) == 3
    assert versions(run)[-1].read_bytes() == run.record.read_bytes()
    assert all(json.loads(path.read_text())["job"] == run.record.stem for path in versions(run))


def test_a_folder_without_records_has_nothing_to_keep(tmp_path):
    keep_records(tmp_path / "records")
    assert list(tmp_path.iterdir()) == []
