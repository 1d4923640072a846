"""The target `tune`: a tuning file and its comparison, kept when it is stopped."""

import csv
import json

import pytest
import yaml

from ksmm import build
from ksmm.tuning import read_tuning
from tests.workflow.conftest import TEST_CONFIG, run_snakemake

pytestmark = pytest.mark.workflow


def test_the_target_tune(tmp_path):
    if build.reason_missing() is not None:
        pytest.skip("the kernel library is not built")
    done = run_snakemake(tmp_path, "tune")
    assert done.returncode == 0, done.stdout
    (results,) = (tmp_path / "results").iterdir()
    config = yaml.safe_load(TEST_CONFIG.read_text())
    entries = read_tuning(results / "tuning.json").entries
    patterns = {",".join(map(str, entry.pattern)) for entry in entries}
    assert patterns == set(config["cpu"]["patterns"]["explicit"])
    assert {(entry.batch_size, entry.layout) for entry in entries} == {(16, layout) for layout in config["layouts"]}
    with (results / "tuned_against_untuned.csv").open(newline="") as file:
        assert [(row["layout"], row["problems"]) for row in csv.DictReader(file)] == [
            ("batch_first", "4"),
            ("batch_last", "4"),
        ]
    journal = results / "tuning" / "measured.json"
    tuned = json.loads(journal.read_text())
    tuned["entries"] = tuned["entries"][1:]
    journal.write_text(json.dumps(tuned))
    (results / "tuning.json").unlink()
    again = run_snakemake(tmp_path, "tune")
    assert again.returncode == 0, again.stdout
    assert "measured=1, known=7" in (results / "logs" / "tune_kernel.log").read_text()
