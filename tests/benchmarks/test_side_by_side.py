"""The kernel beside its rivals, in turns: small problems, and TF32."""

from __future__ import annotations

import csv
import importlib
import io

import pytest
import torch

from ksmm.measure.protocol import Protocol
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from tests.scripts import BENCHMARKS, run_benchmark


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cpu"])
def test_small_problems_beside_batched_products() -> None:
    sizes = ["--patterns", "2,16,16,4", "2,16,16,1", "--batches", "1", "8", "--dtypes", "float32", "bfloat16"]
    done = run_benchmark("small_problems", "--device", "cpu", *sizes, "--rounds", "2", "--max-seconds", "0.001")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 2 * 2 * 2 * len(LAYOUTS)
    for row in rows:
        assert row["how"] == "launched", "a CPU has no CUDA graphs"
        rivals = [float(row[name]) for name in ("bmm_s", "bmm_strided_s") if row[name]]
        assert len(rivals) == (1 if row["layout"] == "batch_first" and row["pattern"] == "2,16,16,4" else 2)
        assert float(row["kernel_over_best"]) == pytest.approx(float(row["kernel_s"]) / min(rivals), rel=1e-2)
    said = done.stderr.splitlines()
    assert [line.split(":")[0] for line in said] == [
        f"launched, {dtype}, {layout}" for dtype in ("float32", "bfloat16") for layout in LAYOUTS
    ]
    assert all(line.endswith("of 4") for line in said)


@pytest.mark.cuda
@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cuda"])
def test_small_problems_from_graphs() -> None:
    sizes = ["--patterns", "2,64,64,1", "--batches", "8", "--dtypes", "float16"]
    done = run_benchmark("small_problems", *sizes, "--rounds", "2", "--max-seconds", "0.001")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["how"] for row in rows] == ["launched", "graph"] * len(LAYOUTS)
    assert all(float(row[name]) > 0 for row in rows for name in ("kernel_s", "bmm_s", "bmm_strided_s"))


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cpu"])
def test_all_implementations_where_tf32_is_allowed() -> None:
    sizes = ["--patterns", "2,16,16,4", "--batch", "80", "--layouts", "batch_last"]
    done = run_benchmark("tf32", "--device", "cpu", *sizes, "--rounds", "2", "--max-seconds", "0.001")
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    rivals = [float(row[f"{name}_s"]) for name in ("bmm", "bmm_strided", "einsum", "dense")]
    assert float(row["kernel_over_best"]) == pytest.approx(float(row["kernel_s"]) / min(rivals), rel=1e-2)


def test_tf32_is_allowed_while_it_is_measured(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = importlib.import_module("tf32")
    allowed = []
    monkeypatch.setattr(
        script, "seconds_without_launch", lambda *_: allowed.append(torch.backends.cuda.matmul.allow_tf32) or 1.0
    )
    monkeypatch.setattr(script, "IMPLEMENTATIONS", ("bmm", "einsum"))
    problem = Problem(Pattern(2, 16, 16, 4), 8, DTYPES["float32"], "batch_last")
    assert script.times_of_problem(problem, Protocol(), rounds=2) == {"bmm": [1.0, 1.0], "einsum": [1.0, 1.0]}
    assert allowed == [True] * 4
    assert not torch.backends.cuda.matmul.allow_tf32


def test_every_second_turn_is_in_reverse(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    side_by_side = importlib.import_module("side_by_side")
    order = []
    measurements = {name: lambda name=name: order.append(name) or len(order) for name in ("kernel", "bmm", "dense")}
    times = side_by_side.in_turns(measurements, 2)
    assert order == ["kernel", "bmm", "dense", "dense", "bmm", "kernel"]
    assert times == {"kernel": [1, 6], "bmm": [2, 5], "dense": [3, 4]}
    cells, ratio = side_by_side.times_and_ratio({"kernel": [2.0], "bmm": [8.0, 4.0, 4.0]}, ("kernel", "bmm", "dense"))
    assert (cells, ratio) == (["2", "4", ""], 0.5)
