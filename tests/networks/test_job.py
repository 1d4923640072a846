import json
import logging
import threading
from pathlib import Path

import pytest

from ksmm.measure.earlier import keep_records
from ksmm.measure.records import RecordError, checksum
from ksmm.networks import job
from ksmm.networks.measure import PoisonedNetworkError
from ksmm.networks.measurement import NetworkMeasurement
from ksmm.networks.records import read_record
from ksmm.networks.table import COLUMNS, NETWORKS, aggregate, read_networks_table, write_networks_table
from ksmm.table import TableError
from ksmm.table_file import frame_of
from tests.networks.conftest import QUICK, THREE, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return run(tmp_path_factory.mktemp("finished"))


def test_a_record_holds_every_entry_and_what_it_takes_to_trust_it(finished):
    content = read_record(finished)
    found = [NetworkMeasurement.from_dict(values) for values in content["measurements"]]
    assert [measurement.entry for measurement in found] == THREE
    assert [measurement.status for measurement in found] == ["ok", "ok", "skipped"]
    versions = content["provenance"]["software"]["versions"]
    assert {"torch", "transformers", "ksmm"} <= set(versions)
    assert content["protocol"] == QUICK.to_dict()
    assert list((finished.parents[1] / "journal").iterdir()) == []


def test_what_an_earlier_record_holds_is_not_measured_again(monkeypatch, tmp_path):
    record = run(tmp_path)
    before = read_record(record)["measurements"]
    keep_records(record.parent)
    record.unlink()
    measured, real = [], job.measure
    monkeypatch.setattr(job, "measure", lambda entry, *arguments: measured.append(entry) or real(entry, *arguments))
    after = read_record(run(tmp_path))["measurements"]
    assert measured == THREE[2:]  # which was skipped
    assert after[:2] == before[:2]


def test_a_job_that_was_stopped_measures_only_what_is_missing(monkeypatch, tmp_path):
    measured, real = [], job.measure

    def stop_at_the_second(entry, *arguments):
        if len(measured) == 1:
            raise KeyboardInterrupt
        measured.append(entry)
        return real(entry, *arguments)

    monkeypatch.setattr(job, "measure", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert not (tmp_path / "records" / "mine.json").exists()
    monkeypatch.setattr(job, "measure", lambda entry, *arguments: measured.append(entry) or real(entry, *arguments))
    content = read_record(run(tmp_path))
    assert measured == THREE
    assert len(content["measurements"]) == 3


def test_what_ends_the_process_twice_is_recorded_as_failed(monkeypatch, tmp_path, caplog):
    def die(entry, *arguments):
        raise SystemError

    monkeypatch.setattr(job, "measure", die)
    monkeypatch.setattr(job.Journal, "end", lambda self, identity: None)  # as if the process were gone
    for _ in range(2):
        with pytest.raises(SystemError):
            run(tmp_path, THREE[:1])
    (values,) = read_record(run(tmp_path, THREE[:1]))["measurements"]
    assert values["status"] == "failed" and "ended the process 2 times" in values["reason"]


def test_a_poisoned_device_restarts_the_process_and_is_recorded(monkeypatch, tmp_path):
    real = job.measure

    def poisoned(entry, *arguments):
        raise PoisonedNetworkError(
            NetworkMeasurement(entry, "failed", "CUDA error", started_at="2026-01-02T03:04:05+00:00")
        )

    class RestartedError(Exception):
        pass

    def restart():
        raise RestartedError

    monkeypatch.setattr(job, "measure", poisoned)
    with pytest.raises(RestartedError):
        run(tmp_path, THREE[:2], restart=restart)
    monkeypatch.setattr(job, "measure", real)
    first, second = read_record(run(tmp_path, THREE[:2]))["measurements"]
    assert (first["status"], first["reason"], second["status"]) == ("failed", "CUDA error", "ok")


def test_what_never_ends_is_given_up(monkeypatch, tmp_path):
    ended, journalled = threading.Event(), []

    def hang(entry, *arguments):
        assert ended.wait(20)
        raise KeyboardInterrupt

    def restart():
        journalled.extend(json.loads(path.read_text()) for path in (tmp_path / "journal").glob("*.json"))
        ended.set()  # the end of the process, as far as this test goes

    real = job.measure
    monkeypatch.setattr(job, "measure", hang)
    monkeypatch.setattr(job, "deadline_seconds", lambda protocol: 0.1)
    monkeypatch.setattr(job, "_COMPILING_S", 0)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, THREE[:2], restart=restart)
    assert [entry["measurement"]["status"] for entry in journalled] == ["too_slow"]
    monkeypatch.setattr(job, "measure", real)
    first, second = read_record(run(tmp_path, THREE[:2]))["measurements"]
    assert (first["status"], second["status"]) == ("too_slow", "ok")
    assert "not over within 0.1 s" in first["reason"]


def test_nothing_to_measure_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing to measure"):
        run(tmp_path, [])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("status", "splendid", r"measurements\[1\]"),
        ("median_s", None, r"measurements\[1\].median_s"),
        ("mode", "fast", r"measurements\[1\].mode"),
        ("relative_error", 1.0, "exceeds tolerance"),
        ("median_s", 1e9, "lies outside of samples_s"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused(key, value, message, finished, tmp_path):
    content = json.loads(finished.read_text())
    content["measurements"][1][key] = value
    content["checksum"] = checksum(content)
    (tmp_path / "mine.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match=message):
        read_record(tmp_path / "mine.json")


def test_a_record_under_another_jobs_name_is_refused(finished, tmp_path):
    (tmp_path / "yours.json").write_text(finished.read_text())
    with pytest.raises(RecordError, match="is the record of job mine, under another job's name"):
        read_record(tmp_path / "yours.json")


def test_a_record_that_was_changed_is_set_aside(finished, tmp_path, caplog):
    (tmp_path / "records").mkdir()
    text = finished.read_text()
    (tmp_path / "records" / "mine.json").write_text(text)
    (tmp_path / "records" / "bad.json").write_text(text.replace('"batch_size": 2', '"batch_size": 3', 1))
    with caplog.at_level(logging.WARNING):
        table = aggregate((tmp_path / "records").glob("*.json"), tmp_path / "rejected")
    assert len(table) == 3
    (aside,) = (tmp_path / "rejected").glob("bad-*.json")
    assert "checksum" in aside.with_name(aside.name + ".reason.txt").read_text()


def test_the_table_is_read_as_it_was_written(finished, tmp_path):
    table = aggregate([finished, finished], tmp_path / "rejected")
    write_networks_table(table, tmp_path / "networks.csv")
    again = read_networks_table(tmp_path / "networks.csv")
    assert list(again.columns) == list(COLUMNS) and len(again) == 3
    assert again.dtypes.to_dict() == table.dtypes.to_dict()
    assert again.median_s.notna().tolist() == (again.status == "ok").tolist()
    assert set(again.transformers) != {""} and set(again.dtype) == {"float32"}
    write_networks_table(frame_of([], NETWORKS), tmp_path / "empty.csv")
    assert read_networks_table(tmp_path / "empty.csv").empty


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("accuracy_class,", "class,", "has no column accuracy_class"),
        (",eager,", ",fast,", "line 2: column mode is 'fast'"),
        (",ok,", ",failed,", "line 2: column median_s is"),
        (",17,", ",many,", "column tokens is 'many', which is no integer"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_column(old, new, message, finished, tmp_path):
    path = tmp_path / "networks.csv"
    write_networks_table(aggregate([finished], tmp_path), path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(TableError, match=message):
        read_networks_table(path)
