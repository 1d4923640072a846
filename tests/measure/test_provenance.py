import importlib.metadata
import json
import os
import platform
import re
import subprocess

import pytest
import torch

from ksmm import build
from ksmm.measure import provenance
from ksmm.measure.lock import DeviceAbsentError


def test_the_slug_of_a_cpu():
    assert provenance.device_slug("cpu") == f"cpu-{platform.machine().lower()}"


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA A100-PCIE-40GB", "nvidia-a100-pcie-40gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "nvidia-h100-80gb-hbm3-mig-1g-10gb"),
    ],
)
def test_the_slug_of_a_gpu(monkeypatch, name, slug):
    monkeypatch.setattr(provenance, "device_name", lambda device_type: name)
    assert provenance.device_slug("cuda") == slug


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_gpu_that_is_absent_has_no_slug():
    with pytest.raises(DeviceAbsentError, match="a CUDA device was asked for, but PyTorch sees none"):
        provenance.device_slug("cuda")


def test_an_unknown_device():
    with pytest.raises(ValueError, match="unknown device 'tpu'; choose cpu or cuda"):
        provenance.device_slug("tpu")


def test_the_facts_name_no_host_and_no_folder(monkeypatch):
    flags = "-O3 -isystem/home/somebody/torch -I/home/somebody -L/home/somebody -ccbin /home/somebody/g++ -std=c++20"
    manifest = build.Manifest(
        key="k",
        library="/home/somebody/k.so",
        size=1,
        source_hash="s",
        flags={"a.cpp": flags},
        compiler={"cxx": "g++ 12"},
        cuda_architectures=[],
        without_cuda="",
        torch="2",
        machine="x86_64",
        seconds=1.0,
    )
    monkeypatch.setattr(build, "find", lambda: manifest)
    facts = [provenance.device_facts("cpu"), provenance.software_facts(), provenance.host_facts()]
    text = json.dumps(facts, allow_nan=False)
    assert "/home" not in text
    assert platform.node() not in text
    assert facts[1]["kernel"]["flags"] == {"a.cpp": "-O3 -std=c++20"}
    assert provenance.kernel_hash() == "s"


def test_a_rival_of_its_own_package_is_named_with_its_version(monkeypatch):
    installed = {"lazylinop": "1.24.28", "cupy-cuda13x": "14.2.0"}

    def version(name):
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    versions = provenance.software_facts()["versions"]
    assert {name: versions[name] for name in installed} == installed
    assert "cupy" not in versions


def test_without_a_kernel(monkeypatch):
    monkeypatch.setattr(build, "find", lambda: None)
    assert provenance.kernel_hash() == ""
    assert provenance.kernel_manifest() is None


@pytest.fixture
def git(tmp_path):
    """A repository in tmp_path with one file, and what runs git there: git("status")."""
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]

    def run(*arguments):
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    (tmp_path / "file").write_text("text", encoding="utf-8")
    run("init")
    run("add", "file")
    run("commit", "-m", "first")
    return run


def test_asking_git_changes_nothing_in_the_repository(tmp_path, git):
    """Else a job that is killed at that moment would leave the user's index locked."""
    file = tmp_path / "file"
    os.utime(file, (1, 1))  # what is in the index is out of date now
    index = (tmp_path / ".git/index").read_bytes()
    assert provenance._git(tmp_path, "status", "--porcelain") == ""
    assert (tmp_path / ".git/index").read_bytes() == index
    git("status")
    assert (tmp_path / ".git/index").read_bytes() != index


def test_the_commit_is_gits_or_what_it_is_told(monkeypatch):
    monkeypatch.delenv(provenance.COMMIT_VARIABLE, raising=False)
    state = provenance.git_state()
    assert state is None or re.fullmatch("[0-9a-f]{40}", state["commit"])
    monkeypatch.setenv(provenance.COMMIT_VARIABLE, "abc")
    assert provenance.git_state() == {"commit": "abc", "dirty": None}


def test_a_new_file_of_the_package_is_a_change(tmp_path, git, monkeypatch):
    monkeypatch.delenv(provenance.COMMIT_VARIABLE, raising=False)
    monkeypatch.setattr(provenance, "_ROOT", tmp_path.resolve())
    (tmp_path / "notes").write_text("no part of the package", encoding="utf-8")
    assert provenance.git_state()["dirty"] is False
    (tmp_path / "ksmm" / "implementations").mkdir(parents=True)
    (tmp_path / "ksmm" / "implementations" / "mine.py").write_text("", encoding="utf-8")
    assert provenance.git_state()["dirty"] is True


def test_a_copy_inside_another_repository_is_not_of_its_commit(tmp_path, git, monkeypatch):
    monkeypatch.delenv(provenance.COMMIT_VARIABLE, raising=False)
    copy = tmp_path.resolve() / "copy"
    copy.mkdir()
    monkeypatch.setattr(provenance, "_ROOT", copy)
    assert provenance.git_state() is None


def test_the_hash_of_the_sources():
    assert re.fullmatch("[0-9a-f]{16}", provenance.source_hash())


def test_the_hash_of_the_sources_follows_every_file(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "one.py").write_text("a = 1\n", encoding="utf-8")
    hashes = [provenance.source_hash(tmp_path)]
    (tmp_path / "notes.txt").write_text("not a source", encoding="utf-8")
    assert provenance.source_hash(tmp_path) == hashes[0]
    for change in (
        lambda: (tmp_path / "inner" / "two.py").write_text("", encoding="utf-8"),
        lambda: (tmp_path / "one.py").write_text("a = 2\n", encoding="utf-8"),
        lambda: (tmp_path / "one.py").rename(tmp_path / "inner" / "one.py"),
    ):
        change()
        hashes.append(provenance.source_hash(tmp_path))
    assert len(set(hashes)) == 4
