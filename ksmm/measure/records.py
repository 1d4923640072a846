"""Records: what one job writes. One JSON file, written whole, with a checksum, and validated whenever it is read."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ksmm.measure.files import write_atomically
from ksmm.measure.measurement import Measurement
from ksmm.patterns import Pattern
from ksmm.work import bytes_moved, operations

SCHEMA_VERSION = 1
SCHEMA_PATH = Path(__file__).with_name("record.schema.json")
_MOST_LEVELS = 20
_STRINGS_AND_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]')
_MOST_DIGITS = 20


class RecordError(ValueError):
    """A record that cannot be used; the message names the file, the key and the way out."""


def write_record(path: Path, content: dict[str, Any]) -> None:
    """Adds schema version and checksum to a record's content and writes it, one measurement a line.

    Args:
        path: of the record.
        content: the keys job, device, protocol, provenance and measurements (a list of dictionaries).

    Raises:
        ValueError: a number is NaN or infinite.
        OSError: the file cannot be written.
    """
    content = {"schema_version": SCHEMA_VERSION, **content}
    content = {**content, "checksum": checksum(content)}
    write_atomically(path, dump(content, "measurements"))


def dump(content: dict[str, Any], listed: str) -> str:
    """JSON with one line per key, and one per entry of the list under the key `listed`: short, with readable diffs."""
    lines = []
    for key, value in content.items():
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if key == listed and value:
            entries = [json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in value]
            text = "[\n  " + ",\n  ".join(entries) + "\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def checksum(content: dict[str, Any]) -> str:
    """SHA-256 over the content without its checksum, in a form that does not depend on white space or order of keys."""
    kept = {key: value for key, value in content.items() if key != "checksum"}
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def read_record(path: Path, device: str | None = None) -> dict[str, Any]:
    """Reads and validates a record of products, as validated() does.

    Args:
        path: of the record.
        device: the slug of the device that it must be of; None allows any.

    Raises:
        RecordError: it cannot be used.
        OSError: it cannot be read.
    """
    return validated(path, SCHEMA_PATH, lambda values: _disagreement(Measurement.from_dict(values)), device)


def validated(
    path: Path, schema: Path, disagreement: Callable[[dict[str, Any]], str | None], device: str | None = None
) -> dict[str, Any]:
    """Reads and validates a record: JSON, schema (draft 2020-12), checksum, name, and that its numbers agree.

    Args:
        path: of the record.
        schema: of the study's records.
        disagreement: of a measurement that fits the schema: what the schema cannot say of it, or None.
        device: the slug of the device that it must be of; None allows any.

    Raises:
        RecordError: it cannot be used.
        OSError: it cannot be read.
    """
    content = load_json(path)
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        raise _error(path, f"has schema_version {version!r}, and this ksmm reads {SCHEMA_VERSION}")
    fault = schema_fault(content, schema)
    if fault:
        raise _error(path, fault)
    if checksum(content) != content["checksum"]:
        raise _error(path, "was changed after it was written: key checksum does not fit the content")
    if content["job"] != path.stem:
        raise _error(path, f"is the record of job {content['job']}, under another job's name")
    for number, values in enumerate(content["measurements"]):
        fault = disagreement(values)
        if fault:
            raise _error(path, f"key measurements[{number}]: {fault}")
    slug = content["device"]["slug"]
    if device is not None and slug != device:
        raise RecordError(f"record {path} is of device {slug}, among those of {device}; put it among its own")
    return content


def load_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object whose numbers are finite and fit a table, whose texts are Unicode, and that is not deep.

    Raises:
        RecordError: the file holds something else.
        OSError: it cannot be read.
    """
    hooks = {"parse_constant": _refuse_constant, "parse_float": _finite, "parse_int": _of_64_bits}
    try:
        text = path.read_text(encoding="utf-8")
        if _is_deeper(text, _MOST_LEVELS):
            raise _error(path, f"is nested more than {_MOST_LEVELS} levels deep")
        content = json.loads(text, **hooks)
        json.dumps(content, ensure_ascii=False).encode()  # half of a surrogate pair is JSON, and no text
    except RecordError:
        raise
    except ValueError as error:  # JSON, UTF-8
        what = "is empty" if path.stat().st_size == 0 else f"is not whole JSON ({error})"
        raise _error(path, what) from None
    if not isinstance(content, dict):
        raise _error(path, f"holds a {type(content).__name__}, not an object with keys")
    return content


def _is_deeper(text: str, levels: int) -> bool:
    """Whether lists and objects of a JSON text are nested more than so many levels deep.

    Asked before it is decoded: json relies on Python's limit of recursion, which PyTorch's compiler raises beyond what
    the stack holds, and then ends the process.
    """
    depth = 0
    for token in _STRINGS_AND_BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > levels:
            return True
    return False


def schema_fault(content: dict[str, Any], schema: Path) -> str | None:
    """None if the content fits a JSON schema, else the key and what is wrong with it."""
    errors = sorted(_validator(schema).iter_errors(content), key=lambda error: (len(error.path), error.json_path))
    if not errors:
        return None
    key = errors[0].json_path.removeprefix("$").removeprefix(".") or "(the whole)"
    key = "".join(character if character.isprintable() else "?" for character in key)
    return f"key {key}: {errors[0].message[:300]}"


@functools.cache
def _validator(schema: Path) -> Any:
    import jsonschema  # needed to read records, not to import ksmm

    return jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def fits_a_table(number: int) -> bool:
    """Whether a table's column of integers can hold it."""
    return -(2**63) <= number < 2**63


def _disagreement(measurement: Measurement) -> str | None:
    """What a schema cannot say: the work of a product fits a table, and one that passed has a sane error and median."""
    pattern, batch_size = Pattern(*measurement.pattern), measurement.batch_size
    if not fits_a_table(max(operations(pattern, batch_size), bytes_moved(pattern, batch_size, 8))):
        return f"{batch_size} rows of pattern {pattern} are more operations or bytes than fit into 64 bits"
    if measurement.status != "ok":
        return None
    energy = measurement.energy
    if measurement.median_s is None and energy is None:
        return "status is ok, but there is neither a time nor an energy"
    return disagreement_of(
        measurement.relative_error, measurement.tolerance, measurement.median_s, measurement.samples_s
    ) or (None if energy is None else _energy_disagreement(measurement, energy))


def disagreement_of(
    error: float | None, tolerance: float, median_s: float | None, samples_s: Sequence[float]
) -> str | None:
    """What is wrong with the error and the time of a measurement that is said to be ok."""
    if error is not None and error > tolerance:
        return f"status is ok, relative_error {error} exceeds tolerance {tolerance}"
    return _outside("median_s", median_s, "samples_s", samples_s)


def _energy_disagreement(measurement: Measurement, energy: dict[str, Any]) -> str | None:
    """Energy and time are of the same windows, so there are as many of both, and energy = mean power × time.

    In our own records power_w was computed from these samples, so what this finds is a record that was changed
    afterwards, or made by something else. That the measured power is right is for tests on a known power trace to show.
    """
    samples_j, samples_s, runs = energy["samples_j"], measurement.samples_s, energy["runs"]
    if samples_s and not len(samples_j) == len(samples_s) == len(runs):
        return f"energy has {len(samples_j)} samples_j and {len(runs)} runs for {len(samples_s)} samples_s"
    if samples_s and energy["power_w"] is not None:
        joules = sum(sample * number for sample, number in zip(samples_j, runs, strict=True))
        expected = energy["power_w"] * sum(sample * number for sample, number in zip(samples_s, runs, strict=True))
        if abs(joules - expected) > 1e-4 * joules:
            return f"energy is {joules:.6g} J in all, but power_w × time is {expected:.6g} J"
    return _outside("energy_j", energy["energy_j"], "its samples", samples_j)


def _outside(name: str, median: float | None, among: str, samples: Sequence[float]) -> str | None:
    """What is wrong with a median that none of its samples can give; nothing where there are no samples."""
    if median is None or not samples or min(samples) * (1 - 1e-5) <= median <= max(samples) * (1 + 1e-5):
        return None
    return f"{name} {median} lies outside of {among}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is no number")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"it holds {number[:20]}, which is larger than any number of a measurement")
    return value


def _of_64_bits(number: str) -> int:
    if len(number) > _MOST_DIGITS:
        raise ValueError(f"it holds an integer of {len(number)} digits")
    value = int(number)
    if not fits_a_table(value):
        raise ValueError(f"it holds {number}, which does not fit into 64 bits")
    return value


def _error(path: Path, what: str) -> RecordError:
    return RecordError(f"record {path} {what}; remove it and run its job again")
