"""Which devices a library's CUDA code runs on, and that the one that suits those present is found."""

import dataclasses
import json
import os
import platform

import pytest
import torch

from ksmm import build
from ksmm.architectures import BY_ITS_OWN_CODE, NOT_AT_ALL, PORTABLY, suitability, suitability_here
from ksmm.implementations import kernel


@pytest.mark.parametrize(
    ("architectures", "capability", "expected"),
    [
        (["80"], (8, 0), BY_ITS_OWN_CODE),
        (["80"], (8, 6), PORTABLY),  # machine code of the same major version
        (["86"], (8, 0), NOT_AT_ALL),
        (["80"], (9, 0), PORTABLY),  # PTX
        (["90a"], (9, 0), BY_ITS_OWN_CODE),
        (["80", "90"], (9, 0), PORTABLY),  # without Hopper's own instructions
        (["90", "90a"], (9, 0), BY_ITS_OWN_CODE),
        (["90a"], (8, 0), NOT_AT_ALL),
        (["90a"], (10, 0), NOT_AT_ALL),
        (["80", "90a"], (12, 0), NOT_AT_ALL),  # PTX of the last one alone is built in, and 90a has none
        (["80", "90a"], (8, 9), PORTABLY),
        (["90", "120"], (12, 1), PORTABLY),
        ([], (8, 0), NOT_AT_ALL),
    ],
)
def test_suitability(architectures, capability, expected):
    assert suitability(architectures, capability) == expected


def devices(monkeypatch, *capabilities):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(capabilities))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(capabilities))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=0: capabilities[device])


def test_the_least_suited_of_several_devices_counts(monkeypatch):
    devices(monkeypatch, (8, 0), (9, 0))
    assert suitability_here(["80"]) == PORTABLY and suitability_here(["80", "90a"]) == BY_ITS_OWN_CODE
    assert suitability_here(["90a"]) == NOT_AT_ALL


@pytest.fixture
def library(tmp_path, monkeypatch):
    """What writes a library for some architectures, newer than those before."""
    monkeypatch.setenv("KSMM_BUILD_DIRECTORY", str(tmp_path))
    written = []

    def write(*architectures):
        folder = tmp_path / ("none" if not architectures else "_".join(architectures))
        folder.mkdir()
        (folder / build.LIBRARY_NAME).write_bytes(b"library")
        values = dict.fromkeys((field.name for field in dataclasses.fields(build.Manifest)), "")
        values |= {"key": folder.name, "library": build.LIBRARY_NAME, "size": 7, "source_hash": build.source_hash()}
        values |= {"torch": str(torch.__version__), "machine": platform.machine()}
        manifest = folder / "manifest.json"
        manifest.write_text(json.dumps(values | {"cuda_architectures": list(architectures)}))
        written.append(manifest)
        os.utime(manifest, (len(written), len(written)))

    return write


@pytest.mark.parametrize("order", [("80", "90a"), ("90a", "80")])
@pytest.mark.parametrize(("capability", "expected"), [((8, 0), "80"), ((9, 0), "90a")])
def test_of_libraries_for_several_gpus_that_for_the_present_one_is_found(
    library, monkeypatch, order, capability, expected
):
    """On a file system that two kinds of nodes share, the newest library is not always that of the node."""
    devices(monkeypatch, capability)
    for architecture in order:
        library(architecture)
    library()  # without CUDA, the newest of all
    assert build.find().key == expected


def test_without_a_gpu_or_a_choice_the_devices_do_not_matter(library, monkeypatch):
    devices(monkeypatch)
    library("90a")
    library("80")
    assert build.find().key == "80"

    def refuse(device=0):
        raise RuntimeError("CUDA must not be initialised")

    monkeypatch.setattr(torch.cuda, "get_device_capability", refuse)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    (build.build_directories()[0] / "90a" / build.LIBRARY_NAME).unlink()
    assert build.find().key == "80"


def test_a_forked_process_takes_the_newest(library, monkeypatch):
    """CUDA cannot be initialised there again, to ask for its devices."""
    devices(monkeypatch, (9, 0))

    def refuse(device=0):
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    library("90a")
    library("80")
    monkeypatch.setattr(torch.cuda, "get_device_capability", refuse)
    assert build.find().key == "80"
    assert build.reason_missing() is None


def test_hopper_without_its_own_code_is_said_once(library, monkeypatch, caplog):
    devices(monkeypatch, (9, 0))
    kernel._say_without_hopper.cache_clear()
    library("80", "90")
    for _ in range(2):
        assert kernel._without_cuda(build.find()) is None
    assert [record.message for record in caplog.records if "without 90a" in record.message] == [
        record.message for record in caplog.records
    ]
    assert len(caplog.records) == 1
    library("80")
    devices(monkeypatch, (7, 5))
    assert "and this device is 75; run: python -m ksmm build" in kernel._without_cuda(build.find())
