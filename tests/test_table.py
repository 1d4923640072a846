import dataclasses
import subprocess
import sys

import numpy
import pandas
import pytest
import torch

from ksmm.aggregate import aggregate
from ksmm.measure import ceilings
from ksmm.measure.files import write_atomically
from ksmm.measure.records import RecordError, dump
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from ksmm.table import COLUMNS, TableError, read_table, write_table
from tests.measure.sample_records import measurement, untimed, write_sample


@pytest.fixture
def ceilings_path(tmp_path):
    content = {
        "schema_version": 1,
        "device": {"slug": "cpu-x86_64"},
        "copy_bytes_per_s": 1e10,
        "operations_per_s": {"float32": 1e11},
    }
    write_atomically(tmp_path / "ceilings.json", dump(content, ""))
    return tmp_path / "ceilings.json"


@pytest.fixture
def rejected(tmp_path):
    return tmp_path / "elsewhere" / "rejected"


@pytest.fixture
def folder(tmp_path):
    """Two records of three measurements altogether."""
    graph = measurement(implementation="kernel", cuda_graph_samples_s=(1e-5, 2e-5, 4e-5))
    write_sample(tmp_path / "records" / "b.json", measurement(pattern=(2, 3, 4, 5)))
    write_sample(tmp_path / "records" / "a.json", graph, untimed("wrong", "too large", implementation="dense"))
    return tmp_path / "records"


def test_one_row_per_measurement_with_exactly_these_columns(folder, ceilings_path, rejected):
    frame = aggregate(folder.glob("*.json"), ceilings_path, rejected)
    assert " ".join(frame.columns) == (
        "device pattern a b c d batch_size dtype layout implementation part status reason median_s iqr_s samples "
        "runs_per_sample protocol_met cuda_graph_median_s relative_error tolerance bytes_moved operations roofline_s "
        "started_at device_name kernel_hash"
    )
    assert list(frame.pattern) == ["1,192,48,2", "1,192,48,2", "2,3,4,5"]
    assert list(frame.implementation) == ["dense", "kernel", "bmm"]
    assert not rejected.exists()


def test_the_values_of_a_row(folder, ceilings_path, rejected):
    row = aggregate(folder.glob("*.json"), ceilings_path, rejected).iloc[1]
    problem = Problem(Pattern(1, 192, 48, 2), 25088, torch.float32, "batch_first")
    assert (row.a, row.b, row.c, row.d, row.batch_size) == (1, 192, 48, 2, 25088)
    assert (row.status, row.reason, row.part) == ("ok", "", "whole")
    assert (row.median_s, row.iqr_s, row.samples, row.runs_per_sample) == (2e-4, 1e-4, 3, 10)
    assert row.protocol_met == "no"
    assert row.cuda_graph_median_s == 2e-5
    assert (row.bytes_moved, row.operations) == (problem.bytes_moved, problem.operations)
    assert row.roofline_s == max(problem.bytes_moved / 1e10, problem.operations / 1e11)
    assert (row.device, row.device_name, row.kernel_hash) == ("cpu-x86_64", "A processor", "")


def test_what_was_not_timed_has_no_time(folder, ceilings_path, rejected):
    row = aggregate(folder.glob("*.json"), ceilings_path, rejected).iloc[0]
    assert (row.status, row.reason, row.samples, row.protocol_met) == ("wrong", "too large", 0, "")
    assert numpy.isnan(row.median_s)
    assert numpy.isnan(row.iqr_s)


def test_the_order_of_the_records_does_not_matter(folder, ceilings_path, rejected):
    paths = sorted(folder.glob("*.json"))
    forwards, backwards = (aggregate(order, ceilings_path, rejected) for order in (paths, paths[::-1]))
    pandas.testing.assert_frame_equal(forwards, backwards)


def test_the_table_survives_a_round_trip(folder, ceilings_path, rejected, tmp_path):
    frame = aggregate(folder.glob("*.json"), ceilings_path, rejected)
    write_table(frame, tmp_path / "time.csv")
    again = read_table(tmp_path / "time.csv")
    pandas.testing.assert_frame_equal(frame, again, check_exact=False, rtol=1e-8)
    write_table(again, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "time.csv").read_bytes()


def test_no_record_at_all(tmp_path, ceilings_path, rejected):
    frame = aggregate([], ceilings_path, rejected)
    write_table(frame, tmp_path / "time.csv")
    pandas.testing.assert_frame_equal(read_table(tmp_path / "time.csv"), frame)
    assert len(frame) == 0


def test_of_two_measurements_of_the_same_the_later_one_is_kept(tmp_path, ceilings_path, rejected, caplog):
    caplog.set_level("INFO")
    late = measurement(median_s=1e-4, started_at="2026-01-03T00:00:00.000+00:00")
    write_sample(tmp_path / "a.json", late)
    write_sample(tmp_path / "b.json", measurement(), measurement(part="multiplication"))
    frame = aggregate(tmp_path.glob("?.json"), ceilings_path, rejected)
    assert list(frame.median_s) == [2e-4, 1e-4]
    assert "1 192 48 2 25088 float32 batch_first bmm whole was measured more than once" in caplog.text
    assert "the measurement of 2026-01-03T00:00" in caplog.text


def truncate(path):
    path.write_text(path.read_text()[:-50])


def empty(path):
    path.write_text("")


def edit(path):
    path.write_text(path.read_text().replace("0.0002", "0.0001"))


def of_another_schema(path):
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))


def without_a_number(path):
    path.write_text(path.read_text().replace('"median_s": 0.0002', '"median_s": NaN'))


def too_large(path):
    path.write_text(path.read_text().replace('"median_s": 0.0002', '"median_s": 1e999'))


def half_a_character(path):
    path.write_text(path.read_text().replace('"A processor"', r'"\ud800"'))


def nested(path):
    path.write_text('{"job": ' + 100_000 * "[" + 100_000 * "]" + "}")


def nested_less(path):
    path.write_text(path.read_text().replace('"A processor"', 200 * "[" + 200 * "]"))


def of_too_many_digits(path):
    path.write_text(path.read_text().replace('"batch_size": 25088', '"batch_size": ' + 400 * "9"))


def of_more_than_64_bits(path):
    path.write_text(path.read_text().replace('"batch_size": 25088', f'"batch_size": {2**63}'))


DAMAGES = {
    truncate: "is not whole JSON",
    empty: "is empty",
    edit: "changed after it was written",
    of_another_schema: "has schema_version 9",
    without_a_number: "holds NaN",
    too_large: "holds 1e999, which is larger than any number of a measurement",
    half_a_character: "surrogates not allowed",
    nested: "is nested more than 20 levels deep",
    nested_less: "is nested more than 20 levels deep",
    of_too_many_digits: "holds an integer of 400 digits",
    of_more_than_64_bits: "holds 9223372036854775808, which does not fit into 64 bits",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_bad_record_is_set_aside_with_its_reason_and_the_others_are_used(
    folder, ceilings_path, rejected, damage, caplog
):
    damage(folder / "b.json")
    before = (folder / "b.json").read_bytes()
    frame = aggregate(folder.glob("*.json"), ceilings_path, rejected)
    assert list(frame.implementation) == ["dense", "kernel"]
    (aside,) = rejected.glob("b-*.json")
    assert aside.read_bytes() == before
    assert (folder / "b.json").read_bytes() == before  # not beside rejected: copied
    reason = (rejected / f"{aside.name}.reason.txt").read_text()
    assert DAMAGES[damage] in reason
    assert "b.json" in reason
    assert reason.strip() in caplog.text


def test_a_deep_record_ends_no_process_whose_limit_of_recursion_was_raised(folder, ceilings_path, rejected):
    nested(folder / "b.json")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)  # PyTorch's compiler raises it, too
    try:
        assert list(aggregate(folder.glob("*.json"), ceilings_path, rejected).implementation) == ["dense", "kernel"]
    finally:
        sys.setrecursionlimit(limit)


def test_a_record_of_another_device_or_job_is_set_aside(folder, ceilings_path, rejected):
    (folder / "c.json").write_bytes((folder / "b.json").read_bytes())
    device = {"slug": "nvidia-h200", "name": "NVIDIA H200", "type": "cuda"}
    write_sample(folder / "d.json", measurement(pattern=(7, 7, 7, 7)), device=device)
    frame = aggregate(folder.glob("*.json"), ceilings_path, rejected, device="cpu-x86_64")
    assert list(frame.pattern) == ["1,192,48,2", "1,192,48,2", "2,3,4,5"]
    reasons = sorted(path.read_text() for path in rejected.glob("*.reason.txt"))
    assert "c.json is the record of job b, under another job's name" in reasons[0]
    assert "d.json is of device nvidia-h200, among those of cpu-x86_64; put it among its own" in reasons[1]
    assert set(aggregate(folder.glob("[abd].json"), ceilings_path, rejected).device) == {"cpu-x86_64", "nvidia-h200"}


def test_beside_the_rejected_it_is_moved_so_that_its_job_runs_again(tmp_path, ceilings_path):
    time = tmp_path / "mine" / "cpu-x86_64" / "time"
    good, bad = write_sample(time / "records" / "a.json"), write_sample(time / "records" / "b.json")
    edit(bad)
    aggregate((time / "records").glob("*.json"), ceilings_path, time / "rejected")
    assert good.exists()
    assert not bad.exists()
    assert len(list((time / "rejected").glob("b-*.json"))) == 1


def test_rejects_of_the_same_name_do_not_overwrite_each_other(folder, ceilings_path, rejected):
    edit(folder / "a.json")
    aggregate(folder.glob("*.json"), ceilings_path, rejected)
    aggregate(folder.glob("*.json"), ceilings_path, rejected)
    truncate(folder / "a.json")
    aggregate(folder.glob("*.json"), ceilings_path, rejected)
    assert len(list(rejected.glob("a-*.json"))) == 2
    assert len(list(rejected.glob("a-*.reason.txt"))) == 2


def test_without_ceilings_there_is_no_roofline(folder, rejected):
    assert aggregate(folder.glob("*.json"), None, rejected).roofline_s.isna().all()


def test_ceilings_of_another_device_or_without_the_dtype_give_no_roofline(
    folder, ceilings_path, rejected, monkeypatch, caplog
):
    other = ceilings.Ceilings("nvidia-h200", 1e12, {"float32": 1e13})
    monkeypatch.setattr("ksmm.aggregate.read_ceilings", lambda path: other)
    assert aggregate(folder.glob("*.json"), ceilings_path, rejected).roofline_s.isna().all()
    assert "no roofline for record a: the ceilings are of nvidia-h200" in caplog.text
    other = dataclasses.replace(other, device="cpu-x86_64", operations_per_s={"float16": 1e13})
    assert aggregate(folder.glob("*.json"), ceilings_path, rejected).roofline_s.isna().all()


def test_ceilings_that_cannot_be_used_are_an_error(folder, ceilings_path, rejected):
    ceilings_path.write_text("{}")
    with pytest.raises(RecordError, match=r"ceilings\.json has schema_version None"):
        aggregate(folder.glob("*.json"), ceilings_path, rejected)


@pytest.fixture
def table(folder, ceilings_path, rejected, tmp_path):
    path = tmp_path / "time.csv"
    write_table(aggregate(folder.glob("*.json"), ceilings_path, rejected), path)
    return path


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("median_s", "fast", "line 3: column median_s is 'fast', which is no number"),
        ("median_s", "", "line 3: column median_s is nan, with status ok"),
        ("median_s", "-1", "line 3: column median_s is -1, with status ok"),
        ("a", "", "line 3: column a is '', which is no integer"),
        ("a", "1.5", "line 3: column a is '1.5', which is no integer"),
        ("a", "9" * 20, f"line 3: column a is '{'9' * 20}', which does not fit into 64 bits"),
        ("layout", "last", "line 3: column layout is 'last', and not one of batch_first, batch_last"),
        ("dtype", "half", "line 3: column dtype is 'half'"),
        ("status", "fine", "line 3: column status is 'fine'"),
        ("status", "failed", "line 3: column median_s is 0.0002, though its status is not ok"),
    ],
)
def test_a_cell_that_is_wrong_is_named(table, column, value, message):
    raw = pandas.read_csv(table, dtype=str, keep_default_na=False)
    raw.loc[1, column] = value
    raw.to_csv(table, index=False)
    with pytest.raises(TableError, match=f"{message}.*; aggregate the records again"):
        read_table(table)


def test_work_that_no_table_can_hold_sets_its_record_aside(folder, ceilings_path, rejected):
    """Its numbers fit, and their product does not."""
    write_sample(folder / "b.json", measurement(pattern=(10**6, 10**6, 1, 1), batch_size=10**9))
    assert list(aggregate(folder.glob("*.json"), ceilings_path, rejected).implementation) == ["dense", "kernel"]
    (reason,) = rejected.glob("*.reason.txt")
    assert "1000000000 rows of pattern 1000000,1000000,1,1 are more operations or bytes than fit" in reason.read_text()


def test_rows_that_say_the_same_are_refused(table):
    """Two tables one below the other: shares of patterns would exceed 100 %."""
    raw = pandas.read_csv(table, dtype=str, keep_default_na=False)
    pandas.concat([raw, raw]).to_csv(table, index=False)
    with pytest.raises(TableError, match=rf"line {len(raw) + 2}: a row before has the same device, a, b, c, d, batch_"):
        read_table(table)


def test_a_column_that_is_missing_or_unknown_is_named(table):
    raw = pandas.read_csv(table, dtype=str, keep_default_na=False)
    raw.drop(columns="iqr_s").to_csv(table, index=False)
    with pytest.raises(TableError, match="has no column iqr_s"):
        read_table(table)
    raw.assign(speed=1).to_csv(table, index=False)
    with pytest.raises(TableError, match="has a column speed that is not known"):
        read_table(table)
    with pytest.raises(TableError, match="has a column speed"):
        write_table(raw.assign(speed=1), table)


@pytest.mark.parametrize("content", ["", "\n", '"a\n'])
def test_no_csv(table, content):
    table.write_text(content)
    with pytest.raises(TableError, match=r"time\.csv"):
        read_table(table)


def test_every_column_has_a_kind():
    assert set(COLUMNS.values()) == {"text", "integer", "number"}


def test_importing_ksmm_needs_nothing_of_the_workflow():
    code = "import sys, torch; before = set(sys.modules); import ksmm; print(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "ksmm" in loaded
    assert not loaded & {"pandas", "jsonschema", "pynvml", "snakemake", "matplotlib", "papermill"}
