"""A shared file system on which a file is seen seconds after it was written: the profile waits for it."""

import subprocess
import sys

import yaml

from tests.workflow.conftest import ROOT

PROFILE = ROOT / "profiles" / "default"
RULES = """
rule late:
    output:
        "late.txt",
    shell:
        "(sleep 5; touch {output:q}) < /dev/null > /dev/null 2>&1 &"
"""


def test_a_file_that_is_seen_late_is_waited_for(tmp_path):
    assert yaml.safe_load((PROFILE / "config.yaml").read_text())["latency-wait"] >= 60
    (tmp_path / "Snakefile").write_text(RULES)
    command = [sys.executable, "-m", "snakemake", "--profile", PROFILE, "--directory", tmp_path, "--cores", "1"]
    command += ["--snakefile", tmp_path / "Snakefile"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Waiting at most 60 seconds for missing files" in done.stdout
    assert (tmp_path / "late.txt").exists()
