"""Of two that resume a run only one goes on, and the notes on a run that lives are not overwritten."""

import json
import subprocess
import sys
import textwrap

import pytest

from ksmm import resume
from tests.workflow.conftest import ROOT

HOLDER = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    from ksmm.resume import resume_alone
    resume_alone(Path("."))
    os.execv(sys.executable, [sys.executable, "-c", "print('held', flush=True); input()"])
    """
)

REMEMBER = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from run_command import remember
    remember([sys.argv[2]], Path("results"), None)
    print("remembered", flush=True)
    input()
    """
)


def started(folder, *command: str) -> subprocess.Popen:
    """A process that has said its first word, and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", *command], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    return process


def test_the_lock_lasts_as_long_as_the_process_whatever_it_becomes(tmp_path):
    (tmp_path / ".snakemake").mkdir()
    process = started(tmp_path, HOLDER)
    try:
        with pytest.raises(resume.ResumeError, match="is being resumed by another process"):
            resume.resume_alone(tmp_path)
    finally:
        process.communicate("\n")
    resume.resume_alone(tmp_path)


def test_a_run_beside_one_that_lives_leaves_its_notes_alone(tmp_path):
    first = started(tmp_path, REMEMBER, str(ROOT / "workflow"), "first")
    try:
        started(tmp_path, REMEMBER, str(ROOT / "workflow"), "second").communicate("\n")
        run = resume.read_run(tmp_path)
        assert run["arguments"] == ["first"]
        with pytest.raises(resume.ResumeError, match="the run still runs"):
            resume.refuse_living(tmp_path, run, elsewhere=False)
    finally:
        first.communicate("\n")
    resume.refuse_living(tmp_path, run, elsewhere=False)
    started(tmp_path, REMEMBER, str(ROOT / "workflow"), "third").communicate("\n")
    assert json.loads((tmp_path / resume.FILE).read_text())["arguments"] == ["third"]
