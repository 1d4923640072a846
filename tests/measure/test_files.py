"""Files that are written whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ksmm.measure.files import write_atomically


@pytest.mark.parametrize("written_before", [False, True])
def test_an_end_right_after_the_file_is_made_leaves_nothing(tmp_path, monkeypatch, written_before) -> None:
    path = tmp_path / "record.json"
    if written_before:
        write_atomically(path, "before")
    opened = Path.open

    def ended(self, *arguments, **more):
        opened(self, *arguments, **more).close()
        raise SystemExit(143)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", ended)
        with pytest.raises(SystemExit):
            write_atomically(path, "after")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == (
        {path.name: "before"} if written_before else {}
    )


def test_who_may_read_a_file_is_what_the_umask_says(tmp_path) -> None:
    (tmp_path / "other").touch()
    write_atomically(tmp_path / "record", "text")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1
    assert (tmp_path / "record").read_text() == "text"
