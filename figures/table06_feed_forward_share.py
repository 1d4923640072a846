"""Table 6: the share of the feed-forward networks' linear layers in the forward pass of dense vision transformers.

By hand: python figures/table06_feed_forward_share.py --table results/<device>/networks.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import sheets
from networks import measured_on, milliseconds
from script import main, sentences

from ksmm.networks.accuracy import CLASSES
from ksmm.networks.entry import FULLY_CONNECTED
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

_PARTS = ("whole", "feed_forward_linears")


def caption(table: pd.DataFrame) -> str:
    """What is listed, and under what conditions."""
    return sentences(
        "Milliseconds of the forward pass of a dense vision transformer, and of the linear layers of its feed-forward "
        "networks alone, one after the other and without biases (appendix B.6): a lower bound on what linear layers "
        "take. Attention is torch.nn.functional.scaled_dot_product_attention, fused, in every accuracy class; in the "
        "paper in half precision alone. The paper's milliseconds are of an A100, with strict float32.",
        measured_on(_rows(table)),
    )


def missing(table: pd.DataFrame) -> str | None:
    """Why the table cannot give a single share, or None."""
    return "networks.csv has no network with a time of the whole and of these layers" if frame(table).empty else None


def draw(table: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.csv and .md."""
    sheets.save(frame(table), NAME, output, caption(table))


def frame(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each network, batch size and accuracy class that has both times."""
    times = 1e3 * _rows(table).pivot_table(
        index=["network", "batch_size", "accuracy_class"], columns="part", values="median_s", observed=True
    )
    rows = []
    for (network, batch_size, accuracy_class), row in times.reindex(columns=list(_PARTS)).dropna().iterrows():
        paper = PAPER.get(network, {}).get(accuracy_class, (None,) * 3)
        rows.append(
            {
                "network": network,
                "batch_size": batch_size,
                "accuracy_class": accuracy_class,
                "whole_ms": milliseconds(row.whole),
                "feed_forward_linears_ms": milliseconds(row.feed_forward_linears),
                "share_percent": round(100 * row.feed_forward_linears / row.whole, 1),
                **dict(zip(("whole_in_paper_ms", "linears_in_paper_ms", "share_in_paper_percent"), paper, strict=True)),
            }
        )
    rows.sort(key=lambda row: (list(VITS).index(row["network"]), list(CLASSES).index(row["accuracy_class"])))
    return pd.DataFrame(rows).dropna(axis=1, how="all")


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    dense = (table.status == "ok") & (table.implementation == FULLY_CONNECTED) & (table["mode"] == "eager")
    return table[dense & table.network.isin(VITS) & table.part.isin(_PARTS)]


if __name__ == "__main__":
    main(__name__)
