"""Reading what Nsight Compute says; the counting itself needs a GPU and its profiler."""

import contextlib
import csv
import io
import sys

import pytest

from ksmm.implementations import get_implementation
from ksmm.measure import provenance
from ksmm.pattern_lists import benchmark_patterns, stratified_sample
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


def test_counts_say_what_was_counted(script, tmp_path, monkeypatch):
    values = [str(1000 * i) for i in range(1, len(script.METRICS) + 1)]
    profiled = log(script, [(0, "gemm", values)]), [None, "kernel_strict does not take it"], "it said nothing"
    output = tmp_path / "counters.csv"
    monkeypatch.setattr(script.shutil, "which", lambda name: name)
    monkeypatch.setattr(script, "device_lock", contextlib.nullcontext)
    monkeypatch.setattr(script, "profile", lambda *_: profiled)
    monkeypatch.setattr(script, "configuration_of", lambda task: f"of {task['implementation']}")
    monkeypatch.setattr(script.provenance, "check_device", lambda *_: None)
    monkeypatch.setattr(script.provenance, "device_name", lambda _: "a GPU")
    monkeypatch.setattr(script.provenance, "git_state", lambda: {"commit": "0eb5c80", "dirty": True})
    monkeypatch.setattr(script.provenance, "kernel_hash", lambda: "12ab")
    arguments = ["--patterns", "1,4,4,2", "--batch-size", "8", "--dtypes", "float32", "--layouts", "batch_first"]
    monkeypatch.setattr(sys, "argv", ["count_kernel.py", *arguments, "--output", str(output)])
    script.main()
    with output.open(newline="") as file:
        counted, skipped = csv.DictReader(file)
    for row in (counted, skipped):
        assert (row["device_name"], row["commit"], row["kernel_hash"]) == ("a GPU", "0eb5c80-dirty", "12ab")
    assert (counted["status"], counted["configuration"]) == ("ok", "of kernel")
    assert (skipped["status"], skipped["configuration"]) == ("skipped", "")
    assert counted["dram_bytes_read"] == "2000"


@pytest.mark.parametrize(
    ("state", "said"),
    [(None, ""), ({"commit": "0eb5c80", "dirty": None}, "0eb5c80"), ({"commit": "0eb5c80", "dirty": False}, "0eb5c80")],
)
def test_commits_that_are_told_or_clean_or_not_known(script, state, said, monkeypatch):
    monkeypatch.setattr(provenance, "git_state", lambda: state)
    assert script.commit() == said


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("implementation", ["kernel", "bmm"])
def test_the_configuration_is_one_of_the_kernels(script, device, implementation):
    task = dict(zip(script.TASK_COLUMNS, ("2,64,64,4", 1024, "float32", "batch_last", implementation), strict=True))
    found = script.configuration_of(task, device)
    if device == "cpu" or implementation == "bmm":
        assert found == ""
        return
    kernel, problem = get_implementation(implementation), script.problem_of(task, device)
    inputs = script.make_inputs(problem, seed=0)
    assert found in kernel.configurations(kernel.pack(inputs.weight, problem.layout), inputs.x)


def test_the_patterns_are_among_those_whose_times_are_published(script):
    sample = {str(pattern) for pattern in stratified_sample(benchmark_patterns(), 124)}
    assert sample.issuperset(script.PATTERNS)
