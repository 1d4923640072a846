"""A table of energies with invented numbers, as `ksmm.energy_table` would write it.

By hand: PYTHONPATH=. python tests/figures/synthetic_energy.py --patterns 40 --output energy.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ksmm.energy_table import ENERGY_COLUMNS, write_energy_table
from tests.figures.synthetic_table import synthetic_table

IDLE_W = 80.0
PICOJOULES_PER_BYTE = 100.0
PICOJOULES_PER_OPERATION = {"float32": 9.0, "float16": 0.6, "bfloat16": 0.6}


def synthetic_energy_table(
    number: int = 40,
    dtypes: Sequence[str] = ("float32", "float16"),
    batch_size: int = 25_088,
    device: str = "nvidia-h200",
    device_name: str = "NVIDIA H200",
    failures: bool = True,
    implementations: Sequence[str] = ("kernel", "bmm_strided", "bmm", "einsum", "bsr"),
) -> pd.DataFrame:
    """One row per measurement; the slower an implementation, the more bytes it is taken to move."""
    times = synthetic_table(number, dtypes, batch_size, device, device_name, failures)
    times = times[(times.part == "whole") & times.implementation.isin(implementations)].reset_index(drop=True)
    operation = times.dtype.map(PICOJOULES_PER_OPERATION)
    useful = 1e-12 * (times.operations * operation + times.bytes_moved * PICOJOULES_PER_BYTE)
    dynamic = useful * (1 + 0.4 * (times.median_s / times.roofline_s - 1))
    energy = dynamic + IDLE_W * times.median_s
    ok = times.status == "ok"
    table = times.assign(
        energy_j=energy,
        mean_energy_j=energy,
        iqr_j=0.01 * energy,
        above_idle_j=dynamic,
        power_w=energy / times.median_s,
        idle_before_w=(IDLE_W - 1) / ok,
        idle_after_w=(IDLE_W + 1) / ok,
        quantisation=0.012 / ok,
        protocol_met=["yes" if fine else "" for fine in ok],
        roofline_j=useful + IDLE_W * times.roofline_s,
        source="measured",
    )
    numbers = ["idle_before_w", "idle_after_w", "quantisation"]
    table[numbers] = table[numbers].where(ok, float("nan"))
    return table[list(ENERGY_COLUMNS)]


def imported(table: pd.DataFrame) -> pd.DataFrame:
    """The same energies, as if the authors had published them of another device."""
    kept = table[table.implementation.isin(["kernel", "bmm", "einsum"]) & (table.status == "ok")]
    numbers = ["mean_energy_j", "iqr_j", "above_idle_j", "power_w", "idle_before_w", "idle_after_w", "median_s"]
    unknown = dict.fromkeys([*numbers, "quantisation", "relative_error", "roofline_s", "roofline_j"], float("nan"))
    return kept.assign(
        device="tesla-v100",
        device_name="Tesla V100-PCIE-16GB",
        source="imported",
        energy_j=2.5 * kept.energy_j,
        samples=0,
        **unknown,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", type=int, default=40)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    table = synthetic_energy_table(arguments.patterns)
    write_energy_table(pd.concat([table, imported(table)]), arguments.output)


if __name__ == "__main__":
    main()
