"""Figures 19 and 20 and the table of targets, against numbers worked out by hand."""

import math

import curves
import numpy as np
import pandas as pd
import pytest
import style
from curves import Curve
from matplotlib.figure import Figure

import fig19_time_over_roofline as fig19  # isort: skip - found through conftest
import fig20_speedup_over_rivals as fig20  # isort: skip
import table_targets  # isort: skip

TIMES = {
    # pattern: seconds of kernel, kernel_strict, bmm_strided, bmm; None: failed. The roofline is 1 s.
    "1,4,4,2": (0.5, 1.0, 1.5, 4.0),
    "2,4,8,1": (2.0, 3.0, 1.0, 3.0),
    "3,4,4,1": (0.6, 1.1, 3.0, 1.2),
    "4,4,4,1": (None, 1.2, 1.0, 5.0),
}


@pytest.fixture
def few():
    names = ("kernel", "kernel_strict", "bmm_strided", "bmm")
    rows = [
        {"pattern": pattern, "implementation": name, "layout": layout, "median_s": value}
        for layout in ("batch_first", "batch_last")
        for pattern, values in TIMES.items()
        for name, value in zip(names, values, strict=True)
    ]
    table = pd.DataFrame(rows).assign(batch_size=25_088, dtype="float32", part="whole", roofline_s=1.0)
    table = table.assign(device="nvidia-h200", device_name="NVIDIA H200")
    ok = table.median_s.notna()
    table = table.assign(protocol_met=ok.map({True: "yes", False: ""}), cuda_graph_median_s=float("nan"))
    return table.assign(status=ok.map({True: "ok", False: "failed"}), reason=ok.map({True: "", False: "broke"}))


def read(folder, name):
    return pd.read_csv(folder / f"{name}.csv").set_index(["layout"])


def test_shares_are_of_all_patterns():
    curve = Curve("kernel", np.array([0.5, 1.0, 2.0]), 4)
    assert (curve.share_up_to(1), curve.share_above(1)) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        # at each x: the percentage of four patterns with a ratio up to x, or from x on; one has no ratio
        (curves.draw_up_to, {0.6: 25, 1.5: 50, 3: 75, 40: 75}),
        (curves.draw_from, {0.4: 75, 0.6: 50, 1.5: 25}),
    ],
)
def test_the_line_drawn_is_the_share(draw, expected):
    axes = style.new_figure().subplots()
    draw(axes, Curve("kernel", np.array([2.0, 0.5, 1.0]), 4), "kernel")
    x, y = (np.asarray(values) for values in axes.get_lines()[0].get_data())
    for at, share in expected.items():
        assert y[np.searchsorted(x, at, side="right") - 1] == share


def test_limits_show_one_and_end_somewhere():
    low, high = curves.limits_of([Curve("dense", np.array([3.0, 1e6]), 2)])
    assert low < 1 and high == curves.FARTHEST


@pytest.mark.parametrize(
    ("limits", "ticks"),
    [
        ((0.9, 55), [1, 2, 5, 10, 20, 50]),
        ((0.0035, 31), [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]),
        ((1e-4, 1e4), [1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1000, 1e4]),
    ],
)
def test_labels_of_a_wide_axis_have_room(limits, ticks):
    axes = Figure().add_subplot()
    curves.share_axes([axes], limits)
    assert axes.get_xticks().tolist() == ticks


def test_time_over_roofline(few, tmp_path):
    fig19.draw(few, tmp_path)
    rows = read(tmp_path, fig19.NAME).loc["batch_first"].set_index("implementation")
    assert list(rows.index) == ["kernel", "kernel_strict", "bmm_strided", "bmm"]
    assert rows.loc["kernel", ["patterns", "n", "median", "share_within_1.2"]].tolist() == [4, 3, 0.6, 0.5]
    assert rows.loc["kernel_strict", "share_within_1.2"] == 0.75
    assert "can be below 1" in fig19.caption(few)


def test_speedup_over_rivals(few, tmp_path):
    fig20.draw(few, tmp_path)
    rows = read(tmp_path, fig20.NAME)
    first = rows.loc["batch_first"]
    # 1.5/0.5, 1/2, 1.2/0.6, lost: kernel_strict is no rival
    assert (first["median"], first.n, first.patterns, first.share_faster) == (2.0, 3, 4, 0.5)
    last = rows.loc["batch_last"].set_index("rival")
    assert list(last.index) == ["fastest rival", "bmm_strided"]
    assert last.loc["bmm_strided", "median"] == 3.0


def test_targets(few, tmp_path):
    table_targets.draw(few, tmp_path)
    rows = pd.read_csv(tmp_path / "table_targets.csv").set_index(["dtype", "implementation", "layout"])
    assert len(rows) == len(table_targets.TARGETS) == 8
    first = rows.loc[("float32", "kernel", "batch_first")]
    assert (first.patterns, first.time_over_roofline, first.roofline_reached) == (3, 0.6, "yes")
    assert (first.speedup_over_fastest, first.speedup_bar, first.speedup_reached) == (2.0, "≥ 2.5", "no")
    assert (first.fastest_percent, first.fastest_reached, first.reached) == (50.0, "no", "no")
    last = rows.loc[("float32", "kernel", "batch_last")]
    assert (last.speedup_over_bmm_strided, last.speedup_reached) == (3.0, "yes")
    strict = rows.loc[("float32", "kernel_strict", "batch_last")]
    assert (strict.time_over_roofline, strict.roofline_bar, strict.reached) == (1.15, "≤ 1.15", "yes")
    assert math.isnan(strict.fastest_reached)
    assert rows.loc[("float16", "kernel", "batch_first"), "note"] == "the table has no float16 measurements"


def test_launches_do_not_count_in_graphs(few, tmp_path):
    table_targets.draw(few, tmp_path)
    assert "fastest_in_graphs" not in pd.read_csv(tmp_path / "table_targets.csv")
    first = (few.layout == "batch_first") & (few.implementation == "bmm")
    few.loc[first & (few.pattern == "3,4,4,1"), "cuda_graph_median_s"] = 0.5  # 1.2 with launches; kernel 0.6
    table_targets.draw(few, tmp_path)
    rows = pd.read_csv(tmp_path / "table_targets.csv").set_index(["dtype", "implementation", "layout"])
    line = rows.loc[("float32", "kernel", "batch_first")]
    assert (line.fastest_percent, line.fastest_in_graphs) == (50.0, 25.0)


def test_measurements_that_are_too_short_are_counted(few):
    assert "shorter" not in table_targets.caption(few)
    few.loc[few.implementation == "kernel", "protocol_met"] = "no"
    few.loc[few.status != "ok", "protocol_met"] = ""
    assert "6 of 30 measurements are shorter" in table_targets.caption(few)


def test_what_was_not_measured_is_neither_reached_nor_missed(few, tmp_path):
    alone = few[few.implementation == "kernel"]
    assert fig20.missing(alone)
    table_targets.draw(alone, tmp_path)
    rows = pd.read_csv(tmp_path / "table_targets.csv")
    measured = rows[rows.patterns > 0]
    assert (measured.roofline_reached == "yes").all() and not measured.get("reached", pd.Series()).any()
    assert not {"speedup_reached", "fastest_reached"} & set(rows)
    assert measured.note.str.contains(r"no time in float32 batch_\w+ \(not measured\)").all()


def test_one_bar_that_is_missed_decides(few, tmp_path):
    table_targets.draw(few[few.implementation == "kernel"].assign(roofline_s=0.1), tmp_path)
    rows = pd.read_csv(tmp_path / "table_targets.csv")
    assert (rows[rows.patterns > 0].reached == "no").all()


@pytest.mark.parametrize("other", [{"device": "cpu-x86_64"}, {"device": "nvidia-h100"}, {"batch_size": 128}])
def test_no_verdict_where_the_bars_are_not_set(other, few, tmp_path):
    table_targets.draw(few.assign(**other), tmp_path)
    rows = pd.read_csv(tmp_path / "table_targets.csv")
    assert not [name for name in rows if "reached" in name]
    assert rows[rows.patterns > 0].note.str.contains("an NVIDIA H200 at batch 25,088").all()


@pytest.mark.parametrize("module", [fig19, table_targets])
def test_matrix_units_are_those_of_a_gpu(module, few):
    assert "matrix units" in module.caption(few)
    assert "matrix units" not in module.caption(few.assign(device="cpu-x86_64"))


def test_an_implementation_of_ones_own_is_a_rival(few, tmp_path):
    fastest = few[few.implementation == "bmm"].assign(implementation="mine", median_s=0.1)
    both = pd.concat([few, fastest], ignore_index=True)
    fig20.draw(both, tmp_path)
    table_targets.draw(both, tmp_path)
    assert (read(tmp_path, fig20.NAME).loc["batch_first"].share_faster == 0).all()
    rows = pd.read_csv(tmp_path / "table_targets.csv")
    assert (rows[rows.patterns > 0].fastest_percent == 0).all()
    for module in (fig20, table_targets):
        assert "bmm_strided, bmm and mine" in module.caption(both)


def test_targets_without_ceilings(few):
    assert "ceilings" in table_targets.missing(few.assign(roofline_s=float("nan")))
