"""A job that is killed, also while it writes: what was measured is kept, and is measured once."""

import signal

from tests.faults.conftest import statuses

KILLED_WRITING = """
    replace = Path.replace
    def dies(path, target):
        if sys.argv[2] == "killed" and Path(target).name == "some job.json":
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(path, target)
    Path.replace = dies
    run(["bmm", "einsum"])
"""


def test_killed_while_it_writes_its_record(run_job, tmp_path):
    assert run_job(KILLED_WRITING, "killed").returncode == -signal.SIGKILL
    (unfinished,) = (tmp_path / "records").iterdir()
    assert unfinished.name.startswith(".some job.json.")
    assert unfinished.name.endswith(".part")
    done = run_job(KILLED_WRITING, "not")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("measured before") == 3
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["some job.json"]
    assert set(statuses(tmp_path).values()) == {"ok"}
    assert list((tmp_path / "journal").iterdir()) == []


KILLED_KEEPING = """
    fsync = os.fsync
    def dies(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if sys.argv[2] == "killed" and len(list((folder / "journal").glob("*.json"))) == 2 and name.endswith(".part"):
            if ".json." in name:
                os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)
    os.fsync = dies
    run(["bmm", "einsum"])
"""


def test_killed_while_it_writes_to_its_journal(run_job, tmp_path):
    assert run_job(KILLED_KEEPING, "killed").returncode == -signal.SIGKILL
    done = run_job(KILLED_KEEPING, "not")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("measured before") == 2
    assert set(statuses(tmp_path).values()) == {"ok"}
    assert list((tmp_path / "journal").iterdir()) == []


DISCARDED = """
    run(["bmm", "einsum"], keep_journal=True)
"""


def test_a_record_that_the_pipeline_discards_is_written_again_without_measuring(run_job, tmp_path):
    """As it does where another job of a group failed, and where it was killed itself before the job ended."""
    assert run_job(DISCARDED).returncode == 0
    record = tmp_path / "records" / "some job.json"
    first = statuses(tmp_path)
    record.unlink()
    done = run_job(DISCARDED)
    assert done.stderr.count("measured before") == len(first) == 3
    assert statuses(tmp_path) == first


KILLED_AND_ENDED = """
    def matmul(self, packed, x):
        if not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return einsum.matmul(self, packed, x)
    plant("dies_once", matmul)
    run(["dies_once", "einsum"])
"""


def test_killed_once_in_the_middle_of_a_measurement(run_job, tmp_path):
    assert run_job(KILLED_AND_ENDED).returncode == -signal.SIGKILL
    assert run_job(KILLED_AND_ENDED).returncode == 0
    assert set(statuses(tmp_path).values()) == {"ok"}
    assert list((tmp_path / "journal").iterdir()) == []
