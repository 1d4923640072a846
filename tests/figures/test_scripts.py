import os
import subprocess
import sys

import pandas as pd
import pytest
from matplotlib.figure import Figure

from ksmm.table import write_table
from tests.figures.conftest import FIGURES, failing
from tests.figures.drawn import empty_panels, overlapping_texts
from tests.figures.scripts import scripts_of
from tests.figures.synthetic_table import synthetic_table, with_later

SCRIPTS = scripts_of("time")
ILLUSTRATIONS = {name for name in SCRIPTS if name[:5] in ("fig01", "fig02", "fig03", "fig05")}
COMPUTED = ILLUSTRATIONS | {"table01_catalogue", "table02_bmm_vs_bsr"}
MEASURED = sorted(set(SCRIPTS) - COMPUTED)
FLOAT16 = {name for name in SCRIPTS if name.endswith("float16")}
NEEDS_KERNEL = {
    name for name in SCRIPTS if name.startswith(("fig06", "fig13", "fig18", "fig20", "table05", "table_targets"))
}
NEEDS_BOTH_LAYOUTS = {name for name in SCRIPTS if name.startswith(("fig09", "fig12", "fig14", "fig17"))}

PAPER_FIGURES = {1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17}
PAPER_TABLES = {1, 2, 3, 5, 8}


def check_output(name, output):
    endings = ("pdf", "png", "csv") if name.startswith("fig") else ("csv", "md")
    for ending in endings:
        assert (output / f"{name}.{ending}").stat().st_size > 0
    numbers = pd.read_csv(output / f"{name}.csv")
    assert len(numbers) > 0
    return numbers


def draw_all_that_can_be(table, output, names=MEASURED):
    for name in names:
        module = SCRIPTS[name]
        reason = module.missing(table)
        if reason is None:
            module.draw(table, output)
            check_output(name, output)
        else:
            assert len(reason) > 10


def test_the_check_of_drawn_figures_finds_faults():
    figure = Figure()
    full, empty = figure.subplots(1, 2)
    full.text(0.5, 0.5, "one")
    full.text(0.51, 0.5, "two")
    assert empty_panels(figure) == [empty]
    assert overlapping_texts(figure) == [("one", "two")]


def test_every_figure_and_table_of_the_paper_is_there():
    numbers = {
        kind: {int(name[len(kind) :][:2]) for name in SCRIPTS if name[len(kind) :][:2].isdigit()}
        for kind in ("fig", "table")
    }
    assert numbers["fig"] >= PAPER_FIGURES
    assert numbers["table"] >= PAPER_TABLES


@pytest.mark.parametrize("name", SCRIPTS)
def test_writes_its_files(name, table, tmp_path):
    module = SCRIPTS[name]
    assert module.missing(table) is None
    module.draw(table, tmp_path)
    numbers = check_output(name, tmp_path)
    if name in MEASURED and name.startswith("fig"):
        assert {"n", "p5", "q1", "median", "q3", "p95"} <= set(numbers)
        assert (numbers.n > 0).all()
        assert (numbers.p5 <= numbers["median"]).all() and (numbers["median"] <= numbers.p95).all()


@pytest.mark.parametrize("name", MEASURED)
def test_caption_says_under_what_conditions(name, table):
    caption = SCRIPTS[name].caption(table)
    assert "NVIDIA H200" in caption
    assert " patterns" in caption
    assert "25,088" in caption
    if name != "table_status":
        assert ("float16" if name in FLOAT16 else "float32") in caption


@pytest.mark.parametrize("name", SCRIPTS)
def test_title_names_its_number(name):
    title = SCRIPTS[name].TITLE
    digits = "".join(filter(str.isdigit, name[:7]))
    assert title.startswith(
        f"Figure {int(digits)}" if name.startswith("fig") else f"Table {int(digits)}" if digits else "Table"
    )


def test_nothing_overlaps_in_a_full_table(table, tmp_path, checked):
    draw_all_that_can_be(table, tmp_path, list(SCRIPTS))
    assert len(checked) == sum(name.startswith("fig") for name in SCRIPTS)


def test_draws_from_a_laptops_table(small_table, tmp_path, checked):
    draw_all_that_can_be(small_table, tmp_path)
    assert {name for name, module in SCRIPTS.items() if module.missing(small_table)} == FLOAT16


def test_draws_from_the_whole_benchmark(tmp_path, checked):
    draw_all_that_can_be(synthetic_table(627, ["float32"]), tmp_path)


@pytest.mark.parametrize("number", [1, 4])
def test_draws_from_few_patterns(number, tmp_path, checked):
    draw_all_that_can_be(synthetic_table(number, ["float32"], failures=False), tmp_path)


def test_without_float16(table, tmp_path):
    without = table[table.dtype == "float32"]
    for name in FLOAT16:
        assert SCRIPTS[name].missing(without) == "the table has no float16 measurements"


def test_without_float32(table, tmp_path, checked):
    without = table[table.dtype == "bfloat16"]
    assert SCRIPTS["fig06_speedup_vs_ratio"].missing(without) == "the table has no float32 measurements"
    draw_all_that_can_be(without, tmp_path)


def test_without_the_kernel(small_table, tmp_path, checked):
    without = small_table[small_table.implementation != "kernel"]
    draw_all_that_can_be(without, tmp_path)
    assert {name for name, module in SCRIPTS.items() if module.missing(without)} == NEEDS_KERNEL | FLOAT16
    assert "kernel has no time in float32 here" in SCRIPTS["fig10_specialised_vs_generic"].caption(without)


def test_a_kernel_that_was_skipped_gives_its_reason(table):
    skipped = failing(table[table.implementation == "kernel"]).assign(
        status="skipped", reason="the library is not built"
    )
    both = pd.concat([table[table.implementation != "kernel"], skipped])
    reason = SCRIPTS["fig06_speedup_vs_ratio"].missing(both)
    assert reason == "kernel has no time in float32 (skipped: the library is not built)"


@pytest.mark.parametrize("layout", ["batch_first", "batch_last"])
def test_with_one_layout(layout, small_table, tmp_path, checked):
    one = small_table[small_table.layout == layout]
    draw_all_that_can_be(one, tmp_path)
    absent = {name for name, module in SCRIPTS.items() if module.missing(one)}
    assert absent == NEEDS_BOTH_LAYOUTS | FLOAT16 | ({"fig04_memory_rewritings"} if layout == "batch_last" else set())


def test_without_generic_implementations(small_table, tmp_path, checked):
    without = small_table[~small_table.implementation.isin(["dense", "sparse"])]
    draw_all_that_can_be(without, tmp_path)
    assert "all patterns are shown" in SCRIPTS["fig06_speedup_vs_ratio"].caption(without)


def test_an_implementation_registered_later_is_drawn(table, tmp_path, checked):
    later = table[table.implementation == "kernel"].assign(implementation="kernel_2")
    both = pd.concat([table, later])
    for name in ("fig12_layouts", "fig19_time_over_roofline"):
        SCRIPTS[name].draw(both, tmp_path)
        assert "kernel_2" in set(pd.read_csv(tmp_path / f"{name}.csv").implementation)


def test_what_is_not_in_the_paper_is_not_in_its_figures(table, tmp_path, checked):
    draw_all_that_can_be(table, tmp_path / "before")
    draw_all_that_can_be(with_later(table), tmp_path / "after")
    for name in set(MEASURED) - {"table_status"}:
        numbers = [(tmp_path / folder / f"{name}.csv").read_text() for folder in ("before", "after")]
        with_its_own = name.startswith(("fig18", "fig19", "fig20", "table_targets"))
        assert (numbers[0] == numbers[1]) != with_its_own, name
        if not with_its_own:
            captions = [SCRIPTS[name].caption(frame) for frame in (table, with_later(table))]
            assert captions[0] == captions[1]


@pytest.mark.parametrize("name", MEASURED)
def test_nothing_but_failures_is_missing_with_a_reason(name, failed_table):
    reason = SCRIPTS[name].missing(failed_table)
    if name == "table_status":
        assert reason is None
    else:
        assert "no time" in reason or "has a time" in reason


@pytest.mark.parametrize("name", MEASURED)
def test_an_empty_table_is_missing_with_a_reason(name, table):
    assert SCRIPTS[name].missing(table.iloc[:0])


def test_no_ceilings_no_roofline(table):
    reason = SCRIPTS["fig19_time_over_roofline"].missing(table.assign(roofline_s=float("nan")))
    assert "ceilings" in reason


def test_a_table_without_failures_has_no_table_of_statuses(table):
    assert SCRIPTS["table_status"].missing(table[table.status == "ok"]).startswith("all ")


def test_the_table_of_statuses_counts_every_failure(table, tmp_path):
    SCRIPTS["table_status"].draw(table, tmp_path)
    listed = pd.read_csv(tmp_path / "table_status.csv")
    whole = table[table.status != "ok"]
    assert listed.patterns.sum() == len(whole)
    assert set(listed.implementation) == set(whole.implementation)
    assert listed.reason.notna().all()


def test_the_same_table_gives_the_same_files(table, tmp_path):
    for folder in ("one", "two"):
        SCRIPTS["fig06_speedup_vs_ratio"].draw(table, tmp_path / folder)
    for ending in ("pdf", "png", "csv"):
        one, two = ((tmp_path / folder / f"fig06_speedup_vs_ratio.{ending}").read_bytes() for folder in ("one", "two"))
        assert one == two


def run(script, *arguments):
    command = [sys.executable, str(FIGURES / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})


def test_by_hand(table_path, tmp_path):
    result = run("fig13_speedup_vs_ratio_float16.py", "--table", table_path, "--output", tmp_path / "figures")
    assert result.returncode == 0, result.stderr
    check_output("fig13_speedup_vs_ratio_float16", tmp_path / "figures")


def test_by_hand_says_why_it_cannot(small_table, tmp_path):
    write_table(small_table, tmp_path / "time.csv")
    result = run("fig13_speedup_vs_ratio_float16.py", "--table", tmp_path / "time.csv", "--output", tmp_path)
    assert result.returncode == 1
    assert result.stderr == "fig13_speedup_vs_ratio_float16: the table has no float16 measurements\n"
    assert not list(tmp_path.glob("fig13*"))


def test_by_hand_of_two_devices(small_table, tmp_path):
    both = pd.concat([small_table, small_table.assign(device="nvidia-h200", median_s=small_table.median_s / 100)])
    write_table(both, tmp_path / "time.csv")
    result = run("fig06_speedup_vs_ratio.py", "--table", tmp_path / "time.csv", "--output", tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("fig06_speedup_vs_ratio: the table has measurements of cpu-x86_64 and nvidia-h200")
    assert not list(tmp_path.glob("fig06*"))


def test_by_hand_without_a_table(tmp_path):
    result = run("table03_speedups.py", "--table", tmp_path / "nowhere.csv", "--output", tmp_path)
    assert result.returncode == 1
    assert "nowhere.csv" in result.stderr
    assert "Traceback" not in result.stderr
