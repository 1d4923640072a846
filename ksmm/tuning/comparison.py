"""Tuned against untuned: what measuring gained over the cost model, from a tuning file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ksmm.tuning.entry import Entry
from ksmm.tuning.file import read_tuning

if TYPE_CHECKING:
    import pandas

RATIOS = ("untuned_over_tuned", "auto_over_best")


def untuned_over_tuned(file: Path) -> pandas.DataFrame:
    """A row for each problem of a tuning file.

    `untuned_over_tuned` is the time of the cost model's choice over that of the kernel's best configuration.
    `auto_over_best` is what an unseen problem pays: the time of what "auto" takes without any measurement, the cost
    model's choice included, over that of the best implementation. (With the measurement, "auto" takes the best.) It is
    NaN in strict float32, of which "auto" never asks: `kernel_strict` is taken where it is named alone.

    Raises:
        TuningError: the file cannot be used.
        OSError: it cannot be read.
    """
    import pandas

    tuning = read_tuning(file)
    rows = [{"device": tuning.device, **_row(entry)} for entry in tuning.entries]
    return pandas.DataFrame(rows, columns=["device", *_COLUMNS]).astype(dict.fromkeys(RATIOS, float))


_COLUMNS = (
    "pattern",
    "batch_size",
    "dtype",
    "layout",
    "precision",
    "best",
    "tuned_configuration",
    "untuned_configuration",
    *RATIOS,
)


def _row(entry: Entry) -> dict[str, object]:
    best = min([entry.configuration_ms, *entry.rivals_ms.values()])
    auto = entry.rivals_ms.get(entry.untuned, entry.untuned_ms)
    values = (
        ",".join(map(str, entry.pattern)),
        entry.batch_size,
        entry.dtype,
        entry.layout,
        entry.precision,
        entry.implementation,
        entry.configuration or "",
        entry.untuned_configuration or "",
        entry.untuned_ms / entry.configuration_ms,
        math.nan if entry.precision == "strict" else auto / best,
    )
    return dict(zip(_COLUMNS, values, strict=True))


def summary(ratios: pandas.DataFrame) -> pandas.DataFrame:
    """Median and 90th percentile of both ratios, by dtype, precision and layout; NaN where a ratio has no value."""
    import pandas

    groups = ratios.groupby(["dtype", "precision", "layout"], sort=True)
    columns = {"problems": groups.size()}
    for ratio in RATIOS:
        columns[f"{ratio}_median"] = groups[ratio].median()
        columns[f"{ratio}_90th_percentile"] = groups[ratio].quantile(0.9)
    return pandas.DataFrame(columns).reset_index()
