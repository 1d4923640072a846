"""Which files an implementation is known by: its own, base.py, and what it uses of its folder."""

import shutil
import sys
from pathlib import Path

import pytest

from ksmm.implementations import base, get_implementation
from ksmm.measure.implementation_hash import implementation_hash, implementation_hashes


@pytest.mark.parametrize(
    ("name", "files"),
    [("bmm", {"base", "bmm"}), ("bsr", {"base", "bsr", "compressed"}), ("kernel", {"base", "kept", "kernel"})],
)
def test_a_repair_of_its_files_is_seen_and_of_no_others(tmp_path, monkeypatch, name, files):
    folder = Path(shutil.copytree(Path(base.__file__).parent, tmp_path / "implementations"))
    before = implementation_hash(get_implementation(name))
    paths = {path.stem: path for path in folder.glob("[a-z]*.py")}
    for stem, path in paths.items():
        monkeypatch.setattr(sys.modules[f"ksmm.implementations.{stem}"], "__file__", str(path))
    assert implementation_hash(get_implementation(name)) == before
    seen = set()
    for stem, path in paths.items():
        text = path.read_text(encoding="utf-8")
        path.write_text(f"{text}# repaired\n", encoding="utf-8")
        if implementation_hash(get_implementation(name)) != before:
            seen.add(stem)
        path.write_text(text, encoding="utf-8")
    assert seen == files


def test_every_implementation_has_one_also_where_it_is_in_no_file_of_the_package(plant):
    plant("mine")
    hashes = implementation_hashes()
    assert set(hashes) > {"mine", "bmm", "kernel"}
    assert all(len(value) == 16 for value in hashes.values())
