"""What is drawn from a tuning file, and from Nsight Compute's counters."""

import numpy as np
import pandas as pd
import pytest

from tests.figures.conftest import FIGURES

import counters_kernel  # isort: skip - found through conftest
import tuned_vs_untuned  # isort: skip

DTYPES = [("float32", "compensated"), ("float32", "strict"), ("float16", ""), ("bfloat16", "")]
LAYOUTS = ("batch_first", "batch_last")


@pytest.fixture
def problems():
    generator = np.random.default_rng()
    rows = [
        {"pattern": f"{a},4,4,2", "dtype": dtype, "precision": precision, "layout": layout}
        for a in range(1, 21)
        for dtype, precision in DTYPES
        for layout in LAYOUTS
    ]
    table = pd.DataFrame(rows).assign(device="nvidia-h200", batch_size=25_088)
    ratios = 1 + generator.exponential(0.1, (len(table), 2))
    auto_over_best = np.where(table.precision == "strict", np.nan, ratios[:, 1])
    return table.assign(untuned_over_tuned=ratios[:, 0], auto_over_best=auto_over_best)


@pytest.fixture
def counters():
    rows = [
        {"pattern": pattern, "dtype": dtype, "layout": layout, "implementation": implementation}
        for pattern in ("1,192,48,2", "4,64,64,16", "8,192,192,16", "2,1024,1024,4")
        for dtype in ("float32", "float16", "bfloat16")
        for layout in LAYOUTS
        for implementation in ("kernel", "kernel_strict")
        if dtype == "float32" or implementation == "kernel"
    ]
    counts = {
        "device_name": "NVIDIA H200",
        "batch_size": 25_088,
        "status": "ok",
        "reason": "",
        "launches": 1.0,
        "bytes_moved": 4e8,
        "seconds": 2e-4,
        "dram_bytes_read": 3e8,
        "dram_bytes_written": 3e8,
        "l1_sectors": 4e6,
        "l1_sectors_hit": 1e6,
        "l2_sectors": 8e6,
        "l2_sectors_hit": 4e6,
        "l2_sectors_read": 5e6,
        "l2_sectors_read_hit": 1e6,
        "active_cycles": 2e7,
        "tensor_percent": 30.0,
        "shared_wavefronts": 1e6,
        "shared_bank_conflicts": 1e5,
    }
    table = pd.DataFrame(rows).assign(**counts)
    skipped = table.iloc[:1].assign(status="skipped", reason="not built", launches=np.nan, seconds=np.nan)
    return pd.concat([skipped, table], ignore_index=True)


@pytest.mark.parametrize("layouts", [LAYOUTS, ("batch_last",)])
def test_tuned_against_untuned(problems, layouts, tmp_path, checked):
    problems = problems[problems.layout.isin(layouts)]
    tuned_vs_untuned.draw(problems, tmp_path)
    numbers = pd.read_csv(tmp_path / "tuned_vs_untuned.csv", keep_default_na=False)
    assert len(numbers) == len(layouts) * (2 * len(DTYPES) - 1)
    assert not ((numbers.ratio == "auto_over_best") & (numbers.precision == "strict")).any()
    rows = problems[(problems.layout == "batch_last") & (problems.precision == "compensated")]
    of = {"ratio": "auto_over_best", "layout": "batch_last", "dtype": "float32", "precision": "compensated"}
    (drawn,) = numbers[(numbers[list(of)] == list(of.values())).all(axis=1)].to_dict("records")
    assert drawn["n"] == 20
    assert drawn["median"] == pytest.approx(rows.auto_over_best.median(), rel=1e-5)
    assert drawn["share_within_1.1"] == pytest.approx((rows.auto_over_best <= 1.1).mean())
    assert "nvidia-h200, 20 patterns, batch 25,088" in tuned_vs_untuned.caption(problems)
    assert "but in strict float32" in tuned_vs_untuned.caption(problems)
    assert "strict" not in tuned_vs_untuned.caption(problems[problems.precision != "strict"])


def test_times_of_launches_below_those_that_were_compared(problems, tmp_path, checked):
    assert "launches" not in tuned_vs_untuned.caption(problems)
    below = problems.copy()
    below.loc[below.index[:3], "untuned_over_tuned"] = [0.99, 0.97, 0.66]
    assert f"3 of {len(problems)} problems lie below 1, 1 of them left of the axis" in tuned_vs_untuned.caption(below)
    tuned_vs_untuned.draw(below, tmp_path)
    (figure,) = checked
    assert figure.axes[0].get_xlim()[0] == pytest.approx(tuned_vs_untuned.LEAST)


def test_strict_float32_alone_has_no_curve_of_auto(problems, tmp_path, checked):
    tuned_vs_untuned.draw(problems[problems.precision == "strict"], tmp_path)
    numbers = pd.read_csv(tmp_path / "tuned_vs_untuned.csv")
    assert numbers.ratio.tolist() == ["untuned_over_tuned"] * 2


def test_nothing_tuned(problems):
    assert tuned_vs_untuned.missing(problems) is None
    assert "no problem" in tuned_vs_untuned.missing(problems.iloc[:0])


def test_counters(counters, tmp_path, checked):
    counters_kernel.draw(counters, tmp_path)
    rows = pd.read_csv(tmp_path / "counters_kernel.csv")
    assert len(rows) == len(counters) - 1
    expected = {
        "dram_over_minimum": 1.5,
        "dram_terabytes_per_s": 3.0,
        "l1_hit_percent": 25.0,
        "l2_hit_percent": 50.0,
        "l2_read_hit_percent": 20.0,
        "tensor_percent": 30.0,
        "conflicts_percent": 10.0,
    }
    assert rows.iloc[0][list(expected)].to_dict() == pytest.approx(expected)
    assert "NVIDIA H200, 4 patterns, batch 25,088" in (tmp_path / "counters_kernel.md").read_text(encoding="utf-8")


def test_counters_are_in_the_order_of_dtypes_with_whole_dots(counters, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(counters_kernel.style, "save", lambda figure, *_: drawn.append(figure))
    counters_kernel.draw(counters, tmp_path)
    rows = counters_kernel.frame(counters)
    assert list(rows.dtype.unique()) == ["float32", "float16", "bfloat16"]
    assert list(rows[rows.dtype == "float16"].layout.unique()) == list(LAYOUTS)
    dots = [dot for axes in drawn[0].axes for dot in axes.collections]
    assert len(dots) == len(counters_kernel.PANELS) and not any(dot.get_clip_on() for dot in dots)
    assert "no dot, nothing was asked" in counters_kernel.caption(counters)


def test_a_kernel_without_shared_memory_has_no_conflicts(counters, tmp_path, checked):
    none = counters.assign(shared_wavefronts=0.0, shared_bank_conflicts=0.0, l1_sectors=0.0, l1_sectors_hit=0.0)
    counters_kernel.draw(none, tmp_path)
    assert pd.read_csv(tmp_path / "counters_kernel.csv").conflicts_percent.isna().all()


def test_nothing_counted_is_missing_with_its_reason(counters):
    assert counters_kernel.missing(counters) is None
    assert counters_kernel.missing(counters.iloc[:1]) == "nothing was counted (not built)"
    assert counters_kernel.missing(counters.iloc[:0])


def test_another_file_than_counters_is_refused(tmp_path):
    path = tmp_path / "counters.csv"
    path.write_text("pattern,dtype\n")
    with pytest.raises(ValueError, match="has no column batch_size"):
        counters_kernel.read(path)


def test_they_are_not_taken_for_figures_of_the_table():
    assert not [path for path in FIGURES.glob("fig*.py") if path.stem in ("counters_kernel", "tuned_vs_untuned")]
