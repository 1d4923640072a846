"""The whole pipeline on workflow/config/test.yaml, and what a second run, a changed config or a bad record does."""

import csv
import json
import re
from pathlib import Path

import pytest
import yaml

import ksmm
from ksmm.energy_table import read_energy_table
from ksmm.measure.energy_counter import reason_absent
from ksmm.measure.records import read_record
from ksmm.networks.table import read_networks_table
from ksmm.table import read_table
from tests.workflow.conftest import ROOT, TEST_CONFIG, run_snakemake

pytestmark = pytest.mark.workflow


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_record_is_valid_and_the_journal_is_empty(finished_run):
    results, _ = finished_run
    records = sorted((results / "time" / "records").glob("*.json"))
    assert [path.stem for path in records] == ["1x48x48x1-to-1x64x16x2", "2x16x64x3-to-3x24x24x4"]
    for path in records:
        assert read_record(path)["job"] == path.stem
    assert list((results / "time" / "journal").iterdir()) == []
    assert rows(results / "rejected.csv") == []


def test_ceilings_are_tried_for_as_long_as_the_config_says(finished_run):
    ceilings = json.loads((finished_run[0] / "ceilings.json").read_text())
    assert ceilings["seconds_per_ceiling"] == yaml.safe_load(TEST_CONFIG.read_text())["seconds_per_ceiling"] != 1.0


def test_the_energy_of_every_problem_is_measured_or_skipped_with_the_reason(finished_run):
    results, _ = finished_run
    for path in (results / "energy" / "records").glob("*.json"):
        assert read_record(path)["job"] == path.stem
    energy = yaml.safe_load(TEST_CONFIG.read_text())["energy"]
    table = read_energy_table(results / "energy.csv")
    patterns = energy["cpu"]["patterns"]["explicit"]
    assert len(table) == len(patterns) * 2 * len(energy["implementations"])
    assert set(table.pattern) == set(patterns)
    measured = table.status == "ok"
    assert (table[measured].energy_j > 0).all()
    reason = reason_absent("cpu")
    if reason is not None:
        assert set(table.reason) == {reason}
        left_out = {row["name"]: row["reason"] for row in rows(results / "left_out.csv")}
        assert left_out["fig07_energy"] == f"no energy was measured (skipped: {reason})"


def test_the_table_has_one_row_per_measurement(finished_run):
    config = yaml.safe_load(TEST_CONFIG.read_text())
    table = read_table(finished_run[0] / "time.csv")
    parts = [(name, "whole") for name in ksmm.implementations()] + [("bmm", "multiplication")]
    expected = {
        (pattern, layout, *part)
        for pattern in config["cpu"]["patterns"]["explicit"]
        for layout in config["layouts"]
        for part in parts
    }
    found = list(zip(table["pattern"], table["layout"], table["implementation"], table["part"], strict=True))
    assert len(found) == len(expected)
    assert set(found) == expected
    assert set(table["batch_size"]) == {16}
    assert set(table["dtype"]) == {"float32"}
    missing = table[~table["status"].isin(["ok", "skipped"])]
    assert missing.empty, missing[["pattern", "layout", "implementation", "status", "reason"]].to_string()
    measured = table[table["status"] == "ok"]
    assert (measured["median_s"] > 0).all()
    assert (measured["relative_error"] <= measured["tolerance"]).all()
    assert (measured["roofline_s"] > 0).all()
    assert table[table["status"] != "ok"]["reason"].str.len().gt(0).all()


def test_networks_are_measured_and_profiled(finished_run):
    results, _ = finished_run
    table = read_networks_table(results / "networks.csv")
    assert set(table["network"]) == {"vit_tiny"}
    assert set(table["implementation"]) == {"fully_connected", "kernel", "bmm"}
    missing = table[~table["status"].isin(["ok", "skipped"])]
    assert missing.empty, missing[["part", "mode", "implementation", "status", "reason"]].to_string()
    measured = table[table["status"] == "ok"]
    assert len(measured) >= 18 and (measured["relative_error"] <= measured["tolerance"]).all()
    assert list((results / "networks" / "journal").iterdir()) == []
    profile = rows(results / "networks_profile.csv")
    assert {row["network"] for row in profile} == {"vit_tiny", "gpt2_tiny"}
    profiled = [row for row in profile if row["status"] == "ok"]
    networks = {(row["network"], row["chains"], row["implementation"]) for row in profiled}
    assert sum(float(row["share"]) for row in profiled) == pytest.approx(len(networks), rel=1e-3)


def test_every_figure_and_table_is_drawn_or_left_out_with_a_reason(finished_run):
    results, _ = finished_run
    plan = json.loads((results / "figures.json").read_text())
    left_out = {row["name"]: row["reason"] for row in rows(results / "left_out.csv")}
    for name in yaml.safe_load(TEST_CONFIG.read_text())["figures"]:
        entry = plan[name]
        folder, endings = ("figures", ("pdf", "png", "csv")) if entry["kind"] == "figure" else ("tables", ("csv", "md"))
        files = [results / folder / f"{name}.{ending}" for ending in endings]
        assert all(file.exists() and file.stat().st_size > 0 for file in files) != bool(left_out.get(name)), name
    assert any("float16" in reason for reason in left_out.values())
    assert not [reason for reason in left_out.values() if "cannot be used" in reason]  # what a script that raises gets


def test_every_notebook_is_executed(finished_run):
    results, _ = finished_run
    for notebook in ROOT.glob("notebooks/*.ipynb"):
        executed = json.loads((results / "notebooks" / f"{notebook.stem}-float32.ipynb").read_text())
        cells = [cell for cell in executed["cells"] if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in cells)
        assert (results / "notebooks" / f"{notebook.stem}-float32.html").exists()


def test_a_notebook_is_made_of_the_code_that_it_imports(finished_run):
    done = run_snakemake(finished_run[0].parent.parent, "--detailed-summary")
    for notebook in ROOT.glob("notebooks/*.ipynb"):
        imported = re.findall(r"^ +\"(?:import|from) (\w+)", notebook.read_text(), re.MULTILINE)
        ours = {name for name in imported if (ROOT / "figures" / f"{name}.py").exists()}
        (line,) = [line for line in done.stdout.splitlines() if f"notebooks/{notebook.stem}-float32.ipynb\t" in line]
        assert ours and ours <= set(re.findall(r"figures/(\w+)\.py", line))


OF_STUDIES = [f"{study}/{name}.csv" for study in ("energy", "networks") for name in ("rejected", "wrong")]


def test_the_report_is_one_page_with_everything_and_the_reasons_for_what_is_not_there(finished_run):
    results, _ = finished_run
    page = (results / "report.html").read_text()
    plan = json.loads((results / "figures.json").read_text())
    front = page[page.index("workflow_desc = ") : page.index("</script>", page.index("workflow_desc = "))]
    for name in yaml.safe_load(TEST_CONFIG.read_text())["figures"]:
        assert name in (front if plan[name]["missing"] else page)
    for file in ("time.csv", "energy.csv", "left_out.csv", "rejected.csv", "wrong.csv", *OF_STUDIES):
        assert f'"results/{results.name}/{file}": {{' in page
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(http[^"]*)"', page)
    assert loaded == []


def test_the_run_says_how_far_it_is_and_where_everything_is(finished_run):
    results, done = finished_run
    assert "job 1 of 2" in done.stdout
    assert re.search(r"job 2 of 2 \(.*\), about \d+ (s|min) left", done.stdout)
    for place in ("figures/", "tables/", "time.csv", "report.html"):
        assert f"results/{results.name}/{place}" in done.stdout


def test_a_second_run_does_nothing(finished_run):
    done = run_snakemake(finished_run[0].parent.parent)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout


def test_one_pattern_a_job_and_a_changed_protocol_measure_again(finished_run):
    folder = finished_run[0].parent.parent
    done = run_snakemake(folder, "--dry-run", config={"patterns_per_job": 1})
    assert re.search(r"time_patterns +4\b", done.stdout)
    done = run_snakemake(folder, "--dry-run", config={"protocol": {"max_samples": 7}})
    assert re.search(r"time_patterns +2\b", done.stdout)
    assert "energy_patterns" not in done.stdout  # which are not sampled so
    assert not re.search(r"(build_kernel|measure_networks) +1\b", done.stdout)
    done = run_snakemake(folder, "--dry-run", config={"networks": {"subjects": ["llama"]}})
    assert re.search(r"measure_networks +1\b", done.stdout)
    assert not re.search(r"time_patterns +\d", done.stdout)


def test_another_number_of_threads_measures_again(finished_run):
    done = run_snakemake(finished_run[0].parent.parent, "--dry-run", "--cores", "1")
    for rule in ("time_patterns +2", "measure_ceilings +1", "energy_patterns +[1-9]", "measure_networks +1"):
        assert re.search(rf"{rule}\b", done.stdout), rule


def test_a_changed_kernel_is_measured_in_the_call_that_builds_it(copied_run):
    (record,) = copied_run.glob("results/*/build.json")
    content = json.loads(record.read_text())
    for source_hash, measures in ((content["source_hash"], False), ("0123456789abcdef", True)):
        record.write_text(json.dumps({**content, "source_hash": source_hash}))
        done = run_snakemake(copied_run, "--forcerun", "build_kernel", "--dry-run")
        assert re.search(r"build_kernel +1\b", done.stdout), done.stdout
        for rule in ("time_patterns", "energy_patterns", "measure_networks", "profile_networks"):
            assert bool(re.search(rf"{rule} +\d", done.stdout)) == measures, rule


def test_a_changed_config_measures_only_what_is_new(copied_run):
    (results,) = (copied_run / "results").iterdir()
    record = results / "time" / "records" / "1x48x48x1-to-1x64x16x2.json"
    before = read_record(record)
    names = ["bmm", "einsum"]
    config = {"implementations": names, "cpu": {"dtypes": ["float32", "bfloat16"]}}
    done = run_snakemake(copied_run, str(record.relative_to(copied_run)), config=config)
    assert done.returncode == 0, done.stdout
    assert f"12 of 24 measurements are of earlier records, results/{results.name}/time/earlier/*/" in done.stdout
    old, new = [
        [m for m in content["measurements"] if m["dtype"] == "float32" and m["implementation"] in names]
        for content in (before, read_record(record))
    ]
    assert new == old
    (kept,) = results.glob(f"time/earlier/*/{record.name}")
    assert read_record(kept) == before


def test_a_bad_record_is_named_set_aside_and_measured_again(copied_run):
    device = next((copied_run / "results").iterdir()).name
    results = copied_run / "results" / device
    record = results / "time" / "records" / "1x48x48x1-to-1x64x16x2.json"
    whole = record.read_bytes()
    record.write_bytes(whole[: len(whole) // 2])
    target = f"results/{device}/time.csv"
    done = run_snakemake(copied_run, target)
    assert done.returncode == 0, done.stdout
    assert record.stem in done.stdout.split("records set aside:")[1]
    assert not record.exists()
    (row,) = rows(results / "rejected.csv")
    assert row["record"].startswith(record.stem)
    assert record.name in row["reason"]
    assert (results / "time" / "rejected" / row["record"]).read_bytes() == whole[: len(whole) // 2]
    assert len(rows(results / "time.csv")) == 2 * 2 * (len(ksmm.implementations()) + 1)
    done = run_snakemake(copied_run, "--dry-run")
    assert re.search(r"time_patterns +1\b", done.stdout)
    assert re.search(r"aggregate +1\b", done.stdout)
