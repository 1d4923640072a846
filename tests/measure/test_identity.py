"""What the journal knows a measurement by: it changes with what decides how it is made, and stands in the record."""

import pytest

from ksmm.measure import identity, recording
from ksmm.measure.identity import identities_in
from ksmm.measure.job import run_job
from ksmm.measure.journal import Journal
from ksmm.measure.records import read_record
from ksmm.networks.identity import identities_in as network_identities_in
from ksmm.patterns import Pattern
from tests.measure.sample_records import measurement, network_measurement, record_content


@pytest.fixture
def run(tmp_path, quick, monkeypatch, plant):
    """Runs a job on a_tuned and b_untuned, which keeps its journal, and says what it measured: run(tuning_hash)."""
    packed = []
    for name in ("a_tuned", "b_untuned"):
        planted = plant(name)
        pack = planted.pack
        planted.pack = lambda *arguments, name=name, pack=pack: packed.append(name) or pack(*arguments)
    monkeypatch.setattr(identity, "_TUNED", ("a_tuned",))

    def start(tuning_hash):
        monkeypatch.setattr(recording, "remembered_hash", lambda slug, name: tuning_hash)
        packed.clear()
        run_job(
            [Pattern(1, 4, 3, 2)],
            device_type="cpu",
            batch_size=16,
            dtypes=["float32"],
            layouts=["batch_first"],
            implementations=["a_tuned", "b_untuned"],
            protocol=quick,
            record=start.record,
            journal=start.journal,
            keep_journal=True,
        )
        return list(packed)

    start.record, start.journal = tmp_path / "records" / "some.json", tmp_path / "journal"
    return start


def test_what_was_tuned_in_between_is_measured_again_and_nothing_else(run):
    assert run("before") == ["a_tuned", "b_untuned"]
    assert run("before") == []
    assert run("after") == ["a_tuned"]
    assert run("before") == []
    assert run("") == ["a_tuned"]


@pytest.mark.parametrize("tuning_hash", ["", "0123456789abcdef"])
def test_a_record_gives_the_identities_that_the_journal_knows(run, tuning_hash):
    run(tuning_hash)
    record = read_record(run.record)
    assert record["provenance"]["tuning_hash"] == tuning_hash
    journal = Journal(run.journal)
    found = [journal.find(known) for known in identities_in(record)]
    assert [entry.implementation for entry in found] == ["a_tuned", "b_untuned"]


def test_records_of_before_have_identities_without_tuning():
    """So that what a run of an earlier version has left in a journal is found and cleared."""
    record = record_content(measurements=[measurement(implementation="kernel").to_dict()])
    assert "tuning_hash" not in record["provenance"]
    (known,) = identities_in(record)
    assert set(known) == {
        *("pattern", "batch_size", "dtype", "layout", "implementation", "part"),
        *("protocol", "kernel_hash", "torch", "device", "device_name", "threads"),
    }


def test_what_the_kernel_is_compiled_for_is_part_of_what_is_measured():
    """A build without Hopper's own code has the same sources, and times of its own."""
    content = record_content(measurements=[measurement(implementation="kernel").to_dict()])
    of_network = record_content(measurements=[network_measurement(implementation="kernel").to_dict()])
    for identities, record in ((identities_in, content), (network_identities_in, of_network)):
        known = []
        for architectures in (["90"], ["90a"]):
            software = record["provenance"]["software"] | {"kernel": {"cuda_architectures": architectures}}
            (identity,) = identities(record | {"provenance": record["provenance"] | {"software": software}})
            known.append(identity)
        assert known[0] == known[1] | {"cuda_architectures": ["90"]} != known[1]


@pytest.mark.parametrize(("name", "tuned"), [("kernel", True), ("kernel_strict", True), ("bmm", False)])
def test_tuning_is_part_of_what_the_kernels_measure(name, tuned):
    content = record_content(measurements=[measurement(implementation=name).to_dict()])
    content["provenance"] = content["provenance"] | {"tuning_hash": "0123456789abcdef"}
    (known,) = identities_in(content)
    assert known.get("tuning_hash") == ("0123456789abcdef" if tuned else None)


def test_a_repaired_implementation_is_measured_again_and_no_other(run, monkeypatch):
    hashes = {"a_tuned": "0123456789abcdef", "b_untuned": "0123456789abcdef"}
    monkeypatch.setattr(recording, "implementation_hashes", lambda: hashes)
    assert run("") == ["a_tuned", "b_untuned"]
    hashes = hashes | {"b_untuned": "fedcba9876543210"}
    assert run("") == ["b_untuned"]
    assert read_record(run.record)["provenance"]["implementation_hashes"] == hashes
