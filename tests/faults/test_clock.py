"""A clock that jumps backwards while a job measures: no negative or absurd time anywhere, and what is left is said."""

import datetime

from ksmm.measure import measurement, progress
from ksmm.measure.records import read_record
from tests.measure.sample_records import record_content, write_sample

# The wall clock goes back by an hour at each look at it; the timers have a clock of their own.
BACKWARDS = """
    import datetime, itertools
    hours = itertools.count()
    right = time.time
    time.time = lambda: right() - 3600 * next(hours)
    class Backwards(datetime.datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.datetime.fromtimestamp(time.time(), zone)
    sys.modules["ksmm.measure.measurement"].datetime.datetime = Backwards
    run(["bmm", "einsum"])
"""


def test_times_do_not_come_from_the_clock_on_the_wall(run_job, tmp_path):
    done = run_job(BACKWARDS)
    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path / "records" / "some job.json")
    started = [entry["started_at"] for entry in record["measurements"]]
    assert started == sorted(started, reverse=True)
    assert len(set(started)) == 3
    assert 0 <= record["provenance"]["duration_s"] < 60
    for entry in record["measurements"]:
        assert entry["status"] == "ok"
        assert 0 <= entry["duration_s"] < 60
        assert 0 < entry["median_s"] < 1


def test_how_far_a_run_is(tmp_path):
    provenance = record_content()["provenance"]
    for hours, name in enumerate(["1x1x1x1", "1x1x1x2", "1x1x1x3"]):
        started = datetime.datetime(2026, 1, 2, 12 - hours, tzinfo=datetime.UTC).isoformat(timespec="milliseconds")
        write_sample(tmp_path / f"{name}.json", provenance={**provenance, "started_at": started})
    line = progress.progress_line(tmp_path, 5, "1x1x1x4")
    assert line == "pattern 4 of 5 (1,1,1,4), about 2 min left"
    assert measurement.utc_now().endswith("+00:00")
