"""Types of arguments for argparse: they say what is wrong with a text, where it hides the message of a ValueError.

For the command line, the scripts of the pipeline and the benchmark scripts.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import TypeVar

from ksmm.patterns import Pattern

Made = TypeVar("Made")


def parsed_pattern(text: str) -> Pattern:
    """A pattern, a,b,c,d."""
    return _made(Pattern.parse, text)


def integer_from(least: int) -> Callable[[str], int]:
    """What takes integers that are not less."""

    def integer(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return integer


positive_integer = integer_from(1)


def positive_number(text: str) -> float:
    """A number above 0, which may be infinite."""
    number = _number(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def positive_seconds(text: str) -> float:
    """A finite number above 0."""
    number = positive_number(text)
    if math.isinf(number):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of seconds")
    return number


def seconds(text: str) -> float:
    """0 or more; inf for no limit."""
    number = _number(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not 0 or more seconds")
    return number


def parameters(kind: Callable[[dict], Made]) -> Callable[[str], Made]:
    """What takes a JSON object, and makes something of its values.

    Args:
        kind: makes it, and raises ValueError or TypeError for what it does not take (Protocol.from_mapping).
    """

    def from_json(text: str) -> Made:
        values = _made(json.loads, text)
        if not isinstance(values, dict):
            raise argparse.ArgumentTypeError(f'{text!r} is not a JSON object, such as {{"seed": 1}}')
        return _made(kind, values)

    return from_json


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _made(kind: Callable[[object], Made], value: object) -> Made:
    try:
        return kind(value)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{value!r} is not JSON: {error}") from None
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
