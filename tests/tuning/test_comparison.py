"""Tuned against untuned."""

from __future__ import annotations

from pathlib import Path

import pytest

from ksmm.tuning import summary, untuned_over_tuned, write_tuning
from tests.tuning.conftest import entry, tuning_file


def test_the_ratios_of_each_problem(tmp_path: Path) -> None:
    entries = [
        entry(),
        entry(layout="batch_last", untuned="bmm_strided", rivals_ms={"bmm": 2.0, "bmm_strided": 0.5}),
        entry(dtype="float16", rivals_ms={}, untuned_ms=1.0, untuned_configuration="good tile"),
    ]
    write_tuning(tmp_path / "a.json", tuning_file(*entries))
    table = untuned_over_tuned(tmp_path / "a.json").set_index(["dtype", "layout"])
    assert table.untuned_over_tuned.to_dict() == {
        ("float16", "batch_first"): 1.0,
        ("float32", "batch_first"): 1.5,
        ("float32", "batch_last"): 1.5,
    }
    assert table.auto_over_best.to_dict() == {
        ("float16", "batch_first"): 1.0,
        ("float32", "batch_first"): 1.5,
        ("float32", "batch_last"): 1.0,
    }
    assert table.pattern.unique().tolist() == ["1,48,24,2"]


def test_medians_and_percentiles_by_dtype_and_layout(tmp_path: Path) -> None:
    entries = [entry(pattern=(1, size, 8, 1), untuned_ms=1 + size / 10) for size in range(1, 12)]
    write_tuning(tmp_path / "a.json", tuning_file(*entries, entry(layout="batch_last")))
    table = summary(untuned_over_tuned(tmp_path / "a.json"))
    assert table[["dtype", "precision", "layout", "problems"]].to_numpy().tolist() == [
        ["float32", "", "batch_first", 11],
        ["float32", "", "batch_last", 1],
    ]
    assert table.untuned_over_tuned_median[0] == pytest.approx(1.6)
    assert table.untuned_over_tuned_90th_percentile[0] == pytest.approx(2.0)


def test_what_auto_never_takes_has_no_ratio_of_auto(tmp_path: Path) -> None:
    strict = [entry(pattern=(1, size, 8, 1), precision="strict", untuned="kernel_strict") for size in (1, 2)]
    write_tuning(tmp_path / "a.json", tuning_file(*strict, entry(precision="compensated")))
    ratios = untuned_over_tuned(tmp_path / "a.json")
    assert ratios[ratios.auto_over_best.isna()].precision.tolist() == ["strict"] * 2
    table = summary(ratios).set_index("precision")
    assert table.untuned_over_tuned_median.to_dict() == {"compensated": 1.5, "strict": 1.5}
    assert table.auto_over_best_median["compensated"] == 1.5
    assert table.loc["strict", ["auto_over_best_median", "auto_over_best_90th_percentile"]].isna().all()
    assert table.problems.to_dict() == {"compensated": 1, "strict": 2}


def test_a_file_without_entries_gives_an_empty_table(tmp_path: Path) -> None:
    write_tuning(tmp_path / "a.json", tuning_file())
    ratios = untuned_over_tuned(tmp_path / "a.json")
    assert ratios.empty
    assert summary(ratios).empty
    assert "auto_over_best" in ratios.columns
