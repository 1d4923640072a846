"""What is drawn from a table of energies."""

import os
import subprocess
import sys

import pandas as pd
import pytest

from ksmm.energy_table import write_energy_table
from tests.figures.conftest import FIGURES
from tests.figures.scripts import scripts_of
from tests.figures.synthetic_energy import imported, synthetic_energy_table

import energies  # isort: skip - found through conftest

SCRIPTS = scripts_of("energy")
FIGURE_7 = SCRIPTS["fig07_energy"]


@pytest.fixture(scope="module")
def table():
    return synthetic_energy_table(20)


@pytest.fixture(scope="module")
def both(table):
    """What was measured here, and the authors' device."""
    return pd.concat([imported(table), table], ignore_index=True)


def drawn(table, output):
    """Draws all that can be drawn; returns the numbers by name, and the reasons of what cannot."""
    numbers, reasons = {}, {}
    for name, module in SCRIPTS.items():
        reason = module.missing(table)
        if reason is not None:
            reasons[name] = reason
            continue
        module.draw(table, output)
        numbers[name] = pd.read_csv(output / f"{name}.csv")
        assert len(numbers[name]) > 0
    return numbers, reasons


def test_everything_is_drawn_of_two_devices(both, tmp_path, checked):
    numbers, reasons = drawn(both, tmp_path)
    assert reasons == {}
    assert set(checked.values()) == {name for name in SCRIPTS if name.startswith("fig")}
    for name in set(numbers) - {"table_energy"}:
        assert {"n", "p5", "q1", "median", "q3", "p95"} <= set(numbers[name])
    assert list(dict.fromkeys(numbers["fig07_energy"].device)) == ["nvidia-h200", "tesla-v100"]
    assert set(numbers["table_energy"].device) == {"nvidia-h200", "tesla-v100"}
    assert set(numbers["fig23_energy_over_roofline"].layout) == {"batch_first", "batch_last"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_caption_says_under_what_conditions(name, both):
    caption = SCRIPTS[name].caption(both)
    for text in ("NVIDIA H200", " patterns", "25,088", "float32"):
        assert text in caption
    if name in ("fig07_energy", "table_energy"):
        assert "Tesla V100-PCIE-16GB: as the authors of the paper published it." in caption


def test_the_number_is_in_the_title():
    assert FIGURE_7.TITLE.startswith("Figure 7: ")
    for name, module in SCRIPTS.items():
        assert module.TITLE.startswith(f"Figure {int(name[3:5])}" if name.startswith("fig") else "Table")


def test_the_ratio_of_figure_7_is_that_of_the_better_layouts(table):
    pattern = table.pattern.iloc[0]
    rows = table[(table.pattern == pattern) & (table.dtype == "float32") & (table.status == "ok")]
    least = rows.groupby("implementation").energy_j.min()
    expected = least["kernel"] / least.reindex(["bmm", "einsum", "bsr"]).min()
    factors = energies.over_rivals(table, "float32")
    assert factors.loc[pattern].iloc[0] == pytest.approx(expected)
    assert f"Median {factors.median():.3f} times min(bmm, einsum, bsr)" in FIGURE_7.caption(table)


def test_times_and_powers_are_of_the_measurements_that_take_the_least_energy(table):
    least = pd.DataFrame(
        [
            ("kernel", "batch_first", 1.0, 6.0),
            ("kernel", "batch_last", 2.0, 5.0),
            ("bmm", "batch_first", 4.0, 1.0),
            ("bmm", "batch_last", 3.0, 2.0),
            ("einsum", "batch_last", 5.0, 0.1),
        ],
        columns=["implementation", "layout", "energy_j", "median_s"],
    )
    row = table[(table.status == "ok") & (table.dtype == "float32")].iloc[0].drop(list(least))
    rows = least.assign(**row)[list(table)]
    assert energies.over_rivals(rows, "float32", column="median_s").tolist() == [6 / 2]
    assert energies.over_rivals(rows, "float32", "batch_last", column="median_s").tolist() == [5 / 2]
    line = SCRIPTS["table_energy"].frame(rows).iloc[0]
    assert (line.layout, line.median_ratio, line.time_median_ratio) == ("better of both", 0.333, 3.0)


def test_the_table_says_the_same_in_numbers(table, tmp_path):
    lines = SCRIPTS["table_energy"].frame(table).set_index(["dtype", "layout", "rivals"])
    line = lines.loc["float16", "batch_last", "min(bmm, einsum, bsr)"]
    factors = energies.over_rivals(table, "float16", "batch_last")
    assert line.patterns == len(factors)
    assert line.median_ratio == pytest.approx(factors.median(), rel=5e-3)
    assert line.less_energy_percent == pytest.approx(100 * (factors < 1).mean(), abs=0.05)
    kernel = table[(table.implementation == "kernel") & (table.dtype == "float16") & (table.layout == "batch_last")]
    cost = 1e12 * (kernel.energy_j / kernel.operations).median()
    assert line.picojoules_per_operation == pytest.approx(cost, rel=5e-3)
    assert line.protocol_met_percent == 100
    assert lines.loc["float32", "better of both", "min(bmm, einsum, bsr)"].paper_v100 == "0.85, 72 %"


def test_the_table_says_what_means_say_beside_medians(table):
    columns = ["median_ratio_of_means", "less_mean_energy_percent"]
    raised = table.mean_energy_j.where(table.implementation != "kernel", 20 * table.energy_j)
    steady, changed = (SCRIPTS["table_energy"].frame(table.assign(mean_energy_j=e)) for e in (table.energy_j, raised))
    assert steady[columns].to_numpy().tolist() == steady[["median_ratio", "less_energy_percent"]].to_numpy().tolist()
    assert changed.median_ratio.equals(steady.median_ratio)
    assert changed.median_ratio_of_means.to_numpy() == pytest.approx(20 * steady.median_ratio.to_numpy(), rel=1e-2)
    assert (changed.less_mean_energy_percent == 0).all()
    before = SCRIPTS["table_energy"].frame(table.assign(mean_energy_j=float("nan")))
    assert list(before) == [name for name in steady if name not in columns]


def test_the_power_of_figure_22_is_that_of_all_windows(table, tmp_path, checked):
    figure_22, kernel = SCRIPTS["fig22_energy_against_time"], table.implementation == "kernel"
    assert "by up to 0.0 %: points" in figure_22.caption(table)
    unsteady = table.assign(power_w=table.power_w.where(~kernel, 1.25 * table.power_w))
    assert "by up to 20.0 %: points" in figure_22.caption(unsteady)
    figure_22.draw(unsteady, tmp_path)
    numbers = pd.read_csv(tmp_path / "fig22_energy_against_time.csv").query("kernel_over_rival == 'power'")
    points = figure_22._points(table)
    for row in numbers.itertuples():
        steady = points[row.dtype].query(f"layout == '{row.layout}'")
        assert row.median == pytest.approx(1.25 * (steady.energy / steady.time).median(), rel=1e-4)


def test_what_the_authors_published_alone(both, tmp_path, checked):
    numbers, reasons = drawn(both[both.source == "imported"], tmp_path)
    assert set(reasons) == {"fig22_energy_against_time", "fig23_energy_over_roofline"}
    assert "what is imported from the authors has none" in reasons["fig22_energy_against_time"]
    assert "the energy ceilings of the device were not measured" in reasons["fig23_energy_over_roofline"]
    assert "min(bmm, einsum)" in FIGURE_7.caption(both[both.source == "imported"])
    assert "time_median_ratio" not in numbers["table_energy"]


def test_a_device_without_a_counter_is_left_out_by_name(table):
    skipped = table.assign(status="skipped", reason="no energy counter: this system has no RAPL", energy_j=float("nan"))
    for module in SCRIPTS.values():
        assert module.missing(skipped) == "no energy was measured (skipped: no energy counter: this system has no RAPL)"


def test_a_study_that_is_off_says_so(table):
    for module in SCRIPTS.values():
        assert "energy.measure" in module.missing(table.iloc[:0])


def test_without_the_kernel(table, tmp_path, checked):
    without = table[table.implementation != "kernel"]
    _, reasons = drawn(without, tmp_path)
    assert set(reasons) == set(SCRIPTS) - {"fig23_energy_over_roofline", "fig24_joules_per_operation"}
    assert reasons["fig07_energy"] == "kernel took no measured energy (not measured)"


@pytest.mark.parametrize("number", [1, 4])
def test_draws_from_few_patterns(number, tmp_path, checked):
    _, reasons = drawn(synthetic_energy_table(number, ["float32"], failures=False), tmp_path)
    assert reasons == {}


@pytest.mark.parametrize("layout", ["batch_first", "batch_last"])
def test_with_one_layout_and_without_float32(layout, table, tmp_path, checked):
    _, reasons = drawn(table[(table.layout == layout) & (table.dtype == "float16")], tmp_path)
    assert reasons == {"fig07_energy": "no device has an energy of kernel and of a baseline in float32"}


def test_by_hand(table, tmp_path):
    write_energy_table(table, tmp_path / "energy.csv")
    command = [sys.executable, FIGURES / "fig07_energy.py", "--table", tmp_path / "energy.csv", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fig07_energy.pdf").stat().st_size > 0
