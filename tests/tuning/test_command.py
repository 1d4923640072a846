"""`python -m ksmm tune`: what it says, and what it goes on after."""

from __future__ import annotations

import json

import pytest

from ksmm import cli
from ksmm.tuning import read_tuning


def test_the_command(fake_configurations, times, own_file, capsys, tmp_path) -> None:
    line = "tune 1,48,24,2 --batch 20,40 --dtypes float32 --layouts batch_first --device cpu"
    assert cli.main(line.split()) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"2 problems measured, 0 known before: {own_file}\n")
    assert printed.endswith("\nthe cost model's choice takes 7 times as long as the fastest (median)\n")
    assert cli.main([*line.split(), "--max-seconds", "0", "--output", str(tmp_path / "other.json")]) == 0
    assert "2 left for lack of time" in capsys.readouterr().out
    assert json.loads(own_file.read_text())["device"].startswith("cpu-")


@pytest.mark.parametrize("batch_size", [10**12, 99999999999999999999])
def test_what_does_not_fit_into_memory_is_given_up_and_the_rest_goes_on(
    fake_configurations, times, own_file, caplog, batch_size
) -> None:
    line = f"tune 1,48,24,2 --batch {batch_size},20 --dtypes float32 --layouts batch_first --device cpu"
    assert cli.main(line.split()) == 1
    assert f"batch {batch_size}: out of memory: needs about" in caplog.text
    assert [entry.batch_size for entry in read_tuning(own_file).entries] == [20]


def test_the_command_on_a_folder_in_the_files_place(needs_kernel, own_file, capsys) -> None:
    own_file.mkdir(parents=True)
    assert cli.main(["tune", "1,48,24,2", "--batch", "20", "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert f"the tuning file {own_file} is a folder; name a file in it, with KSMM_TUNING_FILE or --output" in said


def test_the_command_on_a_broken_file(needs_kernel, own_file, capsys) -> None:
    own_file.parent.mkdir(exist_ok=True)
    own_file.write_text("{")
    assert cli.main(["tune", "1,4,4,1", "--batch", "4", "--device", "cpu"]) == 2
    assert "is not whole JSON" in capsys.readouterr().err
