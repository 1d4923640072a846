"""What the notebook vit_submodules shows: the parts of one vision transformer, from networks.csv or measured here."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import studies
from networks import Ratios, in_order, measured_on
from table04_vit_submodules import TABLE as TABLE_04
from table07_vit_linear import TABLE as TABLE_07

from ksmm.measure.lock import cuda_present
from ksmm.measure.protocol import Protocol
from ksmm.networks.by_hand import Chains, measure_vit
from ksmm.networks.entry import CLASSES, FULLY_CONNECTED
from ksmm.networks.sizes import VITS

MODULES, LAYERS = TABLE_04, TABLE_07


def measured(architecture: str, chains: Chains, batch: int, dtype: str, implementations: Sequence[str]) -> pd.DataFrame:
    """Measures what the notebook asks for, on the GPU if there is one."""
    device_type = "cuda" if cuda_present() else "cpu"
    classes = [name for name, its in CLASSES.items() if its == dtype]
    classes = [name for name in classes if name != "tf32" or device_type == "cuda"]
    protocol = Protocol(max_seconds=1.0, max_samples=20)
    names = list(implementations) or ["kernel", "bmm"]
    return measure_vit(architecture, chains or "paper", batch, classes, names, device_type, protocol)


def chosen(
    table: pd.DataFrame, dtype: str, architecture: str, chains: Chains, batch: int, implementations: Sequence[str]
) -> pd.DataFrame:
    """The rows of the table that the parameters stand for.

    Raises:
        ValueError: there are none; the message names what the table has.
    """
    rows = table[table.network.isin(VITS) & (table["mode"] == "eager") & (table.dtype == dtype)]
    sparse = rows[rows.implementation != FULLY_CONNECTED]
    if not isinstance(chains, str):
        raise ValueError("chains of one's own are in no table; set measure = True, architecture and batch")
    for column, wanted in (("network", architecture), ("chains", chains), ("batch_size", batch)):
        known = sorted(sparse[column].unique(), key=lambda value: value != "paper")
        wanted = wanted or next(iter(known), wanted)
        if wanted not in known:
            listed = ", ".join(map(str, known)) or "none"
            raise ValueError(f"the table has no {dtype} measurement with {column} {wanted!r}; it has {listed}")
        sparse = sparse[sparse[column] == wanted]
    if implementations:
        known = in_order(set(sparse.implementation))
        sparse = sparse[sparse.implementation.isin(implementations)]
        if sparse.empty:
            asked = ", ".join(implementations)
            raise ValueError(f"the table has no {dtype} measurement of {asked} there; it has {', '.join(known)}")
    keys = ["network", "batch_size"]
    dense = rows[(rows.implementation == FULLY_CONNECTED) & (rows[keys] == sparse[keys].iloc[0]).all(axis=1)]
    return pd.concat([dense, sparse])


def conditions(rows: pd.DataFrame) -> str:
    """On what, of what: the first line of the notebook."""
    sparse = rows[rows.implementation != FULLY_CONNECTED].iloc[0]
    size = VITS[sparse.network]
    return (
        f"{sparse.network}: N = {size.hidden}, {size.layers} blocks, batch {sparse.batch_size} of {size.image} × "
        f"{size.image}, {size.tokens} tokens each, chains: {sparse.chains}. Measured on: {measured_on(rows)}"
    )


def table(rows: pd.DataFrame, ratios: Ratios) -> pd.DataFrame | str:
    """The lines of one table, or why there are none."""
    return ratios.missing(rows) or ratios.frame(rows).drop(
        columns=["network", "batch_size", "tokens", "mode", "chains"]
    )


def show(lines: pd.DataFrame | str, what: str) -> None:
    """Displays the table, or that it is left out."""
    if isinstance(lines, str):
        studies.show(f"**Left out: {what}.** {lines}")
    else:
        studies.show_table(lines)


def findings(modules: pd.DataFrame | str) -> list[str]:
    """A sentence for each part, accuracy class and implementation."""
    if isinstance(modules, str):
        return []
    names = [name.removesuffix("_ms") for name in modules if name.endswith("_ms")]
    return [
        f"- **{row['part']}**, {row['accuracy_class']}, {name}: {row[f'{name}_ms']:g} ms, {_against_dense(row, name)}."
        for row in modules.to_dict("records")
        for name in in_order(set(names) - {FULLY_CONNECTED})
        if pd.notna(row[f"{name}_ms"])
    ]


def _against_dense(row: dict, name: str) -> str:
    dense, ratio = f"the dense {row['fully_connected_ms']:g} ms", row.get(f"{name}_over_fully_connected")
    if pd.notna(ratio):
        return f"{ratio:.2f} of {dense}"
    spreads = [row[f"{side}_iqr_percent"] for side in (name, FULLY_CONNECTED)]
    return f"not compared to {dense} (interquartile ranges {spreads[0]:g} and {spreads[1]:g} % of the median)"


def accuracy(rows: pd.DataFrame) -> str:
    """How close the errors came to their tolerances, and what was wrong."""
    sparse = rows[(rows.implementation != FULLY_CONNECTED) & rows.relative_error.notna()]
    lines = [
        f"- {accuracy_class}: {(part.relative_error / part.tolerance).max():.2f} (errors up to "
        f"{part.relative_error.max():.1e}, n = {len(part)})."
        for accuracy_class, part in sparse.groupby("accuracy_class", sort=False)
    ]
    wrong = int((rows.status == "wrong").sum())
    return "\n".join([*lines, *([f"- {wrong} were wrong, and have no time."] if wrong else [])])
