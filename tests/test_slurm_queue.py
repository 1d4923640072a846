"""Cancelling what a dead run has left in Slurm's queue, with a squeue and a scancel that are pretended."""

import os

import pytest

from ksmm import slurm_queue
from ksmm.slurm_queue import QueueError, cancel_jobs, run_names

NAME = "3f6d2a60-8a40-4d34-9d3c-1f6f0b6d1c11"

# The queue is a folder with one file per job, named by its number and holding its name.
SQUEUE = """#!/bin/sh
echo "squeue $*" >> calls
[ -e down ] && { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
for argument in "$@"; do case "$argument" in --name=*) names=",${argument#--name=},";; esac; done
for job in queue/*; do
  [ -e "$job" ] || continue
  case "$names" in *",$(cat "$job"),"*) basename "$job";; esac
done
"""
SCANCEL = """#!/bin/sh
echo "scancel $*" >> calls
[ -e stubborn ] || for job in "$@"; do rm queue/"$job"; done
"""


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """The folder of the queue, which is the working directory's."""
    for name, script in {"squeue": SQUEUE, "scancel": SCANCEL}.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(slurm_queue, "_POLL_S", 0.01)
    (tmp_path / "queue").mkdir()
    for number, name in {"101": NAME, "102": NAME, "103": "somebody-elses", "104": f"ksmm_{NAME}"}.items():
        (tmp_path / "queue" / number).write_text(name)
    return tmp_path / "queue"


def test_the_names_are_those_that_the_plugin_says_in_snakemakes_logs(tmp_path):
    (tmp_path / "1.snakemake.log").write_text(f"host: x\nSLURM run ID: {NAME}\nJob 1 has been submitted\n")
    (tmp_path / "2.snakemake.log").write_text(f"SLURM run ID: ksmm_{NAME}\nSLURM run ID: {NAME}\n")
    (tmp_path / "3.snakemake.log").write_bytes(b"no run, and \xff is no UTF-8\n")
    assert run_names(tmp_path) == [NAME, f"ksmm_{NAME}"]
    assert run_names(tmp_path / "nowhere") == []


def test_all_jobs_of_the_runs_are_cancelled_and_no_other(queue):
    assert cancel_jobs([NAME, f"ksmm_{NAME}"]) == ["101", "102", "104"]
    assert [path.name for path in queue.iterdir()] == ["103"]
    calls = (queue.parent / "calls").read_text().splitlines()
    assert calls[0] == f"squeue --me --noheader --format=%i --name={NAME},ksmm_{NAME}"
    assert calls[1] == "scancel 101 102 104"


def test_nothing_is_cancelled_where_nothing_is_left(queue):
    assert cancel_jobs(["an-old-run"]) == []
    assert "scancel" not in (queue.parent / "calls").read_text()


def test_a_run_that_submitted_nothing_does_not_ask_slurm(queue):
    assert cancel_jobs([]) == []
    assert not (queue.parent / "calls").exists()


def test_slurm_that_cannot_be_asked_is_an_error(queue):
    (queue.parent / "down").touch()
    with pytest.raises(QueueError, match=r"squeue failed, so nothing was resumed: .*Unable to contact"):
        cancel_jobs([NAME])


def test_where_there_is_no_slurm_nothing_new_is_submitted_either(queue, monkeypatch, caplog):
    monkeypatch.setenv("PATH", str(queue))
    assert cancel_jobs([NAME]) == []
    assert "without squeue nobody sees here what is left of them" in caplog.text


def test_jobs_that_do_not_end_are_named(queue, monkeypatch):
    (queue.parent / "stubborn").touch()
    monkeypatch.setattr(slurm_queue, "_MOST_SECONDS", 0.05)
    with pytest.raises(QueueError, match="has not ended these jobs: 101, 102; scancel them"):
        cancel_jobs([NAME])
