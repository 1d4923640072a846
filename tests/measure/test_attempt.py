"""A measurement that never ends is given up, whatever becomes of the disk; one that ends at the last moment is kept."""

import threading

import pytest

from ksmm.measure.attempt import Attempts
from ksmm.measure.deadline import deadline
from ksmm.measure.journal import Journal
from tests.measure.sample_records import measurement, untimed

IDENTITY = {"of": "this"}


@pytest.fixture
def hanging(tmp_path):
    """An attempt that hangs until its process is restarted, and what the journal held by then: hanging(journal)."""

    def attempt(journal):
        ended, found = threading.Event(), []

        def restart():
            found.append(journal.find(IDENTITY))
            ended.set()  # the end of the process, as far as this test goes

        def measure():
            assert ended.wait(20)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Attempts(journal, 0.05, restart).make("mine", IDENTITY, measure, untimed)
        return found

    return attempt


def test_what_is_not_over_in_time_is_journalled_before_the_restart(hanging, tmp_path):
    (found,) = hanging(Journal(tmp_path))
    assert (found.status, found.reason) == ("too_slow", "not over within 0.05 s, compilation included")


def test_a_full_disk_does_not_keep_what_hangs_from_being_given_up(hanging, tmp_path, monkeypatch, caplog):
    journal = Journal(tmp_path)

    def full(identity, measurement):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "add", full)
    assert hanging(journal) == [None]
    assert "that cannot be kept: [Errno 28] No space left on device" in caplog.text


def test_what_is_over_in_time_is_not_given_up(tmp_path):
    made = Attempts(Journal(tmp_path), 20, lambda: pytest.fail("restarted")).make("x", IDENTITY, measurement, untimed)
    assert Journal(tmp_path).find(IDENTITY) == made == measurement()


def test_what_is_interrupted_while_its_beginning_is_noted_was_never_begun(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    begin = journal.begin

    def interrupted(identity):
        begin(identity)
        raise SystemExit(143)

    monkeypatch.setattr(journal, "begin", interrupted)
    with pytest.raises(SystemExit):
        Attempts(journal, 20, None).make("mine", IDENTITY, measurement, untimed)
    assert list(tmp_path.iterdir()) == []


def test_a_block_is_over_or_given_up_and_never_both():
    happened = []
    for number in range(40):
        seconds = 0.0005 * (number % 4)
        with deadline(seconds, lambda: happened.append("given up")):
            threading.Event().wait(0.001)
        before = len(happened)
        threading.Event().wait(0.002)
        assert len(happened) == before  # a block that is over is never given up afterwards
    assert 0 < len(happened) <= 40


def test_it_ends_the_block_only_once_the_giving_up_is_done():
    begun, done = threading.Event(), []

    def give_up():
        begun.set()
        threading.Event().wait(0.1)
        done.append(1)

    with deadline(0.01, give_up):
        assert begun.wait(20)
    assert done == [1]
