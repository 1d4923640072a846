"""Hit rates and other counters of the kernel (not in the paper, asked for by its reviewers): a table and a figure.

By hand: python figures/counters_kernel.py --counters results/<device>/counters.csv --output FOLDER
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import sheets
import style
from matplotlib.axes import Axes
from ratios import listed
from script import Source, main, sentences

from ksmm.names import DTYPE_NAMES

NAME = Path(__file__).stem
TITLE = "Counters of the kernel (not in the paper): memory traffic, hit rates, matrix units, bank conflicts"
KEYS = ["pattern", "dtype", "layout", "implementation"]
PANELS = {
    "dram_over_minimum": "DRAM bytes\nover minimum",
    "l1_hit_percent": "L1 hits\n[%]",
    "l2_hit_percent": "L2 hits\n[%]",
    "l2_read_hit_percent": "L2 hits of\nreads [%]",
    "tensor_percent": "matrix units\nbusy [%]",
    "conflicts_percent": "bank conflicts\n[% of wavefronts]",
}


def caption(counters: pd.DataFrame) -> str:
    """What is shown, of which problems, on which device."""
    counted = counters[counters.status == "ok"]
    sizes = listed(f"{size:,}" for size in sorted(counted.batch_size.unique()))
    devices = listed(counted.device_name.unique())
    return sentences(
        "Hardware counters of one product, caches empty before each launch (Nsight Compute). "
        "DRAM over minimum: bytes read and written over those of X, the weights and Y, each moved once; below 1, part "
        "of Y is still in L2 at the end. Hits: sectors found in the cache, of those asked for; copies by the Hopper "
        "tensor memory accelerator pass by L1, and all writes to L2 hit. "
        "Where there is no dot, nothing was asked of that cache or memory. "
        "Matrix units busy: of what they can do in the cycles in which a multiprocessor works. "
        "Bank conflicts: repeated accesses to shared memory, of all its wavefronts.",
        f"{devices}, {counted.pattern.nunique()} patterns, batch {sizes}.",
    )


def missing(counters: pd.DataFrame) -> str | None:
    """Why the counters cannot be shown, or None."""
    if (counters.status == "ok").any():
        return None
    return f"nothing was counted ({counters.reason.iloc[0]})" if len(counters) else "the file has no row"


def draw(counters: pd.DataFrame, output: Path) -> None:
    """Writes <output>/<name>.pdf, .png, .csv and .md: every number in the table, ratios and rates in the figure."""
    rates = frame(counters)
    figure = style.new_figure(1.55 * style.WIDTH, 0.17 * len(rates) + 1.0)
    panels = figure.subplots(1, len(PANELS), sharey=True)
    positions = np.arange(len(rates))[::-1]
    for axes, (column, label) in zip(panels, PANELS.items(), strict=True):
        axes.scatter(
            rates[column],
            positions,
            s=16,
            c=[style.colour(name) for name in rates.implementation],
            zorder=3,
            clip_on=False,
        )
        _decorate(axes, column, label)
    panels[0].set_yticks(positions, [" ".join(map(str, row)) for row in rates[KEYS].itertuples(index=False)])
    panels[0].set_ylim(-0.7, len(rates) - 0.3)
    text = caption(counters)
    sheets.save(rates, NAME, output, text)
    style.save(figure, NAME, output, text)


def frame(counters: pd.DataFrame) -> pd.DataFrame:
    """Ratios and rates of every problem that was counted."""
    order = {dtype: place for place, dtype in enumerate(DTYPE_NAMES)}
    c = counters[counters.status == "ok"]
    c = c.sort_values(
        ["dtype", "layout"], kind="stable", key=lambda values: values.map(lambda name: order.get(name, name))
    )
    moved = c.dram_bytes_read + c.dram_bytes_written
    columns = {
        "launches": c.launches.astype(int),
        "milliseconds": 1e3 * c.seconds,
        "dram_over_minimum": moved / c.bytes_moved,
        "dram_read_megabytes": c.dram_bytes_read / 1e6,
        "dram_written_megabytes": c.dram_bytes_written / 1e6,
        "dram_terabytes_per_s": moved / c.seconds / 1e12,
        "l1_hit_percent": 100 * c.l1_sectors_hit / c.l1_sectors,
        "l2_hit_percent": 100 * c.l2_sectors_hit / c.l2_sectors,
        "l2_read_hit_percent": 100 * c.l2_sectors_read_hit / c.l2_sectors_read,
        "tensor_percent": c.tensor_percent,
        "conflicts_percent": 100 * c.shared_bank_conflicts / c.shared_wavefronts,
    }
    rates = pd.DataFrame(columns).map(lambda value: float(f"{value:.4g}")).astype({"launches": int})
    return pd.concat([c[KEYS], rates], axis=1).reset_index(drop=True)


def _decorate(axes: Axes, column: str, label: str) -> None:
    axes.set_title(label, loc="center", fontsize=7)
    axes.grid(visible=True, axis="both")
    if column.endswith("percent"):
        axes.set_xlim(-4, 104)
        axes.set_xticks([0, 50, 100])
    else:
        axes.set_xlim(0, 1.1 * max(1.0, axes.dataLim.x1))
        axes.axvline(1, color="#000000", linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.5)
    axes.tick_params(axis="y", length=0)


def read(path: Path) -> pd.DataFrame:
    """The counters as workflow/scripts/count_kernel.py wrote them.

    Raises:
        ValueError: it is no such file.
        OSError: it cannot be read.
    """
    counters = pd.read_csv(path)
    lacking = {*KEYS, "batch_size", "status", "reason", "bytes_moved", "seconds"} - set(counters)
    if lacking:
        raise ValueError(
            f"{path} has no column {', '.join(sorted(lacking))}; count again: snakemake --cores all counters"
        )
    return counters


if __name__ == "__main__":
    main(__name__, Source("--counters", "the counters, results/<device>/counters.csv", read))
