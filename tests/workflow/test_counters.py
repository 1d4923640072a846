"""Reading what Nsight Compute says; the counting itself needs a GPU and its profiler."""

import csv
import io
import sys

import pytest

from tests.scripts import load_script


@pytest.fixture
def script():
    return load_script("workflow/scripts/count_kernel.py")


def log(script, rows, unit="ns", metrics=None):
    """The raw page of `ncu --csv --nvtx`, with what a program and the profiler write before it."""
    metrics = list(script.METRICS.values()) if metrics is None else metrics
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    nvtx = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    writer.writerow(["ID", nvtx, "Kernel Name", "Block Size", *metrics])
    writer.writerow(["", "", "", "", *(unit if "time" in metric else "" for metric in metrics)])
    for task, kernel, values in rows:
        range_name = (
            f"<default domain>:ksmm task {task};:none:none:none:none:registered:none" if task is not None else ""
        )
        writer.writerow(["0", range_name, kernel, "(256, 1, 1)", *values[: len(metrics)]])
    return f"==PROF== Connected to process 1\n{text.getvalue()}==PROF== Disconnected\n"


def test_launches_belong_to_their_tasks(script):
    values = ["2,000", *(str(1000 * i) for i in range(1, len(script.METRICS)))]
    rows = [(1, "transpose", values), (11, "gemm", values), (1, "gemm", values), (None, "other", values)]
    launches = script.read_launches(log(script, rows))
    assert [(launch["task"], launch["kernel"]) for launch in launches] == [(1, "transpose"), (11, "gemm"), (1, "gemm")]
    row = script.row_of([launch for launch in launches if launch["task"] == 1], None)
    assert (row["status"], row["launches"], row["kernels"]) == ("ok", 2, "transpose; gemm")
    assert float(row["seconds"]) == pytest.approx(4e-6)
    assert float(row["dram_bytes_read"]) == 2000
    assert float(row["tensor_percent"]) == launches[0]["tensor_percent"]


def test_nothing_counted(script):
    assert script.read_launches("==ERROR== The user does not have permission (ERR_NVGPUCTRPERM)\n") == []
    assert script.row_of([], None)["status"] == "skipped"
    assert script.row_of([], "float64 is not taken")["reason"] == "float64 is not taken"


def test_what_it_does_not_know_is_refused(script):
    values = ["1"] * len(script.METRICS)
    with pytest.raises(script.CountingError, match="does not report lts__t_sectors"):
        script.read_launches(log(script, [(0, "gemm", values)], metrics=list(script.METRICS.values())[:5]))
    with pytest.raises(script.CountingError, match="in 'fortnight'"):
        script.read_launches(log(script, [(0, "gemm", values)], unit="fortnight"))
    with pytest.raises(script.CountingError, match=r"'n/a' for gpu__time_duration\.sum"):
        script.read_launches(log(script, [(0, "gemm", ["n/a", *values[1:]])]))


def test_without_nsight_compute_every_problem_is_skipped_by_name(script, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    output = tmp_path / "counters.csv"
    arguments = [
        "--patterns",
        "1,4,4,2",
        "2,4,8,1",
        "--batch-size",
        "8",
        "--dtypes",
        "float32",
        "--output",
        str(output),
    ]
    monkeypatch.setattr(sys, "argv", ["count_kernel.py", *arguments])
    script.main()
    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 2
    assert {row["status"] for row in rows} == {"skipped"}
    assert all("ncu is not on the PATH" in row["reason"] for row in rows)
