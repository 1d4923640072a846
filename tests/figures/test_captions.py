"""What captions and notes say of the patterns, layouts and dtypes that are compared."""

import pandas as pd
import pytest
from comparisons import Comparisons
from script import conditions
from table03_speedups import TABLE as TABLE_03
from table05_layouts import TABLE as TABLE_05
from table08_speedups_float16 import TABLE as TABLE_08

from tests.figures.scripts import SCRIPTS
from tests.figures.synthetic_table import synthetic_table


def caption(name, table):
    return next(module for script, module in SCRIPTS.items() if script.startswith(name)).caption(table)


@pytest.fixture(scope="module")
def complete():
    """Twelve patterns in two dtypes, every measurement with a time."""
    return synthetic_table(12, ["float32", "float16"], failures=False)


@pytest.fixture(scope="module")
def without_generic(complete):
    """The same without a generic time in float32 for two of the patterns."""
    two = complete.pattern.isin(complete.pattern.unique()[:2]) & (complete.dtype == "float32")
    table = complete.copy()
    table.loc[two & table.implementation.isin(["dense", "sparse"]), ["status", "median_s"]] = ["too_slow", None]
    return table


def test_patterns_left_out_are_counted(complete, without_generic):
    said = "2 patterns left out: no generic implementation has a time."
    assert said in caption("fig10", without_generic)
    assert f"In float32, {said}" in caption("fig18", without_generic)
    assert TABLE_03.frame(without_generic).note[0] == said
    for name in ("fig10", "fig15", "fig18"):
        assert "left out" not in caption(name, complete)
    assert "left out" not in caption("fig15", without_generic)


def test_layouts_say_what_they_leave_out(complete, without_generic):
    said = "Patterns left out, without a time in one of the layouts: 2 of sparse and 2 of dense."
    assert said in caption("fig12", without_generic)
    assert "left out" not in caption("fig12", complete) + caption("fig17", without_generic)


def test_which_patterns_figure_6_keeps(complete, without_generic):
    fast = complete.assign(median_s=complete.median_s.where(complete.implementation != "kernel", 1e-9))
    assert "All 12 patterns: for each, min(kernel, bmm, einsum, bsr) is faster than" in caption("fig06", fast)
    slow = fast.assign(median_s=fast.median_s.where(fast.pattern != fast.pattern.iloc[0], fast.roofline_s))
    assert "Only the 11 of 12 patterns for which" in caption("fig06", slow)
    assert "or no generic implementation has a time (2 patterns)" in caption("fig06", without_generic)


@pytest.mark.parametrize("name", ["fig10", "fig18", "table03"])
def test_the_faster_of_two_layouts_where_there_are_two(name, complete):
    assert "the faster of the two layouts" in caption(name, complete)
    one = caption(name, complete[complete.layout == "batch_last"])
    assert "All in batch_last, the only layout with times." in one and "of the two" not in one


def test_shares_below_0_are_noise(complete):
    alone = complete.part == "multiplication"
    clear = complete.assign(median_s=complete.median_s.where(~alone, 1e-9))
    assert "noise" not in caption("fig04", clear)
    noisy = clear.assign(median_s=clear.median_s.where(~(alone & (clear.pattern == clear.pattern.iloc[0])), 1.0))
    assert "Below 0 (1 of 12)" in caption("fig04", noisy)


def test_dtypes_are_listed_in_one_order(complete):
    three = pd.concat([complete, complete.assign(dtype="bfloat16")])
    index = three.set_index(["pattern", "batch_size"]).index
    for dtypes in ({"bfloat16", "float16", "float32"}, "bfloat16 and float32 and float16"):
        assert conditions(three, dtypes, index).endswith("batch 25,088, float32, float16 and bfloat16.")
    assert conditions(three, "float32", index).endswith("25,088, float32.")


@pytest.mark.parametrize(("table", "dtype"), [(TABLE_03, "float32"), (TABLE_05, "float32"), (TABLE_08, "float16")])
def test_the_paper_has_a_table_in_its_dtype_alone(table, dtype, complete):
    assert "yes" in set(table.frame(complete).in_paper)
    other = "float16" if dtype == "float32" else "float32"
    elsewhere = Comparisons("", table.rows, other, dtype)
    assert set(elsewhere.frame(complete).in_paper) == {"no"}
    assert "paper_a100" not in elsewhere.frame(complete) and "paper_a100" not in elsewhere.caption(complete)
