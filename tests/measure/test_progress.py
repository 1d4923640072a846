import pytest

from ksmm.measure.progress import progress_line
from ksmm.measure.protocol import Protocol
from tests.measure.sample_records import record_content, write_sample


def write(folder, name, minute, duration_s=60.0):
    started = f"2026-01-02T03:{minute:02}:00.000+00:00"
    provenance = {**record_content()["provenance"], "started_at": started, "duration_s": duration_s}
    write_sample(folder / f"{name}.json", provenance=provenance)


def test_nothing_is_known_at_first(tmp_path):
    assert progress_line(tmp_path / "absent", 36, "1x192x48x2") == "pattern 1 of 36 (1,192,48,2)"


def test_what_is_left_follows_from_what_is_done(tmp_path):
    for number in range(6):
        write(tmp_path, f"{number}x1x1x1", number)
    assert progress_line(tmp_path, 10, "1x192x48x2") == "pattern 7 of 10 (1,192,48,2), about 4 min left"


def test_jobs_that_ran_at_once_are_counted_so(tmp_path):
    for number in range(4):
        write(tmp_path, f"{number}x1x1x1", number // 2)
    assert progress_line(tmp_path, 8) == "pattern 5 of 8, about 2 min left"


def test_a_pause_is_not_work(tmp_path):
    write(tmp_path, "a", 0)
    write(tmp_path, "b", 59)
    assert progress_line(tmp_path, 3) == "pattern 3 of 3, about 60 s left"


def test_jobs_of_several_patterns(tmp_path):
    line = progress_line(tmp_path, 3, "1x192x48x2-to-4x64x64x16")
    assert line == "job 1 of 3 (1,192,48,2 to 4,64,64,16)"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"provenance": 1}', '{"provenance": {"started_at": "x"}}'])
def test_what_cannot_be_read_is_not_counted(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    assert progress_line(tmp_path, 3) == "pattern 1 of 3"


@pytest.mark.parametrize(
    ("changes", "counted"), [({}, 2), ({"batch_size": 16}, 1), ({"dtypes": {"float16"}}, 1), ({"protocol": {}}, 1)]
)
def test_records_of_another_config_are_not_counted(tmp_path, changes, counted):
    write(tmp_path, "a", 0)
    settings = {"protocol": Protocol().to_dict(), "batch_size": 25088, "dtypes": {"float32"}, **changes}
    assert progress_line(tmp_path, 9, settings=settings).startswith(f"pattern {counted} of 9")


def test_hours(tmp_path):
    write(tmp_path, "a", 0, duration_s=3600)
    assert progress_line(tmp_path, 4).endswith(", about 3.0 h left")
