"""Resuming a run whose records were spoilt and whose clock went back: exactly what is missing is made."""

import json
import os
import subprocess
import sys
import time

import pytest

from ksmm.measure.records import read_record
from ksmm.resume import FILE
from tests.workflow.conftest import run_snakemake

pytestmark = pytest.mark.workflow


def test_one_run_of_resume_mends_what_was_spoilt(copied_run):
    (results,) = (copied_run / "results").iterdir()
    good, spoilt = sorted((results / "time" / "records").glob("*.json"))
    changed = spoilt.stat()
    spoilt.write_text(spoilt.read_text().replace('"status": "ok"', '"status": "OK"', 1))
    os.utime(spoilt, ns=(changed.st_atime_ns, changed.st_mtime_ns))  # nobody sees it by its date
    kept = good.read_bytes(), good.stat().st_mtime_ns
    future = time.time() + 3600  # the clock was set back by an hour after they were written
    for name in ("build.json", "ceilings.json"):
        os.utime(results / name, (future, future))
    targets = [str(path.relative_to(copied_run)) for path in (results / "time.csv", good, spoilt)]
    plain = run_snakemake(copied_run, "--dry-run", targets[1])
    assert "time_patterns" not in plain.stdout  # however old it looks beside what it was made after

    remembered = json.loads((copied_run / FILE).read_text())
    directory = remembered["arguments"].index("--directory")
    remembered["arguments"][directory + 1] = str(copied_run)
    remembered["arguments"] += targets
    (copied_run / FILE).write_text(json.dumps(remembered))
    command = [sys.executable, "-m", "ksmm", "resume", "--directory", str(copied_run)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"record {spoilt} key measurements[0]" in done.stdout
    assert kept == (good.read_bytes(), good.stat().st_mtime_ns)
    assert read_record(spoilt)["job"] == spoilt.stem
    assert len(list((results / "time" / "rejected").glob("*.json"))) == 1
    assert list((results / "time" / "journal").iterdir()) == []
