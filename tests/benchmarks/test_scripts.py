"""The benchmark scripts run, and write a number for every problem."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
import torch

from ksmm.implementations import get_implementation
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from ksmm.table import read_table, write_table
from tests.scripts import BENCHMARKS, ROOT, run_benchmark


@pytest.mark.parametrize(
    ("script", "rows", "last"),
    [
        ("off_grid", 16, "per_operation"),
        ("gradients", 4, "bmm_s"),
        ("cpu_rivals", 2, "speedup"),
        ("chains", 12, "chosen_over_dense"),
        ("gradient_parts", 2, "time_s"),
        ("biases", 2, "over_without"),
        ("kept_weights", 2, "over_without"),
    ],
)
def test_a_number_for_every_problem(script: str, rows: int, last: str) -> None:
    reason = get_implementation("kernel").supports(Problem(Pattern(2, 16, 16, 4), 80, DTYPES["float32"], "batch_last"))
    if reason is not None:
        pytest.skip(reason)
    options = ["--dtype", "float32", "--batches" if script in ("chains", "gradient_parts") else "--batch", "80"]
    options += [] if script == "chains" else ["--patterns", "2,16,16,4"]
    options += ["--rounds", "2"] if script == "cpu_rivals" else ["--device", "cpu", "--max-seconds", "0.002"]
    command = [sys.executable, str(BENCHMARKS / f"{script}.py"), *options]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    table = list(csv.DictReader(io.StringIO(output)))
    assert len(table) == rows
    assert all(float(row[last]) > 0 for row in table)


TINY = ["few_rows", "--device", "cpu", "--dtype", "float32", "--patterns", "2,16,16,4", "--max-seconds", "0.002"]


def two_trees(folder: Path, script: str) -> list[str]:
    """The paths of two trees, "before" and "after", that have a script of the name "own"."""
    for tree in ("before", "after"):
        (folder / tree / "benchmarks").mkdir(parents=True)
        (folder / tree / "benchmarks/own.py").write_text(script)
    return [str(folder / tree) for tree in ("before", "after")]


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cpu"])
def test_two_builds_in_turns() -> None:
    tree = str(ROOT)
    done = run_benchmark("builds_in_turns", tree, tree, "--rounds", "2", "--", *TINY, "--batches", "8", "80")
    assert done.returncode == 0, done.stderr
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["pattern"], row["batch_size"]) for row in table] == [("2,16,16,4", "8"), ("2,16,16,4", "80")]
    for row in table:
        assert 0 < float(row["least"]) <= float(row["most"])
        both = float(row["first_s"]), float(row["second_s"])
        assert float(row["second_over_first"]) == pytest.approx(both[1] / both[0], rel=1e-2)


def test_neither_build_always_comes_first(tmp_path: Path) -> None:
    script = """import pathlib, sys
tree = pathlib.Path(__file__).parents[1].name
with open(sys.argv[1], "a") as order: order.write(tree + " ")
print("pattern,time_s")
print("any,", {"before": 2, "after": 1}[tree])
"""
    trees = two_trees(tmp_path, script)
    done = run_benchmark("builds_in_turns", *trees, "--rounds", "3", "--", "own", str(tmp_path / "order"))
    assert (tmp_path / "order").read_text().split() == ["before", "after", "after", "before", "before", "after"]
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (row["first_s"], row["second_s"], row["second_over_first"]) == ("2", "1", "0.5")


def test_times_in_front_of_that_which_is_compared_may_differ(tmp_path: Path) -> None:
    script = """import pathlib
before = pathlib.Path(__file__).parents[1].name == "before"
print("pattern,chosen,time_s,without_s")
print("any,one,7,2" if before else "any,two,8,1")
"""
    trees = two_trees(tmp_path, script)
    (row,) = csv.DictReader(
        io.StringIO(run_benchmark("builds_in_turns", *trees, "--column", "without_s", "--", "own").stdout)
    )
    assert (row["first_s"], row["second_s"], row["second_over_first"]) == ("2", "1", "0.5")


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--", "no_script"], "no_script.py is not there; name a script of that folder"),
        (["--rounds", "0", "--", *TINY, "--batches", "8"], "argument --rounds: 0 is less than 1"),
        (
            ["--", *TINY, "--batches", "8", "8"],
            "rows of few_rows are the same in pattern, ",
        ),
        (["--column", "layout", "--", *TINY, "--batches", "8"], "column layout of few_rows: could not convert"),
        (["--column", "hours", "--", *TINY, "--batches", "8"], "few_rows has no column hours; name one of pattern, "),
    ],
)
def test_what_builds_in_turns_cannot_compare_is_named(options: list[str], said: str) -> None:
    done = run_benchmark("builds_in_turns", str(ROOT), str(ROOT), *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_host_time_of_every_layer() -> None:
    command = [sys.executable, str(BENCHMARKS / "host_time.py"), "--device", "cpu", "--dtype", "bfloat16"]
    command += ["--calls", "2", "--rounds", "1"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    table = list(csv.DictReader(io.StringIO(output)))
    assert [row["layer"] for row in table][:2] == ["nn.Linear", "KSLinear, one factor"]
    assert len(table) == 5
    assert all(float(row["microseconds"]) > 0 for row in table)


def test_the_times_of_the_tuning_that_ships() -> None:
    command = [sys.executable, str(BENCHMARKS / "tuned_times.py")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    table = list(csv.DictReader(io.StringIO(output)))
    assert {(row["dtype"], row["layout"]) for row in table} == set(itertools.product(DTYPES, LAYOUTS))
    assert all(float(row["best_rival_over_time"]) > 0 for row in table)
    ceilings = json.loads((ROOT / "measurements/nvidia-h200/ceilings.json").read_text())["operations_per_s"]
    for row in table:  # a dtype that the published run did not have has no ceiling
        assert float(row["time_over_roofline"]) > 0 if row["dtype"] in ceilings else row["time_over_roofline"] == ""


PUBLISHED = ROOT / "measurements" / "nvidia-h200"


def test_two_published_runs(tmp_path: Path) -> None:
    table = read_table(PUBLISHED / "time.csv")
    wide = (table.dtype == "float16") & (table.layout == "batch_last") & (table.implementation == "kernel")
    table.loc[wide & (table.c == 384), "median_s"] *= 2
    write_table(table, tmp_path / "time.csv")
    done = run_benchmark("two_runs", PUBLISHED, tmp_path, "--by", "dtype", "c", "--where", "implementation == 'kernel'")
    rows = {(row["dtype"], row["c"]): row for row in csv.DictReader(io.StringIO(done.stdout))}
    in_both_layouts, changed = rows["float16", "384"], rows["float16", "96"]
    assert (in_both_layouts["tenth"], in_both_layouts["ninetieth"]) == ("1", "2")
    assert all(changed[name] == "1" for name in ("median", "tenth", "ninetieth"))
    assert sum(int(row["products"]) for row in rows.values()) > 600


def test_a_published_run_names_configurations() -> None:
    where = "layout == 'batch_last' and dtype == 'float16' and configuration == configuration_before and mebibytes > 64"
    done = run_benchmark("two_runs", PUBLISHED, PUBLISHED, "--by", "implementation", "configuration", "--where", where)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["configuration"] for row in rows if row["implementation"] == "kernel"} >= {"gemm wide 192"}
    assert {row["configuration"] for row in rows if row["implementation"] == "bmm"} == {""}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([PUBLISHED, BENCHMARKS], f"{BENCHMARKS / 'time.csv'} is not there"),
        ([PUBLISHED, PUBLISHED, "--by", "colour"], "not colour"),
        ([PUBLISHED, PUBLISHED, "--where", "colour > 1"], "'colour' is not defined"),
        ([PUBLISHED, PUBLISHED, "--where", "b >"], "invalid syntax"),
        ([PUBLISHED, PUBLISHED, "--where", "(("], "--where '((' is not what pandas' query takes"),
        ([PUBLISHED, PUBLISHED, "--where", "layout"], "--where 'layout' is neither true nor false of a product"),
        ([PUBLISHED, PUBLISHED, "--above", "nan"], "argument --above: nan is not 0 or more seconds"),
    ],
)
def test_runs_that_cannot_be_compared(options: list[object], said: str) -> None:
    done = run_benchmark("two_runs", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_where_the_kernel_is_least_ahead(tmp_path: Path) -> None:
    table = read_table(PUBLISHED / "time.csv")
    problem = (table.pattern == "1,192,192,48") & (table.dtype == "float16") & (table.layout == "batch_last")
    rival = table.implementation.eq("bmm_strided")
    of_kernel = table[problem & (table.implementation == "kernel") & (table.part == "whole")].median_s.item()
    table.loc[problem & rival, "median_s"] = of_kernel / 2  # and no time of a graph, which would count instead
    table.loc[problem, "cuda_graph_median_s"] = float("nan")
    write_table(table, tmp_path / "time.csv")
    done = run_benchmark("least_ahead", tmp_path / "time.csv", "--most", "1")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {(row["dtype"], row["layout"]) for row in rows} == set(itertools.product(DTYPES, LAYOUTS))
    asked = {"dtype": "float16", "layout": "batch_last", "in_graphs": "no"}
    first = next(row for row in rows if row.items() >= asked.items())
    assert (first["pattern"], first["rival"], first["rival_over_ours"]) == ("1,192,192,48", "bmm_strided", "0.5")
    assert all(float(row["rival_over_ours"]) > 0 for row in rows)


def test_what_has_no_rivals_to_compare_is_named(tmp_path: Path) -> None:
    table = read_table(PUBLISHED / "time.csv")
    write_table(table[table.implementation != "kernel"], tmp_path / "time.csv")
    several = pandas.concat([table, table.assign(batch_size=8)])
    write_table(several, tmp_path / "several.csv")
    for file, said in (
        ("absent.csv", "No such file"),
        ("time.csv", "kernel has no time in"),
        ("several.csv", "more than one batch_size: 25088, 8"),
    ):
        done = run_benchmark("least_ahead", tmp_path / file)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_register_banks_of_multiply_adds(tmp_path: Path) -> None:
    code = tmp_path / "code.sass"
    code.write_text(
        """.text.first:
        /*0000*/                   FFMA R8, R1.reuse, R2, R8 ;
        /*0010*/                   FFMA R9, R1.reuse, R4, R9 ;
        /*0020*/                   FADD R4, R4, R6 ;
        /*0030*/                   FFMA R10, R1, R4.reuse, R10 ;
        /*0040*/                   FFMA.FTZ R12, RZ, R4, 1 ;
.text.second:
        /*0000*/                   FFMA R12, RZ, R4, R12 ;
"""
    )
    command = [sys.executable, str(BENCHMARKS / "register_banks.py"), str(code)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first, second = csv.DictReader(io.StringIO(output))
    # 1, 2, 8: two banks, 2 cycles; 4, 9; 4, 10: one bank, 2 cycles; nothing that is not there yet
    assert first == {
        "kernel": "first",
        "multiply_adds": "4",
        "registers_read": "1.75",
        "cycles": "1.50",
        "one_bank": "25.0",
    }
    assert second["registers_read"] == "2.00", "nothing is kept from one function to the next"
    assert second["one_bank"] == "100.0"


def test_the_model_of_truncated_sums_errs_as_the_device_does() -> None:
    command = [sys.executable, str(BENCHMARKS / "truncated_sums.py"), "--rows", "2000", "--c", "48"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {
        (row["operands"], row["fresh"]): float(row["error_over_strict"])
        for row in csv.DictReader(io.StringIO(output))
        if row["way"] == "as it is"
    }
    # what three parts erred before their tiles were multiplied again
    assert 1.05 < found["both 10^±15", "16"] < 1.3 and 1.05 < found["both 10^±15", "32"] < 1.4
    assert found["both 10^±5", "16"] < 1 and found["both 10^±5", "32"] < 1
    # of a GPU 0.94, and 1.03 to 1.05, before such sums got shorter
    assert found["X 10^±15", "16"] < 0.97 < found["X 10^±15", "32"] < 1.1
    wrong = subprocess.run([*command[:2], "--c", "40"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "multiples of 16" in wrong.stderr


FEW_ROWS = """pattern,batch_size,dtype,layout,configuration,chosen,time_s
"1,48,48,2",77,float16,batch_first,one,True,3e-06
"1,48,48,2",77,float16,batch_first,other,False,2e-06
"1,64,64,3",77,float16,batch_first,one,True,2e-06
"1,64,64,3",512,float16,batch_first,other,True,2e-06
"""


def test_the_cost_models_choice_against_what_few_rows_measured(tmp_path: Path) -> None:
    program, measured = tmp_path / "program", tmp_path / "few_rows.csv"
    measured.write_text(FEW_ROWS)
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "assert sys.argv[1:4] == ['nvidia-h200', 'float16', 'batch_first'] and sys.argv[4] in ('77', '512')\n"
        "for pattern in sys.argv[5:]: print(pattern, 'one', '1.0', 'other', '2.0', sep='\\t')\n"
    )
    program.chmod(0o755)
    command = [sys.executable, str(BENCHMARKS / "cost_model.py"), str(program), "--measured", str(measured)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first, second = csv.DictReader(io.StringIO(output))
    assert (first["batch_size"], first["problems"], first["known"]) == ("77", "2", "2")
    assert (first["mean"], first["most"]) == ("1.250", "1.50")
    assert (second["batch_size"], second["problems"], second["known"], second["mean"]) == ("512", "1", "0", "")


@pytest.mark.parametrize("following", ["same", "others", "chain"])
def test_what_the_products_in_a_row_multiply(following: str, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    one_after_another = importlib.import_module("few_rows").one_after_another
    taken, made = [], []

    def multiply(x: torch.Tensor) -> torch.Tensor:
        taken.append(x), made.append(x + 1)
        return made[-1]

    x = torch.zeros(3)
    run, count = one_after_another(multiply, x, following)
    run()
    assert len(taken) == count
    assert taken[0] is x
    if following == "chain":
        assert all(after is before for after, before in zip(taken[1:], made[:-1], strict=True))
    else:
        assert len({of.data_ptr() for of in taken}) == count
        assert all(torch.equal(of, x) for of in taken)


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("following", ["others", "chain"])
def test_a_time_of_products_with_other_x(following: str) -> None:
    command = [sys.executable, str(BENCHMARKS / "few_rows.py"), *TINY[1:], "--batches", "8", "--x", following]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (row,) = csv.DictReader(io.StringIO(output))
    assert float(row["time_s"]) > 0


@pytest.mark.usefixtures("kernel_library")
@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--configurations", "no such tile"], "none of these problems has a configuration named no such tile"),
        (["--rounds", "0"], "argument --rounds: 0 is less than 1"),
        (["--patterns", "2,16,8,4", "--x", "chain"], "--x chain is for b = c, not 2,16,8,4"),
    ],
)
def test_what_few_rows_cannot_measure_is_named(options: list[str], said: str) -> None:
    command = [sys.executable, str(BENCHMARKS / "few_rows.py"), *TINY[1:], "--batches", "8", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_that_writes_nothing_has_no_column(tmp_path: Path) -> None:
    done = run_benchmark("builds_in_turns", *two_trees(tmp_path, ""), "--", "own")
    assert done.returncode == 2
    assert "own has no column time_s; name one of none with --column" in done.stderr
