"""What the tables on whole networks share: milliseconds side by side, and their ratios, from networks.csv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import sheets
from script import sentences, shortened

from ksmm.networks.entry import CLASSES, FULLY_CONNECTED, MODES

KEYS = ["network", "part", "batch_size", "tokens", "cached_tokens", "accuracy_class", "mode"]
"""What a dense and a Kronecker-sparse network have in common where their times are compared."""

NAMES = {
    "linear_n_n": "linear N × N",
    "linear_n_n_bias": "linear N × N + bias",
    "linear_4n_n": "linear 4N × N",
    "linear_4n_n_bias": "linear 4N × N + bias",
    "linear_n_4n": "linear N × 4N",
    "linear_n_4n_bias": "linear N × 4N + bias",
    "feed_forward": "feed-forward network",
    "attention": "multi-head attention",
    "block": "block",
    "whole": "whole network",
    "prefill": "prefill",
    "decode": "one token",
}

MOST_IQR_PERCENT = 10.0
"""Two times are not compared where the interquartile range of one is a larger share of its median: what waits for the
host, as eager passes over few tokens do, says more about the host than about the layers."""

_ORDER = ("bmm", "kernel")  # as in the paper's columns; others follow


@dataclass(frozen=True)
class Ratios:
    """A table of dense against Kronecker-sparse parts of networks: milliseconds, and ratios within an accuracy class.

    Attributes:
        name: of the files.
        about: what the caption begins with.
        parts: which parts are listed, in this order.
        chosen: which rows of networks.csv take part, besides.
        paper: part -> implementation -> the ratio in the paper, in float32.
    """

    name: str
    about: str
    parts: tuple[str, ...]
    chosen: Callable[[pd.DataFrame], pd.Series] = lambda table: pd.Series(True, index=table.index)
    paper: dict[str, dict[str, str]] | None = None

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """The measurements that take part."""
        return table[table.part.isin(self.parts) & self.chosen(table)]

    def missing(self, table: pd.DataFrame) -> str | None:
        """Why the table cannot give a single line, or None."""
        rows = self.rows(table)
        if rows.empty:
            return f"networks.csv has no measurement of {', '.join(NAMES[part] for part in self.parts)}"
        if not self.frame(table).empty:
            return None
        failed = rows[rows.status != "ok"]
        why = f" ({failed.iloc[0].status}: {failed.iloc[0].reason})" if len(failed) else ""
        return f"no part has a time both dense and Kronecker-sparse{why}"

    def frame(self, table: pd.DataFrame) -> pd.DataFrame:
        """One row for each part, shape, accuracy class and mode that has a dense and another time."""
        rows = self.rows(table)
        rows = rows[rows.status == "ok"]
        times, iqr_percent = (
            _side_by_side(rows, values) for values in (1e3 * rows.median_s, relative_iqr_percent(rows))
        )
        times = times[times[FULLY_CONNECTED].notna()]
        if times.empty:
            return times.reset_index()
        iqr_percent = iqr_percent.reindex_like(times)
        frame = times.map(milliseconds).add_suffix("_ms").join(iqr_percent.round(1).add_suffix("_iqr_percent"))
        for name in times.columns[1:]:
            both = [name, FULLY_CONNECTED]
            frame[f"{name}_over_fully_connected"] = steady_ratio(times[both], iqr_percent[both]).round(3)
        frame = frame.reset_index()
        for name in _ORDER if self.paper else ():
            frame[f"{name}_in_paper"] = [self._paper(row, name) for row in frame.itertuples()]
        return self._sorted(frame)

    def _paper(self, row: tuple, implementation: str) -> str | None:
        in_paper = (row.accuracy_class, row.mode, row.network, row.chains) == ("strict", "eager", "vit_s16", "paper")
        return self.paper.get(row.part, {}).get(implementation) if in_paper else None

    def _sorted(self, frame: pd.DataFrame) -> pd.DataFrame:
        orders = {"part": self.parts, "accuracy_class": tuple(CLASSES), "mode": MODES}
        places = frame.assign(**{name: frame[name].map(order.index) for name, order in orders.items()})
        places["chains"] = frame.chains != "paper"  # the paper's first
        by = ["network", "accuracy_class", "mode", "part", "chains", "batch_size", "tokens", "cached_tokens"]
        frame = frame.loc[places.sort_values(by, kind="stable").index]
        frame = frame.assign(part=frame["part"].map(NAMES))
        unused = [name for name in ("cached_tokens",) if not frame[name].any()]
        return frame.drop(columns=unused).dropna(axis=1, how="all").reset_index(drop=True)

    def caption(self, table: pd.DataFrame) -> str:
        """What is listed, and under what conditions."""
        rows = self.rows(table)
        rows = rows[rows.status == "ok"]
        untimed = len(self.rows(table)) - len(rows)
        return sentences(
            self.about,
            "Milliseconds of one forward pass; ratios are within an accuracy class: strict (float32 without TF32), "
            "tf32 (TF32 allowed), float16. fully_connected is the dense network. mode: eager, compiled block by block "
            "with torch.compile, or replayed from a CUDA graph.",
            self._unsteady(self.frame(table)),
            "The paper's ratios are of an A100 in float32." if self.paper else "",
            shortened(rows),
            f"{untimed} measurements have no time; networks.csv says why." if untimed else "",
            measured_on(rows),
        )

    def _unsteady(self, frame: pd.DataFrame) -> str:
        pairs = int(frame.filter(regex="_ms$").notna().sum().sum()) - len(frame)  # each line has a dense time
        return unsteady(pairs - int(frame.filter(like="_over_fully_connected").notna().sum().sum()), pairs)

    def draw(self, table: pd.DataFrame, output: Path) -> None:
        """Writes <output>/<name>.csv and .md."""
        sheets.save(self.frame(table), self.name, output, self.caption(table))


def _side_by_side(rows: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    """A number of each row: a line for each sparse network, the dense one in the first column, then implementations."""
    dense, rows = rows.implementation == FULLY_CONNECTED, rows.assign(value=values)
    sparse = rows[~dense].set_index([*KEYS, "chains", "implementation"]).value.unstack()
    both = sparse.join(rows[dense].set_index(KEYS).value.rename(FULLY_CONNECTED), on=KEYS)
    return both[[FULLY_CONNECTED, *in_order(list(sparse))]]


def relative_iqr_percent(rows: pd.DataFrame) -> pd.Series:
    """The interquartile range of each time, in per cent of its median."""
    return 100 * rows.iqr_s / rows.median_s


def steady_ratio(times: pd.DataFrame, iqr_percent: pd.DataFrame) -> pd.Series:
    """The first column over the second; missing where one of the two spreads by more than MOST_IQR_PERCENT."""
    ratio = times.iloc[:, 0] / times.iloc[:, 1]
    return ratio.mask((iqr_percent > MOST_IQR_PERCENT).any(axis=1))


def unsteady(number: int, of: int, what: str = "ratios") -> str:
    """How many ratios are missing for the spread of their times; empty if none."""
    why = f"the interquartile range of one of the two times (iqr_percent) is above {MOST_IQR_PERCENT:g} % of its median"
    return f"{number} of {of} {what} are left out: {why}." if number else ""


def in_order(names: Sequence[str]) -> list[str]:
    """Implementations: those of the paper first."""
    return [name for name in _ORDER if name in names] + sorted(set(names) - set(_ORDER))


def milliseconds(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


def measured_on(rows: pd.DataFrame) -> str:
    """On what, with which versions: "NVIDIA H200, PyTorch 2.11.0, transformers 5.23.0, random weights."""
    devices = " and ".join(rows.device_name.unique())
    torch_versions = " and ".join(rows["torch"].unique())
    others = [f"transformers {version}" for version in rows.transformers.unique() if version]
    return ", ".join([devices, f"PyTorch {torch_versions}", *others, "random weights"]) + "."
