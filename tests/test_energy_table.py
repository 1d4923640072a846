"""Records of energies in, one row per measurement out."""

import json
import math

import pandas
import pytest

from ksmm.energy_aggregate import aggregate_energy
from ksmm.energy_table import ENERGY_COLUMNS, read_energy_table, write_energy_table
from ksmm.measure.files import write_atomically
from ksmm.measure.records import dump
from ksmm.patterns import Pattern
from ksmm.problem import Problem, parse_dtype
from ksmm.roofline import attainable_joules
from ksmm.table import TableError
from tests.measure.sample_records import energy, measurement, record_content, untimed, write_sample


@pytest.fixture
def ceilings(tmp_path):
    """Both kinds of ceilings, of the device of the sample records."""
    device = {"schema_version": 1, "device": {"slug": "cpu-x86_64"}}
    time = device | {"copy_bytes_per_s": 1e10, "operations_per_s": {"float32": 1e11}}
    joules = device | {"idle_w": 10.0, "joules_per_byte": 1e-9, "joules_per_operation": {"float32": 2e-11}}
    for name, content in (("time", time), ("energy", joules)):
        write_atomically(tmp_path / f"{name}.json", dump(content, ""))
    return tmp_path / "time.json", tmp_path / "energy.json"


@pytest.fixture
def records(tmp_path):
    write_sample(
        tmp_path / "records" / "a.json",
        measurement(energy=energy(), implementation="kernel", protocol_met=True),
        measurement(energy=energy()),
        untimed("skipped", "no energy counter", implementation="bsr"),
    )
    return sorted((tmp_path / "records").glob("*.json"))


def test_one_row_per_measurement(records, ceilings, tmp_path):
    frame = aggregate_energy(records, *ceilings, tmp_path / "rejected")
    assert list(frame.columns) == list(ENERGY_COLUMNS)
    assert list(frame.implementation) == ["bmm", "bsr", "kernel"]
    assert list(frame.status) == ["ok", "skipped", "ok"]
    assert list(frame.protocol_met) == ["no", "", "yes"]
    assert set(frame.source) == {"measured"}
    row = frame.iloc[0]
    values = energy()
    for name in ("energy_j", "iqr_j", "above_idle_j", "power_w", "idle_before_w", "idle_after_w", "quantisation"):
        assert row[name] == values[name]
    assert row.energy_j == pytest.approx(row.power_w * row.median_s)
    assert row.mean_energy_j == pytest.approx((4000.5 * 3e-2 + 3000 * 6e-2 + 2000 * 9e-2) / 9000.5)
    problem = Problem(Pattern(1, 192, 48, 2), 25088, parse_dtype("float32"), "batch_first")
    assert row.roofline_s == max(problem.bytes_moved / 1e10, problem.operations / 1e11)
    assert row.roofline_j == attainable_joules(problem, row.roofline_s, 10.0, 1e-9, 2e-11)
    assert math.isnan(frame.iloc[1].energy_j)


@pytest.mark.parametrize("samples_j", [[], [6e-2], [3e-2, 6e-2, 9e-2]])
def test_an_energy_of_others_has_no_mean(samples_j, tmp_path):
    theirs = energy(samples_j=samples_j, runs=[512.0] * max(1, len(samples_j)), power_w=None)
    path = tmp_path / "records" / "a.json"
    others = {"imported": {"file": "1_ksmm_energy.csv", "sha256": "0" * 64}}
    provenance = record_content()["provenance"] | others
    write_sample(path, measurement(energy=theirs, samples_s=()), provenance=provenance)
    frame = aggregate_energy([path], None, None, tmp_path / "rejected")
    assert frame.energy_j.tolist() == [6e-2] and frame.mean_energy_j.isna().all()


def test_a_table_from_before_there_was_a_mean_is_read_without_one(records, tmp_path):
    frame = aggregate_energy(records, None, None, tmp_path / "rejected")
    frame.drop(columns="mean_energy_j").to_csv(tmp_path / "energy.csv", index=False)
    again = read_energy_table(tmp_path / "energy.csv")
    assert list(again.columns) == list(ENERGY_COLUMNS)
    assert again.mean_energy_j.isna().all() and again.energy_j.equals(frame.energy_j)


def test_the_energy_roofline_is_rest_bytes_and_operations():
    problem = Problem(Pattern(1, 2, 3, 4), 5, parse_dtype("float16"), "batch_first")
    joules = attainable_joules(problem, 2.0, 10.0, 0.5, 0.25)
    assert joules == 20.0 + 0.5 * (2 * (5 * 8 + 5 * 12 + 24)) + 0.25 * (2 * 5 * 24)
    with pytest.raises(ValueError, match=r"idle_w is 0.0; a measured ceiling is positive"):
        attainable_joules(problem, 2.0, 0.0, 0.5, 0.25)


def test_without_ceilings_there_is_no_roofline(records, tmp_path):
    frame = aggregate_energy(records, None, None, tmp_path / "rejected")
    assert frame.roofline_s.isna().all() and frame.roofline_j.isna().all()


def test_a_device_without_a_counter_has_no_energy_roofline(records, ceilings, tmp_path):
    ceilings[1].write_text(
        json.dumps({"schema_version": 1, "device": {"slug": "cpu-x86_64"}, "status": "skipped", "reason": "no counter"})
    )
    frame = aggregate_energy(records, *ceilings, tmp_path / "rejected")
    assert frame.roofline_s.notna().all() and frame.roofline_j.isna().all()


def test_timings_are_left_out_with_a_warning(tmp_path, caplog):
    path = write_sample(
        tmp_path / "records" / "t.json", measurement(), measurement(implementation="a", energy=energy())
    )
    frame = aggregate_energy([path], None, None, tmp_path / "rejected")
    assert list(frame.implementation) == ["a"]
    assert "1 measurements have no energy" in caplog.text


def test_a_broken_record_is_set_aside(records, tmp_path):
    records[0].write_text(records[0].read_text()[:100])
    assert aggregate_energy(records, None, None, tmp_path / "rejected").empty
    assert len(list((tmp_path / "rejected").glob("a-*.json"))) == 1


def test_a_table_survives_a_round_trip(records, ceilings, tmp_path):
    frame = aggregate_energy(records, *ceilings, tmp_path / "rejected")
    write_energy_table(frame, tmp_path / "energy.csv")
    again = read_energy_table(tmp_path / "energy.csv")
    assert (again.dtypes == frame.dtypes).all()
    assert again.energy_j.tolist()[0] == frame.energy_j.tolist()[0]
    write_energy_table(frame.iloc[:0], tmp_path / "none.csv")
    assert read_energy_table(tmp_path / "none.csv").empty


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ok", "oke", "column status is 'oke'"),
        ("skipped", "ok", "column energy_j is nan, with status ok"),
        ("energy_j", "joules", "has no column energy_j"),
    ],
)
def test_a_wrong_table_is_refused_by_name(old, new, message, records, tmp_path):
    write_energy_table(aggregate_energy(records, None, None, tmp_path / "rejected"), tmp_path / "energy.csv")
    text = (tmp_path / "energy.csv").read_text()
    (tmp_path / "energy.csv").write_text(text.replace(old, new, 1))
    with pytest.raises(TableError, match=message):
        read_energy_table(tmp_path / "energy.csv")


def test_imported_rows_of_a_published_table_are_drawn_again(records, ceilings, tmp_path):
    frame = aggregate_energy(records, *ceilings, tmp_path / "rejected")
    others = frame[frame.status == "ok"].assign(device="tesla-v100", source="imported")
    published = pandas.concat([frame.assign(energy_j=None, status="skipped"), others], ignore_index=True)
    write_energy_table(published, tmp_path / "energy.csv")
    both = aggregate_energy(records, *ceilings, tmp_path / "rejected", published_table=tmp_path / "energy.csv")
    assert list(both.device) == ["cpu-x86_64"] * 3 + ["tesla-v100"] * 2
    pandas.testing.assert_frame_equal(both[:3], frame, check_dtype=False)  # measured rows come from the records
    alone = aggregate_energy([], *ceilings, tmp_path / "rejected", published_table=tmp_path / "energy.csv")
    assert list(alone.source) == ["imported"] * 2
    write_energy_table(both, tmp_path / "again.csv")
    assert set(read_energy_table(tmp_path / "again.csv").source) == {"measured", "imported"}
