import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ksmm import build, cli
from ksmm.implementations import implementations
from ksmm.measure.ceilings_file import Ceilings
from ksmm.measure.lock import device_lock
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from ksmm.time_report import aligned, spoken_seconds, time_report
from ksmm.toolchain import BuildError
from tests.measure.sample_records import measurement, untimed


@pytest.fixture(autouse=True)
def _quick_ceilings(monkeypatch):
    rates = {"float32": 1e11, "float16": 1e11, "bfloat16": 1e11}
    monkeypatch.setattr(cli, "quick_ceilings", lambda *arguments, **more: Ceilings("cpu-x86_64", 1e10, rates))


def run(line: str) -> int:
    return cli.main(line.split())


def test_time_prints_one_table(capsys):
    status = run("time 1,16,8,2 --layout batch_last --batch 64 --device cpu --max-seconds 0.02")
    printed = capsys.readouterr().out
    assert status == 0
    assert printed.startswith("1,16,8,2  float32  batch_last  batch 64  on ")
    assert "roofline" in printed.splitlines()[1]
    table = [line.split() for line in printed.splitlines()[3:]]
    assert {row[0] for row in table if row} >= set(implementations())
    best = table[1]
    assert best[0] in implementations()
    assert "1.00" in best


def test_only_the_implementations_asked_for(capsys):
    run("time 1,16,8,2 --batch 64 --device cpu --max-seconds 0.02 --implementations bmm,bmm_strided")
    printed = capsys.readouterr().out
    assert "bmm_strided  skipped: batch_first with d = 2" in printed
    assert "einsum" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("time 1,192,48", "pattern '1,192,48' is not four integers separated by commas; write it as a,b,c,d"),
        ("time 1,192,48,0", "pattern entry d is 0; it must be at least 1"),
        ("time 1,2,3,4 --layout last", "unknown layout 'last'; choose one of batch_first, batch_last"),
        ("time 1,2,3,4 --dtype half", "unknown dtype 'half'; choose one of float32, float16, bfloat16"),
        ("time 1,2,3,4 --implementations bmm,bnm", "unknown implementation 'bnm'; choose one of bmm, "),
        ("time 1,2,3,4 --implementations auto", "unknown implementation 'auto'; choose one of bmm, "),
        ("time 1,2,3,4 --batch 0", "batch size is 0; it must be at least 1"),
        ("time 1,2,3,4 --batch -5", "batch size is -5; it must be at least 1"),
        ("time 1,2,3,4 --batch many", "argument --batch: invalid int value: 'many'"),
        ("time 1,2,3,4 --max-seconds 0", "protocol key max_seconds is 0.0; it must be a positive number"),
        ("time 1,2,3,4 --device gpu", "unknown device 'gpu'; choose one of cpu, cuda, auto"),
        ("time", "the following arguments are required: pattern"),
        ("tube", "invalid choice: 'tube'"),
        ("tune 1,2,3", "pattern '1,2,3' is not four integers"),
        ("tune --list paper", "argument --list: invalid choice: 'paper'"),
        ("tune --sample 0", "a sample of 0 patterns was asked for; it must be at least 1"),
        ("tune 1,2,3,4 --batch 1,x", "--batch is '1,x'; write integers separated by commas, such as 1,196,25088"),
        ("tune 1,2,3,4 --max-seconds nan", "argument --max-seconds: nan is not 0 or more seconds"),
        ("tune 1,2,3,4 --max-seconds -1", "argument --max-seconds: -1 is not 0 or more seconds"),
        ("tune 1,2,3,4 --batch 0", "batch size is 0; it must be at least 1"),
        ("tune 1,2,3,4 --dtypes half", "unknown dtype 'half'; choose one of float32, float16, bfloat16"),
        ("tune 1,2,3,4 --layouts last", "unknown layout 'last'; choose one of batch_first, batch_last"),
        ("tune 1,2,3,4 --precisions tf32", "unknown precision 'tf32'; choose among compensated, strict"),
        ("", "the following arguments are required: command"),
        ("info --device tpu", "unknown device 'tpu'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, capsys):
    try:
        status = cli.main(arguments.split())
    except SystemExit as stop:  # argparse's way
        status = stop.code
    printed = capsys.readouterr()
    assert status == 2
    assert message in printed.err
    assert "auto" not in message or "or auto" not in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("command", ["time 1,2,3,4", "info"])
def test_cuda_asked_for_and_absent(command, capsys):
    assert cli.main([*command.split(), "--device", "cuda"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "a CUDA device was asked for, but PyTorch sees none" in error


def test_tuning_without_a_home_asks_for_a_file(monkeypatch, capsys):
    monkeypatch.setattr(cli, "user_file", lambda slug: None)
    assert run("tune 1,4,4,1 --device cpu") == 2
    assert "there is no home directory to keep the times in; name a file with --output" in capsys.readouterr().err


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "ksmm", "time", "nonsense"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("python -m ksmm: pattern 'nonsense' is not four integers")
    assert "Traceback" not in run.stderr


def test_a_message_of_several_lines_is_one_line(tmp_path, capsys):
    (tmp_path / "ragged.csv").write_text("a,b,c\n1,2,3\n1,2,3,4,5\n")
    assert cli.main(["import-upstream", str(tmp_path / "ragged.csv"), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "Expected 3 fields in line 3, saw 5" in error
    assert error.count("\n") == 1


def test_a_measurement_is_not_lost_where_it_cannot_be_written_as_it_is():
    command = [sys.executable, "-m", "ksmm", "time", "1,4,4,1", "--batch", "8", "--device", "cpu"]
    command += ["--max-seconds", "0.01", "--implementations", "bmm"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"roofline [0-9.e-]+ us ", done.stdout)
    assert done.stdout.isascii()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.skipif(build.reason_missing() is not None, reason="the kernel library is not built")
def test_info_says_that_this_cpu_has_not_the_variant_that_is_asked_for():
    if "amx_tile" in Path("/proc/cpuinfo").read_text():
        pytest.skip("this CPU has AMX")
    environment = {**os.environ, "KSMM_CPU_VARIANT": "amx"}
    command = [sys.executable, "-m", "ksmm", "info", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "KSMM_CPU_VARIANT is 'amx', which this machine cannot run; unset it" in done.stdout


def test_info_says_for_every_implementation_yes_or_why_not(capsys):
    assert cli.main(["info", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert torch.__version__ in printed
    for name in implementations():
        (row,) = (line for line in printed.split("\n\n")[1].splitlines() if line.split()[:1] == [name])
        assert row.count("yes") + row.count("no (") == 6
    assert "(1) batch_first with d = 2" in printed


def test_build_hands_over_the_record(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(build, "main", lambda record: called.append(record) or 0)
    assert cli.main(["build", "--record", str(tmp_path / "build.json")]) == 0
    assert cli.main(["build"]) == 0
    assert called == [tmp_path / "build.json", None]


def test_a_build_that_fails_says_so(monkeypatch, capsys):
    def fail(record):
        raise BuildError("no compiler")

    monkeypatch.setattr(build, "main", fail)
    assert cli.main(["build"]) == 1
    assert capsys.readouterr().err == "no compiler\n"


def test_a_build_without_a_compiler_fails_unless_a_record_says_so(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("KSMM_BUILD_DIRECTORY", str(tmp_path / "empty"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cli.main(["build"]) == 1
    assert "the kernel library cannot be built: no C++ compiler found" in caplog.text
    assert cli.main(["build", "--record", str(tmp_path / "build.json")]) == 0
    assert json.loads((tmp_path / "build.json").read_text())["library"] is None


def test_time_waits_for_the_device(capsys):
    code = "import sys; from ksmm.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = "time 1,4,4,1 --batch 8 --device cpu --implementations bmm"
    command = [sys.executable, "-c", code, *arguments.split()]
    with device_lock("cpu"):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert process.stderr.readline().startswith("waiting for cpu (held by process ")
        assert process.poll() is None
        process.terminate()
        process.communicate(timeout=600)


PROBLEM = Problem(Pattern(1, 192, 48, 2), 25088, torch.float32, "batch_first")


def test_the_report_puts_the_fastest_first():
    measurements = [
        measurement(implementation="slow", median_s=4e-3, protocol_met=True),
        measurement(implementation="quick", median_s=2e-3, iqr_s=2e-5, relative_error=1.26e-7),
        untimed("out_of_memory", "needs about 64.0 GiB", implementation="large"),
    ]
    report = time_report(PROBLEM, measurements, Ceilings("x", 1e11, {"float32": 1e12}))
    lines = report.splitlines()
    assert lines[4].split() == ["quick", "2", "ms*", "1.0%", "1.00", "46.2%", "1.3e-07"]
    assert lines[5].split()[:4] == ["slow", "4", "ms", "2.5%"]
    assert lines[5].split()[4] == "2.00"
    assert "large  out_of_memory: needs about 64.0 GiB" in lines
    assert lines[-1].startswith("* fewer samples or runs")


def test_the_report_has_a_column_for_cuda_graphs_where_there_are_any():
    measurements = [
        measurement(implementation="a", median_s=2e-5, cuda_graph_samples_s=(1e-5, 1e-5)),
        measurement(implementation="b", median_s=6e-5),
    ]
    lines = time_report(PROBLEM, measurements, Ceilings("x", 1e11, {"float32": 1e12})).splitlines()
    assert lines[3].endswith("CUDA graph")
    assert lines[4].endswith("10 µs")


def test_the_report_of_nothing():
    report = time_report(PROBLEM, [untimed()], Ceilings("x", 1e11, {"float32": 1e12}))
    assert "nothing could be timed" in report


@pytest.mark.parametrize(("seconds", "spoken"), [(2.0, "2 s"), (1.23456e-3, "1.235 ms"), (5e-6, "5 µs")])
def test_seconds_are_spoken_in_the_unit_that_suits(seconds, spoken):
    assert spoken_seconds(seconds) == spoken


def test_columns_are_aligned():
    assert aligned([["a", "1"], ["long", "100"]]) == ["a       1", "long  100"]


def test_what_is_wrong_or_failed_shows_in_the_exit_status(monkeypatch):
    monkeypatch.setattr(cli.Bench, "measure", lambda self, implementation: untimed("wrong", "x"))
    assert run("time 1,4,4,1 --batch 8 --device cpu") == 1


def test_the_record_of_a_build_is_json(tmp_path):
    if build.reason_missing() is not None:
        pytest.skip("the kernel library is not built")
    assert cli.main(["build", "--record", str(tmp_path / "build.json")]) == 0
    assert json.loads((tmp_path / "build.json").read_text())["source_hash"] == build.source_hash()
