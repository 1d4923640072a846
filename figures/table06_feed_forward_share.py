"""Table 6: the share of the feed-forward networks' linear layers in the forward pass of dense vision transformers.

By hand: python figures/table06_feed_forward_share.py --table results/<device>/networks.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import sheets
from networks import measured_on, milliseconds, relative_iqr_percent, steady_ratio, unsteady
from script import main, sentences

from ksmm.networks.entry import CLASSES, FULLY_CONNECTED
from ksmm.networks.sizes import VITS

NAME = Path(__file__).stem
TITLE = "Table 6: share of the feed-forward networks' linear layers in a vision transformer"
STUDY = "networks"
PAPER = {
    "vit_s16": {"float16": ("14", "4.6", "31"), "strict": ("90", "40", "46")},
    "vit_b16": {"float16": ("36", "15", "42"), "strict": ("300", "160", "54")},
    "vit_l16": {"float16": ("110", "50", "46"), "strict": ("1000", "580", "58")},
    "vit_h14": {"float16": ("310", "160", "53"), "strict": ("2600", "1600", "61")},
}
"""Network -> accuracy class -> milliseconds of the whole and of these layers, and the share in per cent (A100)."""

_KEYS = ["network", "batch_size", "accuracy_class"]
_PARTS = ["feed_forward_linears", "whole"]


def caption(table: pd.DataFrame) -> str:
    """What is listed, and under what conditions."""
    lines = frame(table)
    return sentences(
        "Milliseconds of the forward pass of a dense vision transformer, and of the linear layers of its feed-forward "
        "networks alone, one after the other and without biases (appendix B.6): a lower bound on what linear layers "
        "take. Attention is torch.nn.functional.scaled_dot_product_attention, fused, in every accuracy class; in the "
        "paper in half precision alone. The paper's milliseconds are of an A100, with strict float32.",
        unsteady(len(lines) - int(lines.filter(items=["share_percent"]).notna().sum().sum()), len(lines), "shares"),
        measured_on(_rows(table)),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give a single line, or None."""
    return "networks.csv has no network with a time of the whole and of these layers" if frame(table).empty else None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.csv and .md."""
    sheets.save(frame(table), NAME, output, caption(table))


def frame(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each network, batch size and accuracy class that has both times."""
    rows = _rows(table)
    times, iqr_percent = (_by_part(rows, values) for values in (1e3 * rows.median_s, relative_iqr_percent(rows)))
    times = times.dropna()
    iqr_percent = iqr_percent.reindex_like(times)
    shares = (100 * steady_ratio(times, iqr_percent)).round(1)
    lines = []
    for key, row in times.iterrows():
        network, _, accuracy_class = key
        paper = PAPER.get(network, {}).get(accuracy_class, (None,) * 3)
        lines.append(
            {
                **dict(zip(_KEYS, key, strict=True)),
                "whole_ms": milliseconds(row.whole),
                "feed_forward_linears_ms": milliseconds(row.feed_forward_linears),
                **{f"{part}_iqr_percent": iqr_percent.loc[key, part].round(1) for part in reversed(_PARTS)},
                "share_percent": shares[key],
                **dict(zip(("whole_in_paper_ms", "linears_in_paper_ms", "share_in_paper_percent"), paper, strict=True)),
            }
        )
    lines.sort(key=lambda line: (list(VITS).index(line["network"]), list(CLASSES).index(line["accuracy_class"])))
    return pd.DataFrame(lines).dropna(axis=1, how="all")


def _by_part(rows: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    by_part = rows.assign(value=values).pivot_table(index=_KEYS, columns="part", values="value", observed=True)
    return by_part.reindex(columns=_PARTS)


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    dense = (table.status == "ok") & (table.implementation == FULLY_CONNECTED) & (table["mode"] == "eager")
    return table[dense & table.network.isin(VITS) & table.part.isin(_PARTS)]


if __name__ == "__main__":
    main(__name__)
