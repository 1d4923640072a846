import itertools

import groups
import numpy as np
import pandas as pd
import pytest
import spare
import style
from boxes import boxes_by_decades
from scales import round_numbers

from tests.figures.synthetic_table import synthetic_table

import fig05_algorithm2 as fig05  # isort: skip - found through conftest
import fig11_bmm_vs_baselines as fig11  # isort: skip


def test_statistics_by_hand():
    numbers = groups.statistics(range(1, 22))  # 1 … 21: a percentile p lies at 1 + 20 p / 100
    assert numbers == {"n": 21, "p5": 2.0, "q1": 6.0, "median": 11.0, "q3": 16.0, "p95": 20.0}
    assert groups.statistics([3.0]) == {"n": 1, "p5": 3.0, "q1": 3.0, "median": 3.0, "q3": 3.0, "p95": 3.0}


def test_each_value_its_group_where_patterns_are_many():
    found = groups.by_value([0.1] * 6 + [0.3] * 5 + [0.2] * 7, range(18))
    assert [(group.low, group.high, len(group.values)) for group in found] == [
        (0.1, 0.1, 6),
        (0.2, 0.2, 7),
        (0.3, 0.3, 5),
    ]
    assert groups.describe_values(found, "x") == "Patterns are grouped by their value of x."


def test_neighbours_share_a_group_where_patterns_are_few():
    x = np.repeat(np.arange(1, 11), 2)  # ten values, two patterns each
    found = groups.by_value(x, x)
    assert [(group.low, group.high) for group in found] == [(1, 2), (3, 5), (6, 7), (8, 10)]
    assert "4 groups" in groups.describe_values(found, "x")


@pytest.mark.parametrize("number", [1, 2, 3, 7, 20, 41, 627])
def test_no_value_is_lost_or_split(number):
    generator = np.random.default_rng(number)
    x = generator.choice([1.0, 2.0, 2.5, 3.0, 5.0, 8.0, 9.0, 20.0], number)
    for found in (groups.by_value(x, x), groups.by_decades(x, x)):
        together = np.sort(np.concatenate([group.values for group in found]))
        assert np.array_equal(together, np.sort(x))
        assert all(len(group.values) for group in found)
    for left, right in itertools.pairwise(found):
        assert left.values.max() < right.values.min()


def test_values_that_differ_by_rounding_are_one():
    found = groups.by_value([2 / 64, 5 / 160 + 1e-17, 2 / 64] * 5, range(15))
    assert len(found) == 1


def test_ranges_have_equal_width_on_a_log_axis():
    found = groups.by_decades(np.geomspace(1, 1e4, 20), range(20))
    assert [round(group.high / group.low, 6) for group in found] == [10.0] * 4


def test_groups_that_are_lines_are_found_where_they_are_many():
    wide, line, one = (groups.Group(k, k, np.array(v)) for k, v in enumerate([[1.0, 2.0], [1.0, 1.02], [1.3]], 1))
    assert groups.flat([wide, line, one]) == []  # one of three
    assert groups.flat([wide, line]) == [line]
    far, near = (groups.Group(k, k, np.array(v)) for k, v in ((4, [1.6, 1.61]), (5, [1.01, 1.03])))
    assert groups.flat([wide, line, near, far]) == [line, near]  # far would squeeze them again
    assert groups.flat([one]) == groups.flat([wide]) == groups.flat([line]) == []


@pytest.mark.parametrize(("spread", "panels"), [(0.001, 2), (0.5, 1)])
def test_groups_that_are_lines_are_drawn_again(spread, panels, tmp_path, monkeypatch):
    table = synthetic_table(30, ["float32"], failures=False)
    figure = fig11.FIGURE
    factors = figure.factors(table)
    sizes = np.argsort(np.argsort(figure.by.of(factors.index)))
    values = pd.Series(np.where(sizes < 5, 1 + sizes / 2, 1 + spread * (sizes % 2)), factors.index)
    monkeypatch.setattr(type(figure), "factors", lambda self, table: values)
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure))
    figure.draw(table, tmp_path)
    assert len(drawn[0].axes) == panels
    assert ("magnified" in figure.caption(table)) == (panels == 2)
    assert drawn[0].axes[-1].get_ylim()[1] < 1.02 or panels == 1


def test_rank_correlation():
    assert groups.rank_correlation([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1)
    assert groups.rank_correlation([1, 2, 3, 4], [8, 6, 4, 2]) == pytest.approx(-1)
    assert groups.rank_correlation([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(0.6)  # 1 - 6 · 4 / (4 · 15)
    assert groups.rank_correlation([2 / 64, 5 / 160 * (1 + 1e-15), 1], [3, 3, 4]) == pytest.approx(1)
    assert np.isnan(groups.rank_correlation([1, 1, 1], [1, 2, 3]))


def test_summary_has_a_row_for_each_group():
    found = groups.by_value([1] * 5 + [2] * 5 + [3] * 5, range(15))
    frame = groups.summary(found, layout="batch_first")
    assert list(frame) == ["layout", "low", "high", "n", "p5", "q1", "median", "q3", "p95"]
    assert list(frame["median"]) == [2, 7, 12]


@pytest.mark.parametrize(("low", "high"), [(0.95, 1.1), (0.7, 2.2), (0.5, 30), (1e-3, 1e4), (1, 1.001), (0.2, 1)])
def test_round_numbers(low, high):
    ticks = style.round_numbers(low, high)
    assert 1 <= len(ticks) <= 12
    assert all(low * 0.98 <= tick <= high * 1.02 for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_colours_and_marks_tell_implementations_apart():
    for marks in (style.COLOURS, style.MARKERS, style.HATCHES):
        assert len(set(marks.values())) == len(marks)
        assert list(marks) == list(style.COLOURS)
    used = {"colour": style.COLOURS, "marker": style.MARKERS, "hatch": style.HATCHES, "line": style.LINES}
    for kind, known in used.items():
        looks = [*known.values(), *(look[kind] for look in spare.LOOKS)]
        assert len(set(looks)) == len(looks) - (kind == "line")  # two light lines differ by colour
    assert style.ordered({"zzz", "dense", "kernel"}) == ["kernel", "dense", "zzz"]


def test_two_implementations_of_ones_own_can_be_told_apart():
    style.introduce({"mine", "yours"})
    for look in (style.colour, style.marker, style.hatch):
        assert look("mine") != look("yours")
    lines = [style.line(name) for name in ("mine", "yours")]
    assert lines[0]["linestyle"] != lines[1]["linestyle"]


def test_what_is_no_implementation_has_the_colour_of_none():
    assert not set(style.NEUTRAL_PAIR) & set(style.COLOURS.values())
    assert set(fig05.COLOURS[2:]) == set(style.NEUTRAL_PAIR)


@pytest.mark.parametrize(("low", "high", "last"), [(0.9, 4.9, 4.0), (0.85, 6.0, 5.0), (0.5, 30, 30.0)])
def test_ticks_reach_the_ends(low, high, last):
    assert round_numbers(low, high)[-1] == pytest.approx(last)


def test_a_single_size_is_written_out():
    axes = style.new_figure().subplots()
    boxes_by_decades(axes, [groups.Group(9216, 9216, np.array([1.0, 2.0]))], "kernel", "matrix size")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["9,216"]
