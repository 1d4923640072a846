"""What the protocols have in common: numbers with names, of known types and within ranges, as a config has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True)
class Parameters:
    """The parameters of a measurement, each an int or a float with a default.

    Attributes:
        said: what messages call them, such as "protocol".

    Raises:
        TypeError: a value is not a number, or not an integer where one is needed.
    """

    said: ClassVar[str]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            wanted, kind = (int, "an integer") if field.type == "int" else ((int, float), "a number")
            if isinstance(value, bool) or not isinstance(value, wanted):
                found = f"{value!r} ({type(value).__name__})"
                raise TypeError(f"{self.said} key {field.name} is {found}; it must be {kind}")

    def check(self, fine: bool, name: str, wanted: str) -> None:
        """Raises ValueError where a value is not fine: with its name, and what is wanted of it."""
        if not fine:
            raise ValueError(f"{self.said} key {name} is {getattr(self, name)!r}; it must be {wanted}")

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """The parameters from a section of a config; keys left out have their defaults.

        Raises:
            ValueError: a key is unknown, or a value is out of its range.
            TypeError: a value has the wrong type.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(f"unknown {cls.said} key {unknown[0]!r}; choose among {', '.join(known)}")
        return cls(**values)

    def to_dict(self) -> dict[str, int | float]:
        """The parameters by name, as they are kept in a record."""
        return dataclasses.asdict(self)
