import math

import pandas as pd
import pytest
import ratios

from tests.figures.synthetic_table import synthetic_table

SECONDS = [
    # pattern, layout, implementation, part, seconds (None: failed)
    ("1,4,4,2", "batch_first", "kernel", "whole", 4.0),
    ("1,4,4,2", "batch_last", "kernel", "whole", 2.0),
    ("1,4,4,2", "batch_first", "bmm", "whole", 6.0),
    ("1,4,4,2", "batch_last", "bmm", "whole", 8.0),
    ("1,4,4,2", "batch_first", "bmm", "multiplication", 1.5),
    ("1,4,4,2", "batch_first", "einsum", "whole", 5.0),
    ("1,4,4,2", "batch_first", "dense", "whole", 1.0),
    ("2,4,8,1", "batch_first", "kernel", "whole", 3.0),
    ("2,4,8,1", "batch_last", "kernel", "whole", None),
    ("2,4,8,1", "batch_last", "bmm", "whole", 12.0),
    ("2,4,8,1", "batch_last", "dense", "whole", 30.0),
    ("3,4,4,1", "batch_last", "bmm", "whole", 7.0),
    ("3,4,4,1", "batch_last", "kernel", "whole", 14.0),
    ("4,4,4,1", "batch_last", "kernel", "whole", 1.0),
]


@pytest.fixture
def few():
    table = pd.DataFrame(SECONDS, columns=["pattern", "layout", "implementation", "part", "median_s"])
    ok = table.median_s.notna()
    return table.assign(
        status=ok.map({True: "ok", False: "failed"}),
        reason=ok.map({True: "", False: "broke"}),
        dtype="float32",
        batch_size=8,
        roofline_s=0.5,
    )


def test_times_are_of_the_better_layout(few):
    seconds = ratios.times(few, "float32")
    assert seconds.loc[("1,4,4,2", 8), "kernel"] == 2.0
    assert seconds.loc[("1,4,4,2", 8), "bmm"] == 6.0
    assert seconds.loc[("2,4,8,1", 8), "kernel"] == 3.0
    assert ratios.times(few, "float32", "batch_last").loc[("1,4,4,2", 8), "bmm"] == 8.0


def test_batch_sizes_are_not_mixed(few):
    larger = few.assign(batch_size=16, median_s=few.median_s / 100)
    seconds = ratios.times(pd.concat([few, larger]), "float32")
    assert seconds.loc[("1,4,4,2", 8), "kernel"] == 2.0
    assert seconds.loc[("1,4,4,2", 16), "kernel"] == 0.02


def test_speedup_over_the_fastest_rival(few):
    factors = ratios.speedup(ratios.times(few, "float32"), ["kernel"], ["bmm", "einsum", "bsr"])
    assert factors.to_dict() == {("1,4,4,2", 8): 2.5, ("2,4,8,1", 8): 4.0, ("3,4,4,1", 8): 0.5}


def test_every_rival_is_what_the_table_has_besides_the_kernel(few):
    names = ["kernel_strict", "auto", "zzz", "mine", "bsr", "lazylinop"]
    more = pd.concat([few, *(few[few.implementation == "kernel"].assign(implementation=name) for name in names)])
    more.loc[more.implementation == "lazylinop", "status"] = "skipped"
    assert ratios.every_rival(more) == ("bmm", "einsum", "bsr", "dense", "mine", "zzz")
    assert ratios.every_rival(few[few.implementation == "kernel"]) == ratios.KNOWN_RIVALS


def test_compare(few):
    result = ratios.compare(ratios.speedup(ratios.times(few, "float32"), ["kernel"], ["bmm", "einsum", "bsr"]))
    assert result == ratios.Comparison(3, 2 / 3, (2.5 + 4.0) / 2, 2.5)


def test_compare_without_a_faster_pattern():
    result = ratios.compare(pd.Series([0.5, 1.0]))
    assert result.share_faster == 0 and math.isnan(result.median_when_faster)
    with pytest.raises(ValueError, match="no pattern"):
        ratios.compare(pd.Series(dtype=float))


def test_only_patterns_where_a_specialised_implementation_wins(few):
    kept = ratios.where_specialised_wins(ratios.times(few, "float32"))
    # dense wins on the first pattern; the last two have no generic time.
    assert [pattern for pattern, _ in kept.index] == ["2,4,8,1", "3,4,4,1", "4,4,4,1"]


def test_rewritings(few):
    rows = ratios.rewritings(few, "float32", "batch_first")
    assert rows.share.to_dict() == {("1,4,4,2", 8): 0.75}
    assert rows.memory_ratio.iloc[0] == 0.5
    assert ratios.rewritings(few, "float32", "batch_last").empty
    assert ratios.rewritings(few[few.implementation != "bmm"], "float32", "batch_first").empty


def test_layout_ratios(few):
    quotients = ratios.layout_ratios(few, "float32")
    assert list(quotients) == ["bmm", "kernel"]
    assert quotients.loc[("1,4,4,2", 8)].to_dict() == {"bmm": 0.75, "kernel": 2.0}
    assert len(quotients) == 1


def test_time_over_roofline(few):
    rows = ratios.time_over_roofline(few)
    assert len(rows) == 12  # neither the failure nor the multiplication alone
    assert rows.over_roofline.max() == 60.0


def test_attributes_of_patterns(few):
    index = ratios.times(few, "float32").index
    assert ratios.attribute(index, "density") == [1 / 2, 1 / 2, 1 / 3, 1 / 4]
    assert ratios.matrix_sizes(index)[:2] == [8 * 8, 8 * 16]


@pytest.mark.parametrize(
    ("dtype", "sides", "layouts", "reason"),
    [
        ("float32", [["kernel"], ["bmm"]], [], None),
        ("float16", [["kernel"]], [], "the table has no float16 measurements"),
        ("float32", [["kernel"], ["bsr"]], [], "bsr has no time in float32 (not measured)"),
        ("float32", [["sparse", "bsr"]], [], "sparse and bsr have no time in float32 (not measured)"),
        ("float32", [["einsum"]], ["batch_last"], "einsum has no time in float32 batch_last (not measured)"),
    ],
)
def test_why_missing(few, dtype, sides, layouts, reason):
    assert ratios.why_missing(few, dtype, *sides, layouts=layouts) == reason


def test_why_missing_gives_the_reason_in_the_table(few):
    failed = few[(few.pattern == "2,4,8,1") & (few.layout == "batch_last")]
    assert ratios.why_missing(failed, "float32", ["kernel"]) == "kernel has no time in float32 (failed: broke)"


def test_why_missing_says_whose_reason_it_gives(few):
    failed = few[(few.pattern == "2,4,8,1") & (few.layout == "batch_last") & (few.status != "ok")]
    reason = ratios.why_missing(failed, "float32", ["bmm", "kernel"])
    assert reason == "bmm and kernel have no time in float32 (kernel failed: broke)"


def test_why_missing_without_a_common_pattern(few):
    apart = few[(few.pattern == "1,4,4,2") & (few.implementation == "bmm") | (few.pattern == "4,4,4,1")]
    assert (
        ratios.why_missing(apart, "float32", ["kernel"], ["bmm"])
        == "no pattern has a float32 time for each of kernel, bmm"
    )


def test_absence_names_what_has_no_time(few):
    assert ratios.absence(few, "float32", ["kernel", "bmm"]) == ""
    assert ratios.absence(few, "float32", ["bsr", "kernel", "sparse"]) == "bsr and sparse have no time in float32 here."


def test_no_failed_measurement_counts():
    table = synthetic_table(10, ["float32"])
    table.loc[table.implementation == "kernel", ["status", "median_s"]] = ["wrong", 1e-9]
    assert "kernel" not in ratios.times(table, "float32")
