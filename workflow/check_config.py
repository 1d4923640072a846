"""Checks a config against its schema, with messages that name the key, its value, and what is allowed."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.json"


_TYPES = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
_Validator = validators.extend(Draft202012Validator, type_checker=_TYPES)
"""JSON Schema counts 2.0 as an integer; the jobs do not."""


class ConfigError(ValueError):
    """A config that cannot be run; the message names the key, its value, and what is allowed."""


def schema_validator() -> _Validator:
    """What checks a config against workflow/schemas/config.schema.json."""
    return _Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def check_config(config: dict) -> None:
    """Checks the config against workflow/schemas/config.schema.json.

    Raises:
        ConfigError: names every key that is wrong, its value, and what is allowed.
    """
    errors = sorted(schema_validator().iter_errors(config), key=lambda error: list(map(str, error.path)))
    complaints = [complaint for error in errors for complaint in _complaints(error)]
    complaints += [
        f"{key} is {text!r}; it must be one line, without control characters" for key, text in texts_of_lines(config)
    ]
    complaints += [
        f"{key} is {number}; it must be a finite number, below 2^63" for key, number in numbers_of_no_use(config)
    ]
    protocols = (
        {"protocol": config["protocol"], "networks.protocol": config["networks"]["protocol"]} if not errors else {}
    )
    complaints += [
        f"{key}.max_samples is {protocol['max_samples']}; it must be at least {key}.min_samples, "
        f"which is {protocol['min_samples']}"
        for key, protocol in protocols.items()
        if protocol["max_samples"] < protocol["min_samples"]
    ]
    if complaints:
        raise ConfigError("the config cannot be run:\n" + "\n".join(f"  config key {line}" for line in complaints))


def texts_of_lines(values: object, key: str = "") -> list[tuple[str, str]]:
    """The texts that are no single line, with their keys: `$` in a schema's pattern lets a last line break pass."""
    if isinstance(values, str):
        return [] if values.isprintable() else [(key, values)]
    names = [(key or "the config", str(name)) for name in _entries(values) if not str(name).isprintable()]
    return names + [found for name, value in _entries(values, key).items() for found in texts_of_lines(value, name)]


def numbers_of_no_use(values: object, key: str = "") -> list[tuple[str, float]]:
    """The numbers that are infinite, none (NaN), or beyond 64 bits, with their keys; limits of a schema miss them."""
    if isinstance(values, int | float):
        return [] if -(2**63) <= values < 2**63 else [(key, values)]
    return [found for name, value in _entries(values, key).items() for found in numbers_of_no_use(value, name)]


def _entries(values: object, key: str = "") -> dict:
    """What a section or list of the config holds, by dotted keys; nothing for a value."""
    if isinstance(values, list):
        values = dict(enumerate(values))
    prefix = f"{key}." if key else ""
    return {f"{prefix}{name}": value for name, value in values.items()} if isinstance(values, dict) else {}


def _complaints(error: ValidationError) -> list[str]:
    """One line for each key that a schema violation is about."""
    key = ".".join(str(part) for part in error.absolute_path)
    prefix = f"{key}." if key else ""
    if error.validator == "additionalProperties":
        allowed = sorted(error.schema["properties"])
        return [_unknown(prefix, name, allowed) for name in sorted(set(error.instance) - set(allowed))]
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        # jsonschema reports each missing key on its own, with the name only in its message
        return [f"{prefix}{name} is missing" for name in missing if repr(name) in error.message]
    return [f"{key} is {error.instance!r}; {_allowed(error)}"]


def _unknown(prefix: str, name: str, allowed: list[str]) -> str:
    close = difflib.get_close_matches(name, allowed, n=1)
    hint = f"did you mean {prefix}{close[0]}? " if close else ""
    return f"{prefix}{name} is unknown; {hint}Allowed here: {', '.join(allowed)}"


def _allowed(error: ValidationError) -> str:
    """What a value that the schema refuses should have been."""
    value = error.validator_value
    phrases = {
        "enum": lambda: f"it must be one of {', '.join(map(str, value))}",
        "type": lambda: _allowed_types([value] if isinstance(value, str) else value, error.instance),
        "minimum": lambda: f"it must be at least {value}",
        "maximum": lambda: f"it must be at most {value}",
        "exclusiveMinimum": lambda: f"it must be greater than {value}",
        "minItems": lambda: f"it must have at least {value} entry",
        "minLength": lambda: "it must not be empty",
        "uniqueItems": lambda: "its entries must differ from one another",
        "anyOf": lambda: "it must be the word all, or a list of names",
        "pattern": lambda: _PATTERN_MEANINGS.get(value, f"it must match {value}"),
    }
    return phrases.get(error.validator, lambda: error.message)()


def _allowed_types(kinds: list[str], found: object) -> str:
    """Of what type a value should have been; how to write an integer that has a point."""
    pointed = "integer" in kinds and isinstance(found, float) and found.is_integer()
    return f"it must be of type {' or '.join(kinds)}" + (f", so write {found:.0f}" if pointed else "")


_PATTERN_MEANINGS = {
    "^(cuda:)?[a-z0-9][a-z0-9_.-]*$(?!\\n)": "it must be auto, cpu, cuda, cuda: and the name of a GPU such as "
    "nvidia-h200, or the name of a folder under measurements/",
    "^[1-9][0-9]*(,[1-9][0-9]*){3}$(?!\\n)": 'it must be four positive integers without spaces, such as "1,192,48,2"',
}
