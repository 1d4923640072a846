"""Tuning files: what is written is read, and what is broken is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ksmm import cli
from ksmm.tuning import Entry, TuningError, bucket, read_tuning, write_tuning
from tests.tuning.conftest import ENTRY, entry, tuning_file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = tuning_file(entry(layout="batch_last", rivals_ms={}), ENTRY)
    write_tuning(tmp_path / "a.json", written)
    read = read_tuning(tmp_path / "a.json")
    assert read.entries == sorted(written.entries, key=lambda one: one.key)
    assert (read.device, read.device_name, read.measured_with) == (
        written.device,
        written.device_name,
        [{"torch": "0"}],
    )


def test_the_order_of_measuring_does_not_show(tmp_path: Path) -> None:
    entries = [ENTRY, entry(dtype="float16"), entry(first_batch=32, last_batch=63, batch_size=40)]
    write_tuning(tmp_path / "a.json", tuning_file(*entries))
    write_tuning(tmp_path / "b.json", tuning_file(*reversed(entries)))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_an_entry_replaces_the_one_before_it() -> None:
    tuning = tuning_file(ENTRY, entry(layout="batch_last"))
    tuning.add(entry(configuration="better tile", batch_size=31))
    assert [one.configuration for one in tuning.entries] == ["good tile", "better tile"]
    tuning.add(entry(first_batch=32, last_batch=63, batch_size=32))
    assert len(tuning.entries) == 3


def test_files_of_several_gpus_become_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = tuning_file(ENTRY, entry(layout="batch_last"))
    one.measured_with = [{"torch": "0"}, {"torch": "1"}]
    one.entries[1] = entry(layout="batch_last", measured_with=1)
    one.failures = [["a problem", "a tile", "a reason", "a kernel"]]
    another = tuning_file(entry(configuration="better tile", measured_with=1), entry(dtype="float16", measured_with=1))
    another.measured_with = [{"torch": "3"}, {"torch": "2"}]
    another.failures = [*one.failures, ["a problem", "another tile", "a reason", "a kernel"]]
    paths = [tmp_path / "one.json", tmp_path / "another.json"]
    for path, tuning in zip(paths, (one, another), strict=True):
        write_tuning(path, tuning)
    assert cli.main(["merge-tuned", *map(str, paths), "--output", str(paths[0])]) == 0
    assert "3 problems" in capsys.readouterr().out
    merged = read_tuning(paths[0])
    found = {(e.dtype, e.layout): (e.configuration, merged.measured_with[e.measured_with]) for e in merged.entries}
    assert found == {
        ("float32", "batch_first"): ("better tile", {"torch": "2"}),
        ("float32", "batch_last"): ("good tile", {"torch": "1"}),
        ("float16", "batch_first"): ("good tile", {"torch": "2"}),
    }
    assert merged.measured_with == [{"torch": "1"}, {"torch": "2"}]
    assert merged.failures == another.failures


def test_failures_of_before_are_of_no_known_kernel(tmp_path: Path) -> None:
    tuning = tuning_file(ENTRY)
    tuning.failures = [["a problem", "a tile", "a reason"]]
    write_tuning(tmp_path / "before.json", tuning)
    assert read_tuning(tmp_path / "before.json").failures == [["a problem", "a tile", "a reason", ""]]


def test_files_of_different_devices_stay_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "one.json", tmp_path / "another.json"]
    write_tuning(paths[0], tuning_file(ENTRY, name="one device"))
    write_tuning(paths[1], tuning_file(ENTRY, name="another device"))
    assert cli.main(["merge-tuned", *map(str, paths), "--output", str(tmp_path / "both.json")]) == 2
    assert "one tuning file is of one device and another of another device" in capsys.readouterr().err
    assert not (tmp_path / "both.json").exists()


@pytest.mark.parametrize(("batch_size", "first", "last"), [(1, 1, 1), (2, 2, 3), (3, 2, 3), (25088, 16384, 32767)])
def test_batch_sizes_share_a_measurement_up_to_the_next_power_of_two(batch_size: int, first: int, last: int) -> None:
    assert bucket(batch_size) == (first, last)
    assert bucket(first) == bucket(last) == (first, last)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pattern", [1, 2, 3]),
        ("pattern", [1, 2, 3, 0]),
        ("pattern", "1,2,3,4"),
        ("batch_size", 20.0),
        ("batch_size", True),
        ("batch_size", 32),
        ("first_batch", 0),
        ("dtype", "float8"),
        ("dtype", ["float32"]),
        ("layout", "last"),
        ("precision", "tf32"),
        ("implementation", ""),
        ("configuration", 3),
        ("configuration_ms", 0),
        ("configuration_ms", "1"),
        ("untuned_ms", float("inf")),
        ("untuned_ms", float("nan")),
        ("rivals_ms", {"bmm": -1.0}),
        ("rivals_ms", [1.0]),
        ("measured_with", -1),
        ("measured_with", 1),
        ("surprise", 1),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, field: str, value: object) -> None:
    content = json.loads(written(tmp_path))
    content["entries"][1][field] = value
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(TuningError, match=rf"a\.json, entries\[1\]: .*{field}"):
        read_tuning(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-9], "is not whole JSON"),
        (lambda text: "", "is not whole JSON"),
        (lambda text: "[]", "holds a list"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 2'), "schema_version 2, and this ksmm"),
        (lambda text: text.replace('"failures"', '"failure"'), "wrong keys: failure, failures"),
        (lambda text: text.replace('"failures": []', '"failures": 3'), "key failures that is no list"),
        (
            lambda text: text.replace('"failures": []', '"failures": [["x"]]'),
            r"failures\[0\] = \['x'\]; it must be 4 texts",
        ),
        (lambda text: text.replace('"device": "', '"device": "" , "x": "'), "wrong keys: x"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, change, message: str) -> None:
    (tmp_path / "a.json").write_text(change(written(tmp_path)))
    with pytest.raises(TuningError, match=message) as caught:
        read_tuning(tmp_path / "a.json")
    assert "a.json" in str(caught.value)


def test_an_entry_that_is_no_object_is_named() -> None:
    with pytest.raises(ValueError, match="is a list, not an object"):
        Entry.from_dict([])


def written(folder: Path) -> str:
    write_tuning(folder / "a.json", tuning_file(ENTRY, entry(layout="batch_last")))
    return (folder / "a.json").read_text()
