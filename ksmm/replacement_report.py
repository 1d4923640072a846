"""What `replace_linear` did."""

from __future__ import annotations

from dataclasses import dataclass

from ksmm.patterns import Chain


@dataclass(frozen=True)
class Replaced:
    """One layer that was replaced: its name in the model, its size, its chain, and whether it has a bias."""

    name: str
    in_features: int
    out_features: int
    chain: Chain
    bias: bool


@dataclass(frozen=True)
class ReplacementReport:
    """What was replaced in a model.

    Attributes:
        replaced: the layers, in the model's order.
        left: names of layers that were chosen, and for which the rule gave no chain.
        parameters_before, parameters_after: of the whole model; shared ones count once.
        operations_before, operations_after: floating-point operations of all linear layers, replaced or not, on one row
            of input each: 2·in_features·out_features, or 2 for each weight of a chain.
    """

    replaced: tuple[Replaced, ...]
    left: tuple[str, ...]
    parameters_before: int
    operations_before: int
    parameters_after: int
    operations_after: int

    def __str__(self) -> str:
        number = len(self.replaced)
        parameters = self.parameters_after / max(self.parameters_before, 1)
        operations = self.operations_after / max(self.operations_before, 1)
        lines = [
            f"{number} layer{'' if number == 1 else 's'} replaced: {self.parameters_before:,} parameters became "
            f"{self.parameters_after:,} ({parameters:.1%}), {self.operations_before:,} operations a row "
            f"{self.operations_after:,} ({operations:.1%})".replace("%", " %")
        ]
        lines += [
            f"  {entry.name}: {entry.in_features} -> {entry.out_features}, {entry.chain}" for entry in self.replaced
        ]
        lines += [f"  {name}: left dense, as the rule has no chain for it" for name in self.left]
        return "\n".join(lines)
