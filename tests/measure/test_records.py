import json
import math

import jsonschema
import pytest

from ksmm.measure.energy_protocol import EnergyProtocol
from ksmm.measure.protocol import Protocol
from ksmm.measure.records import SCHEMA_PATH, RecordError, checksum, dump, read_record, write_record
from tests.measure.sample_records import energy, measurement, record_content


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "1x192x48x2.json"
    write_record(path, record_content())
    return path


def rewrite(path, change):
    """Changes a record by hand, but mends its checksum."""
    content = json.loads(path.read_text())
    change(content)
    content["checksum"] = checksum(content)
    path.write_text(json.dumps(content))


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA_PATH.read_text()))


def test_what_is_written_can_be_read(path):
    content = read_record(path)
    assert content["measurements"] == record_content()["measurements"]
    assert content["schema_version"] == 1


@pytest.mark.parametrize(("key", "value"), [("configuration", "planes j2 r64 k32"), ("gpu", "58e739730cbe")])
def test_the_configuration_of_a_measurement_and_its_gpu_have_a_name_or_are_left_out(path, key, value):
    rewrite(path, lambda content: content["measurements"][0].update({key: value}))
    first, second = read_record(path)["measurements"]
    assert first[key] == value
    assert key not in second
    rewrite(path, lambda content: content["measurements"][0].update({key: ""}))
    with pytest.raises(RecordError, match=rf"key measurements\[0\].{key}"):
        read_record(path)


def test_white_space_and_order_of_keys_do_not_matter(path):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(content.items())), indent=4))
    assert read_record(path) == content


def test_thirty_two_measurements_of_fifty_samples_are_small(tmp_path):
    samples = tuple(1.234567e-4 + 1e-9 * number for number in range(50))
    entries = [
        measurement(samples_s=samples, median_s=1.2345e-4, device_state={"sm_clock_mhz": 1980, "power_w": 612.531})
        for _ in range(32)
    ]
    write_record(tmp_path / "large.json", record_content(measurements=[entry.to_dict() for entry in entries]))
    assert (tmp_path / "large.json").stat().st_size < 60_000


def test_there_is_one_line_per_measurement(path):
    lines = path.read_text().splitlines()
    assert sum(line.startswith('  {"pattern"') for line in lines) == 2


def test_truncated(path):
    path.write_text(path.read_text()[:-200])
    with pytest.raises(RecordError, match=r"1x192x48x2.json is not whole JSON .*; remove it and run its job again"):
        read_record(path)


def test_empty(path):
    path.write_text("")
    with pytest.raises(RecordError, match="is empty; remove it and run its job again"):
        read_record(path)


def test_binary(path):
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="is not whole JSON"):
        read_record(path)


def test_a_list(path):
    path.write_text("[]")
    with pytest.raises(RecordError, match="holds a list"):
        read_record(path)


def test_edited_by_hand(path):
    content = json.loads(path.read_text())
    content["measurements"][0]["samples_s"][0] *= 0.5
    path.write_text(json.dumps(content))
    with pytest.raises(RecordError, match="changed after it was written: key checksum"):
        read_record(path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_of_another_schema(path, version):
    rewrite(path, lambda content: content.update(schema_version=version))
    with pytest.raises(RecordError, match=f"has schema_version {version!r}, and this ksmm reads 1"):
        read_record(path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_time_that_is_no_number(path, value):
    text = path.read_text()
    assert '"median_s": 0.0002' in text
    path.write_text(text.replace('"median_s": 0.0002', f'"median_s": {value}'))
    with pytest.raises(RecordError, match=f"it holds {value}, which is no number"):
        read_record(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("device"), "'device' is a required property"),
        (lambda c: c.update(extra=1), "extra"),
        (lambda c: c["measurements"].clear(), r"key measurements: "),
        (lambda c: c["measurements"][0].update(dtype="float8"), r"key measurements\[0\].dtype: 'float8'"),
        (lambda c: c["measurements"][1].update(median_s=1.0), r"key measurements\[1\].median_s"),
        (lambda c: c["measurements"][0].update(median_s=None), r"key measurements\[0\].median_s"),
        (lambda c: c["measurements"][0].update(samples_s=[]), r"key measurements\[0\].samples_s"),
        (lambda c: c["measurements"][0].update(samples_s=[-1.0]), r"key measurements\[0\].samples_s\[0\]"),
        (lambda c: c["measurements"][0].update(relative_error=1.0), r"measurements\[0\]: status is ok, relative_error"),
        (lambda c: c["measurements"][0].update(median_s=1.0), r"measurements\[0\]: median_s 1.0 lies outside"),
        (lambda c: c["measurements"][1].update(reason=""), r"key measurements\[1\].reason"),
        (lambda c: c["protocol"].pop("seed"), "key protocol: 'seed' is a required"),
        (lambda c: c["provenance"].update(started_at="today"), "key provenance.started_at"),
    ],
)
def test_the_key_that_is_wrong_is_named(path, change, message):
    rewrite(path, change)
    with pytest.raises(RecordError, match=message):
        read_record(path)


def test_nan_is_never_written(tmp_path):
    broken = measurement(relative_error=math.nan).to_dict()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_record(tmp_path / "x.json", record_content(measurements=[broken]))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_record_and_no_litter(path, monkeypatch):
    before = path.read_text()
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_record(path, record_content(job="other"))
    assert path.read_text() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_protocol_in_the_schema_is_the_protocol():
    schema = json.loads(SCHEMA_PATH.read_text())
    required = set(schema["else"]["properties"]["protocol"]["required"])
    assert required == set(Protocol().to_dict()) - {"rest_seconds"}  # which earlier records do not have
    assert set(schema["properties"]["protocol"]["properties"]) == {*Protocol().to_dict(), "energy"}
    assert set(schema["$defs"]["energy_protocol"]["required"]) == set(EnergyProtocol().to_dict())
    assert set(schema["$defs"]["energy"]["required"]) == set(energy())


@pytest.mark.parametrize("change", [{"relative_error": None}, {"median_s": None}, {"samples_s": []}])
def test_what_was_measured_here_lacks_nothing_that_an_imported_record_may_lack(tmp_path, change):
    values = measurement(energy=energy()).to_dict() | change
    content = record_content(measurements=[values])
    write_record(tmp_path / "1x192x48x2.json", content)
    with pytest.raises(RecordError, match=next(iter(change))):
        read_record(tmp_path / "1x192x48x2.json")
    content["provenance"] = content["provenance"] | {"imported": {"file": "theirs.csv", "sha256": "0" * 64}}
    write_record(tmp_path / "1x192x48x2.json", content)
    assert read_record(tmp_path / "1x192x48x2.json")["measurements"] == [values]


def test_a_result_needs_a_time_or_an_energy(tmp_path):
    values = measurement(median_s=None, samples_s=(), iqr_s=None).to_dict()
    content = record_content(measurements=[values])
    content["provenance"] = content["provenance"] | {"imported": {"file": "theirs.csv", "sha256": "0" * 64}}
    write_record(tmp_path / "1x192x48x2.json", content)
    with pytest.raises(RecordError, match="neither a time nor an energy"):
        read_record(tmp_path / "1x192x48x2.json")


def test_dump_is_json():
    content = {"a": 1, "list": [{"b": "ö"}, {"b": 2}], "empty": []}
    assert json.loads(dump(content, "list")) == content
    assert json.loads(dump(content, "empty")) == content
