"""Arguments with which the benchmark scripts cannot measure: each is named, in one line."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.scripts import run_benchmark


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("script", ["small_problems", "tf32"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rounds", "0"], "argument --rounds: 0 is less than 1"),
        (["--max-seconds", "0"], "argument --max-seconds: 0 is not above 0"),
        (["--patterns", "2,16,16"], "argument --patterns: pattern '2,16,16' is not four integers"),
    ],
)
def test_what_cannot_be_compared_side_by_side_is_named(script: str, options: list[str], said: str) -> None:
    done = run_benchmark(script, "--device", "cpu", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


ON_A_DEVICE = (
    "biases",
    "chains",
    "few_rows",
    "gradient_parts",
    "gradients",
    "kept_weights",
    "off_grid",
    "small_problems",
    "tf32",
)
"""Those whose option --device is cuda unless it is given."""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("script", ON_A_DEVICE)
def test_a_device_that_is_not_there_is_named(script: str) -> None:
    done = run_benchmark(script)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "argument --device: PyTorch sees no CUDA device here; measure on the CPU with --device cpu"
    )


@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        ("host_time", ["--device", "cpu", "--calls", "0"], "argument --calls: 0 is less than 1"),
        ("host_time", ["--device", "cpu", "--rows", "-1"], "argument --rows: -1 is less than 1"),
        ("host_time", ["--device", "cpu", "--rounds", "many"], "argument --rounds: 'many' is not an integer"),
        ("gradients", ["--device", "cpu", "--max-seconds", "nan"], "argument --max-seconds: nan is not above 0"),
        ("biases", ["--device", "cpu", "--max-seconds", "inf"], "inf is not a finite number of seconds"),
        ("biases", ["--device", "cpu", "--batch", "0"], "argument --batch: 0 is less than 1"),
        ("gradient_parts", ["--device", "cpu", "--parts", "-5"], "argument --parts: -5 is less than -1"),
        ("off_grid", ["--device", "cpu", "--implementation", "bmm_strided"], "bmm_strided does not take 4,64,64,16"),
        ("cpu_rivals", ["--sample", "0"], "argument --sample: 0 is less than 1"),
        ("cpu_rivals", ["--largest", "1"], "no pattern of the benchmark is as small as --largest 1"),
        ("truncated_sums", ["--rows", "0"], "argument --rows: 0 is less than 1"),
        ("least_ahead", ["time.csv", "--most", "-1"], "argument --most: -1 is less than 0"),
        ("cost_model", ["/nope"], "argument program: /nope is no program; compile it from cost_model.cu"),
        ("cost_model", [sys.executable, "--measured", "/nope"], "No such file or directory: '/nope'"),
        ("cost_model", [sys.executable], "failed (2): "),
        ("register_banks", ["/nope"], "/nope is not code as nvdisasm writes it: "),
        ("builds_in_turns", [], "the following arguments are required: first, second, script"),
        ("tuned_times", ["--of", "everything"], "unrecognized arguments: --of everything"),
    ],
)
def test_a_wrong_argument_is_named(script: str, options: list[str], said: str) -> None:
    done = run_benchmark(script, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("\n") <= 1, "no number is written"
