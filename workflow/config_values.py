"""A config as its author meant it: what arrives as text, and folders of a home; then checked.

Of `--config 'energy={measure: false}'` Snakemake converts nothing, of `--config patterns_per_job=2` it does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from check_config import ConfigError, check_config, schema_validator

FOLDERS = (("results",), ("measurements",), ("energy", "imported"))
_LONGEST = 400
_HEAD = 120


def understand(config: dict[str, Any]) -> None:
    """Converts text to what the schema asks for, checks the config, and finds its folders; changes it in place.

    Raises:
        ConfigError: names every key that is wrong, its value, and what is allowed.
    """
    convert_text(config)
    try:
        check_config(config)
    except ConfigError as error:
        raise ConfigError("\n".join(map(shortened, str(error).splitlines()))) from None
    for *path, last in FOLDERS:
        section = _section(config, path)
        section[last] = folder(".".join([*path, last]), section[last])


def convert_text(config: dict[str, Any]) -> None:
    """Turns text into the number, truth value or null that the schema asks for, if YAML reads it as one; in place."""
    validator = schema_validator()
    for error in list(validator.iter_errors(config)):
        if error.validator == "type" and isinstance(error.instance, str):
            value = _as_yaml(error.instance)
            kinds = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
            *path, last = error.absolute_path
            if not isinstance(value, dict | list) and any(validator.is_type(value, kind) for kind in kinds):
                _section(config, path)[last] = value


def _as_yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # a date that there is not
        return text


def _section(config: Any, path: list[str | int]) -> Any:
    for part in path:
        config = config[part]
    return config


def folder(key: str, name: str) -> str:
    """The name of a folder, its home in place of ~.

    Raises:
        ConfigError: Snakemake would take a part of it for a wildcard, or there is no such home.
    """
    if "{" in name or "}" in name:
        raise ConfigError(
            f"config key {key} is {name!r}; it must have no {{ and no }}, between which Snakemake "
            "looks for wildcards; choose another folder"
        )
    try:
        return str(Path(name).expanduser())
    except RuntimeError:
        raise ConfigError(f"config key {key} is {name!r}, and nobody here is called so; name a folder") from None


def shortened(line: str) -> str:
    """A line with its middle left out where it is long: a wrong value may be a whole file."""
    return line if len(line) <= _LONGEST else f"{line[:_HEAD]} ... {line[_HEAD - _LONGEST :]}"
