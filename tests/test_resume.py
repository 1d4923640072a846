"""What `python -m ksmm resume` makes sure of before it goes on."""

import fcntl
import json
import os
import re
import sys
import time

import pytest

from ksmm import cli, resume
from ksmm.measure.files import write_atomically
from ksmm.measure.records import checksum, dump, write_record
from ksmm.resume import FILE, LOCK, READERS, ResumeError, mend_results, read_run, refuse_living
from tests.measure.sample_records import network_measurement, record_content, write_sample
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
    monkeypatch.setattr(os, "execve", lambda program, command, environment: done.append(command))
    resume.resume(remembered, ["--keep-going"])
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "all", "--keep-going"]
    assert done == [["3f6d2a60-8a40"], command]  # what is queued is cancelled before anything is submitted again


def test_it_has_the_environment_of_the_run_but_for_what_is_set_anew(remembered, monkeypatch, caplog):
    import run_command

    assert run_command.environment_of_caller().get("HOME") == os.environ.get("HOME")
    before = {"KSMM_SLURM_SITE": "my.yaml", "KSMM_CUDA_ARCHITECTURES": "80", "HOME": "/home/before"}
    monkeypatch.setattr(run_command, "environment_of_caller", lambda: before)
    run_command.remember(["all"], remembered / "results", None)
    run_command._held.pop().close()
    started = []
    monkeypatch.setattr(resume, "cancel_jobs", lambda names: None)
    monkeypatch.setattr(os, "execve", lambda program, command, environment: started.append(environment))
    monkeypatch.setenv("KSMM_CUDA_ARCHITECTURES", "90a")
    monkeypatch.delenv("KSMM_SLURM_SITE", raising=False)
    caplog.set_level("INFO")
    resume.resume(remembered)
    assert started == [{**os.environ, "KSMM_SLURM_SITE": "my.yaml"}]
    assert "going on: KSMM_SLURM_SITE=my.yaml snakemake all" in caplog.text


def test_a_run_that_did_not_remember_its_environment_is_resumed(remembered, monkeypatch):
    run = read_run(remembered)
    del run["variables"]
    (remembered / FILE).write_text(json.dumps(run))
    started = []
    monkeypatch.setattr(resume, "cancel_jobs", lambda names: None)
    monkeypatch.setattr(os, "execve", lambda program, command, environment: started.append(environment))
    resume.resume(remembered)
    assert started == [dict(os.environ)]


def test_what_cannot_be_unlocked_is_said(remembered):
    (remembered / ".snakemake" / "locks").mkdir()
    (remembered / ".snakemake" / "locks" / "0.input.lock").touch()
    with pytest.raises(ResumeError, match="cannot be unlocked"):  # there is no Snakefile
        resume.resume(remembered)


def write_network(path, **changes):
    """A record of the study networks, as its job writes it."""
    content = record_content(job=path.stem, measurements=[network_measurement().to_dict()], **changes)
    write_record(path, content)
    return path


WRITE = {"time": write_sample, "energy": write_sample, "networks": write_network}
CEILINGS = {
    "ceilings.json": {"copy_bytes_per_s": 1e10, "operations_per_s": {}},
    "energy/ceilings.json": {"status": "ok", "idle_w": 1.0, "joules_per_byte": 1e-9, "joules_per_operation": {}},
}
ELSEWHERE = {"slug": "nvidia-h200", "name": "NVIDIA H200", "type": "cuda"}


def write_ceilings(path, values, slug="cpu-x86_64", **changes):
    """Ceilings as they are measured, their checksum of before any changes."""
    content = {"schema_version": 1, "device": {"slug": slug}, **values}
    write_atomically(path, dump({**content, "checksum": checksum(content), **changes}, ""))


@pytest.fixture
def results(tmp_path):
    """Results of a run of three studies, all of them good."""
    folder = tmp_path / "results"
    for study, write in WRITE.items():
        for name in ("good", "cut", "empty", "edited", "renamed", "elsewhere"):
            write(folder / study / "records" / f"{name}.json")
    for name, values in CEILINGS.items():
        write_ceilings(folder / name, values)
    (folder / "build.json").write_text("{}")
    return folder


def aside(results, study):
    """What was set aside of a study: name -> content, and name -> reason."""
    folder = results / study / "rejected"
    contents = {path.name.split("-")[0]: path.read_bytes() for path in folder.glob("*.json")}
    return contents, {path.name.split("-")[0]: path.read_text() for path in folder.glob("*.txt")}


def test_good_results_are_left_alone(results):
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    mend_results(results, "cpu-x86_64")
    assert before == {path: path.stat().st_mtime_ns for path in results.rglob("*")}


@pytest.mark.parametrize("study", WRITE)
def test_what_cannot_be_used_is_set_aside_and_nothing_is_deleted(results, study):
    records = results / study / "records"
    contents = {path.name: path.read_bytes() for path in records.iterdir()}
    contents["cut.json"] = contents["cut.json"][:200]
    contents["empty.json"] = b""
    contents["edited.json"] = contents["edited.json"].replace(b"0.0002", b"0.0001")
    contents["renamed.json"] = contents["good.json"]
    for name, content in contents.items():
        changed = (records / name).stat()
        (records / name).write_bytes(content)
        os.utime(records / name, ns=(changed.st_atime_ns, changed.st_mtime_ns))  # nobody sees it by its date
    contents["elsewhere.json"] = WRITE[study](records / "elsewhere.json", device=ELSEWHERE).read_bytes()
    (results / "build.json").write_text('{"library": ')
    mend_results(results, "cpu-x86_64")
    assert [path.name for path in records.iterdir()] == ["good.json"]
    kept, reasons = aside(results, study)
    for name, said in {
        "cut": "is not whole JSON",
        "empty": "is empty",
        "edited": "was changed after it was written",
        "renamed": "is the record of job good, under another job's name",
        "elsewhere": "is of device nvidia-h200, among those of cpu-x86_64",
    }.items():
        assert said in reasons.pop(name)
        assert kept.pop(name) == contents[f"{name}.json"]
    assert not reasons
    assert not kept
    assert not (results / "build.json").exists()


@pytest.mark.parametrize(("name", "study"), [("ceilings.json", "time"), ("energy/ceilings.json", "energy")])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path, values: path.write_text('{"schema_version": 1}'), "key device.slug is missing"),
        (lambda path, values: path.write_bytes(path.read_bytes()[:20]), "is not whole JSON"),
        (
            lambda path, values: write_ceilings(path, values, note="edited"),
            "changed after it was written: key checksum",
        ),
        (
            lambda path, values: write_ceilings(path, values, "nvidia-h200"),
            "is of device nvidia-h200, among what is of",
        ),
    ],
)
def test_ceilings_that_cannot_be_used_are_set_aside_and_measured_again(results, name, study, spoil, said):
    spoil(results / name, CEILINGS[name])
    content = (results / name).read_bytes()
    mend_results(results, "cpu-x86_64")
    assert not (results / name).exists()
    kept, reasons = aside(results, study)
    assert kept == {"ceilings": content}
    assert said in reasons["ceilings"]


def test_every_study_is_mended():
    rules = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    assert set(READERS) == set(WRITE) == set(re.findall(r'RESULTS / "(\w+)/records/', rules))


def test_files_from_the_future_are_dated_now(results):
    future = time.time() + 3600
    os.utime(results / "build.json", (future, future))
    os.utime(results / "ceilings.json", (1e9, 1e9))
    mend_results(results, "cpu-x86_64")
    assert abs((results / "build.json").stat().st_mtime - time.time()) < 60
    assert (results / "ceilings.json").stat().st_mtime == 1e9
