"""What `python -m ksmm resume` makes sure of before it goes on."""

import fcntl
import os
import sys
import time

import pytest

from ksmm import cli, resume
from ksmm.measure.files import write_atomically
from ksmm.measure.records import dump
from ksmm.resume import FILE, LOCK, ResumeError, mend_results, read_run, refuse_living
from tests.measure.sample_records import write_sample
from tests.workflow.conftest import ROOT


@pytest.fixture
def remembered(tmp_path, monkeypatch):
    """A run that the pipeline remembers, in tmp_path, as dead as this process lets it be."""
    sys.path.insert(0, str(ROOT / "workflow"))
    import run_command

    monkeypatch.chdir(tmp_path)
    run_command.remember(["--cores", "2", "all"], tmp_path / "results", "cpu-x86_64")
    run_command._held.pop().close()
    return tmp_path


def test_what_the_pipeline_writes_is_what_is_read(remembered):
    import run_command

    assert (run_command.FILE, run_command.LOCK) == (FILE, LOCK)
    run = read_run(remembered)
    assert run["arguments"] == ["--cores", "2", "all"]
    assert run["folder"] == str(remembered)
    assert run["process"] == os.getpid()
    refuse_living(remembered, run, elsewhere=False)


def test_a_longer_command_before_leaves_nothing_behind(remembered):
    import run_command

    run_command.remember(["all"], remembered, None)
    run_command._held.pop().close()
    assert read_run(remembered)["arguments"] == ["all"]
    assert read_run(remembered)["device"] is None


@pytest.mark.parametrize("content", [None, "", "{", "{}", "3", '{"arguments": []}'])
def test_no_run(tmp_path, content, capsys):
    (tmp_path / FILE).parent.mkdir()
    if content is not None:
        (tmp_path / FILE).write_text(content)
    assert cli.main(["resume", "--directory", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "there is no run to resume" in error
    assert "snakemake --cores all" in error


def test_a_run_that_lives_is_left_alone(remembered):
    with (remembered / LOCK).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ResumeError, match=f"still runs, as process {os.getpid()}"):
            refuse_living(remembered, read_run(remembered), elsewhere=True)


def test_a_run_on_another_host_needs_a_word(remembered):
    run = read_run(remembered) | {"host": "another"}
    with pytest.raises(ResumeError, match=r"started on another.*add --elsewhere"):
        refuse_living(remembered, run, elsewhere=False)
    refuse_living(remembered, run, elsewhere=True)


def test_it_becomes_snakemake_with_the_same_arguments_and_more(remembered, monkeypatch):
    done = []
    (remembered / ".snakemake" / "log").mkdir()
    (remembered / ".snakemake" / "log" / "x.snakemake.log").write_text("SLURM run ID: 3f6d2a60-8a40\n")
    monkeypatch.setattr(resume, "cancel_jobs", done.append)
    monkeypatch.setattr(os, "execv", lambda program, command: done.append(command))
    resume.resume(remembered, ["--keep-going"])
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "all", "--keep-going"]
    assert done == [["3f6d2a60-8a40"], command]  # what is queued is cancelled before anything is submitted again


def test_what_cannot_be_unlocked_is_said(remembered):
    (remembered / ".snakemake" / "locks").mkdir()
    (remembered / ".snakemake" / "locks" / "0.input.lock").touch()
    with pytest.raises(ResumeError, match="cannot be unlocked"):  # there is no Snakefile
        resume.resume(remembered)


@pytest.fixture
def results(tmp_path):
    """Results of a run, all of them good."""
    folder = tmp_path / "results"
    for name in ("good", "cut", "empty", "edited", "renamed", "elsewhere"):
        write_sample(folder / "time" / "records" / f"{name}.json")
    content = {"schema_version": 1, "device": {"slug": "cpu-x86_64"}, "copy_bytes_per_s": 1e10, "operations_per_s": {}}
    write_atomically(folder / "ceilings.json", dump(content, ""))
    (folder / "build.json").write_text("{}")
    return folder


def test_good_results_are_left_alone(results):
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    mend_results(results, "cpu-x86_64")
    assert before == {path: path.stat().st_mtime_ns for path in results.rglob("*")}


def test_what_cannot_be_used_is_set_aside_and_nothing_is_deleted(results):
    records = results / "time" / "records"
    contents = {path.name: path.read_bytes() for path in records.iterdir()}
    contents["cut.json"] = contents["cut.json"][:200]
    contents["empty.json"] = b""
    contents["edited.json"] = contents["edited.json"].replace(b"0.0002", b"0.0001")
    contents["renamed.json"] = contents["good.json"]
    for name, content in contents.items():
        (records / name).write_bytes(content)
    device = {"slug": "nvidia-h200", "name": "NVIDIA H200", "type": "cuda"}
    contents["elsewhere.json"] = write_sample(records / "elsewhere.json", device=device).read_bytes()
    (results / "ceilings.json").write_text('{"schema_version": 1}')
    (results / "build.json").write_text('{"library": ')
    mend_results(results, "cpu-x86_64")
    assert [path.name for path in records.iterdir()] == ["good.json"]
    reasons = {path.name.split("-")[0]: path.read_text() for path in (results / "time" / "rejected").glob("*.txt")}
    aside = {path.name.split("-")[0]: path.read_bytes() for path in (results / "time" / "rejected").glob("*.json")}
    for name, said in {
        "cut": "is not whole JSON",
        "empty": "is empty",
        "edited": "was changed after it was written",
        "renamed": "is the record of job good, under another job's name",
        "elsewhere": "is of device nvidia-h200, among those of cpu-x86_64",
        "ceilings": "key device.slug is missing",
    }.items():
        assert said in reasons.pop(name)
        assert aside.pop(name) == contents.get(f"{name}.json", b'{"schema_version": 1}')
    assert not reasons
    assert not aside
    assert not (results / "ceilings.json").exists()
    assert not (results / "build.json").exists()


def test_files_from_the_future_are_dated_now(results):
    future = time.time() + 3600
    os.utime(results / "build.json", (future, future))
    os.utime(results / "ceilings.json", (1e9, 1e9))
    mend_results(results, "cpu-x86_64")
    assert abs((results / "build.json").stat().st_mtime - time.time()) < 60
    assert (results / "ceilings.json").stat().st_mtime == 1e9
