"""What a run does, worked out from its config: device, folders, patterns, jobs."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ksmm
from tests.workflow.conftest import ROOT, run_snakemake
from tests.workflow.test_run_config import changed, preset

from check_config import ConfigError  # isort: skip - found through conftest
import run_choices  # isort: skip
import run_devices  # isort: skip
import run_settings  # isort: skip

MEASUREMENTS = ROOT / "measurements"


def test_a_gpu_asked_for_and_absent_is_an_error_that_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "nvidia-z1" / "time" / "records").mkdir(parents=True)
    (tmp_path / "nvidia-z1" / "time" / "records" / "1x2x2x1.json").touch()
    with pytest.raises(ConfigError, match=r"device is 'cuda'.*no GPU.*device=cpu.*device=nvidia-z1"):
        run_devices.resolve_device("cuda", tmp_path)
    assert run_devices.resolve_device("auto", tmp_path)[1] == "cpu"
    assert run_devices.resolve_device("nvidia-z1", tmp_path) == ("nvidia-z1", "published")


def test_a_device_that_is_not_published_is_an_error_that_lists_those_that_are(tmp_path):
    (tmp_path / "nvidia-z1" / "time" / "records").mkdir(parents=True)
    (tmp_path / "nvidia-z1" / "time" / "records" / "1x2x2x1.json").touch()
    with pytest.raises(ConfigError, match=r"device is 'nvidia-z2'.*auto, cpu or cuda.*nvidia-z1"):
        run_devices.resolve_device("nvidia-z2", tmp_path)


def test_a_gpu_of_a_cluster_is_not_looked_for_here(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cuda.is_available", lambda: pytest.fail("asked for a GPU"))
    assert run_devices.resolve_device("cuda:nvidia-z1", tmp_path) == ("nvidia-z1", "cuda")


def test_results_below_a_file_are_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"results cannot be written.*file is a file.*--config results="):
        run_devices.check_writable(tmp_path / "file" / "results")
    run_devices.check_writable(tmp_path / "a" / "b" / "c")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_jobs_import_the_ksmm_beside_the_snakefile_whatever_is_installed(monkeypatch, tmp_path, before):
    for folder in (tmp_path, tmp_path / "elsewhere"):
        (folder / "ksmm").mkdir(parents=True)
        (folder / "ksmm" / "__init__.py").touch()
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("PYTHONPATH", "")  # so that it is put back, also where there was none
    monkeypatch.delenv("PYTHONPATH")
    if before is not None:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / before))
    run_devices.use_own_python(tmp_path)
    command = ["python", "-c", "import ksmm, sys; print(ksmm.__file__, sys.executable)"]
    done = subprocess.run(command, cwd=tmp_path.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "ksmm" / "__init__.py"), sys.executable]


@pytest.mark.workflow
def test_the_pipeline_says_what_to_do_about_unwritable_results(tmp_path):
    (tmp_path / "file").touch()
    done = run_snakemake(tmp_path, "--config", "results=file/results")
    assert done.returncode != 0
    assert "choose another folder with the config key results" in done.stdout


@pytest.mark.workflow
def test_the_pipeline_says_what_to_do_about_an_absent_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run_snakemake(tmp_path, "--config", "device=cuda")
    assert done.returncode != 0
    assert "config key device is 'cuda', but PyTorch" in done.stdout
    assert "device=cpu" in done.stdout


@pytest.mark.parametrize("key", ["implementations", "figures", "notebooks"])
def test_an_unknown_name_is_refused_with_those_that_are_known(key):
    with pytest.raises(ConfigError, match=rf"config key {key} has 'magic'; it must be all, or a list"):
        run_settings.run_settings(changed(preset("test"), key, ["magic"]))


@pytest.mark.parametrize("key", ["subjects", "cpu.implementations"])
def test_an_unknown_name_of_networks_is_refused_with_those_that_are_known(key):
    with pytest.raises(ConfigError, match=rf"config key networks.{key} has 'magic'; it must be all, or a list"):
        run_settings.run_settings(changed(preset("test"), f"networks.{key}", ["magic"]))


def test_networks_without_anything_to_measure_are_left_out_and_refused_by_name():
    config = changed(preset("test"), "networks.subjects", "all")
    every = run_settings.run_settings(config).networks
    compiled = changed(config, "networks.cpu.modes", ["compile"])
    some = run_settings.run_settings(compiled).networks
    assert some and set(some) < set(every)
    empty = changed(compiled, "networks.subjects", sorted(set(every) - set(some)))
    with pytest.raises(ConfigError, match=r"networks\.cpu\.modes = \['compile'\] .*leave nothing to measure of"):
        run_settings.run_settings(empty)


def test_a_device_published_without_networks_has_no_table_of_them(monkeypatch, tmp_path):
    (tmp_path / "nvidia-z1" / "time" / "records").mkdir(parents=True)
    (tmp_path / "nvidia-z1" / "time" / "records" / "1x2x2x1.json").touch()
    config = {**preset("test"), "device": "nvidia-z1", "measurements": str(tmp_path), "results": str(tmp_path / "r")}
    settings = run_settings.run_settings(config)
    assert [Path(table).name for table in settings.tables] == ["time.csv", "energy.csv"]
    assert settings.networks_results == []


def test_published_records_are_not_drawn_over_a_run_of_ones_own(tmp_path):
    (tmp_path / "nvidia-z1" / "time" / "records").mkdir(parents=True)
    (tmp_path / "nvidia-z1" / "time" / "records" / "1x2x2x1.json").touch()
    config = {**preset("test"), "device": "nvidia-z1", "measurements": str(tmp_path), "results": str(tmp_path / "r")}
    own = tmp_path / "r" / "nvidia-z1" / "networks" / "records"
    own.mkdir(parents=True)
    run_settings.run_settings(config)
    (own / "llama.json").touch()
    with pytest.raises(ConfigError, match=r"networks/records has records of a run of your own.*results=FOLDER"):
        run_settings.run_settings(config)
    run_settings.run_settings({**config, "results": str(tmp_path / "another")})


@pytest.mark.parametrize(("in_all", "tables"), [(True, ["networks.csv"]), (False, [])])
def test_networks_are_part_of_all_where_the_config_says_so(in_all, tables):
    settings = run_settings.run_settings(changed(preset("test"), "networks.in_all", in_all))
    assert [Path(table).name for table in settings.tables] == ["time.csv", "energy.csv", *tables]
    assert [Path(path).name for path in settings.networks_results] == [
        *("networks.csv", "networks_profile.csv", "vit_submodules.json")
    ]


@pytest.mark.parametrize("name", ["default", "paper", "test"])
def test_every_preset_gives_jobs_that_cover_its_patterns_once(name):
    config = changed(preset(name), "device", "cpu")
    settings = run_settings.run_settings(config)
    patterns = list(itertools.chain(*settings.jobs.values()))
    assert len(patterns) == len(set(patterns))
    assert patterns == [str(p) for p in run_choices.chosen_patterns(config["cpu"]["patterns"], "cpu.patterns")]
    assert settings.implementations == list(ksmm.implementations())
    if name == "paper":
        assert len(patterns) == 627


def test_a_library_that_is_gone_is_an_error_that_keeps_what_was_measured(monkeypatch, tmp_path):
    record = tmp_path / "build.json"
    monkeypatch.setattr("ksmm.build._built", lambda sources: [])
    assert not run_devices.kernel_changed(record, "0123")
    record.write_text(json.dumps({"library": None, "source_hash": "0123"}))
    assert not run_devices.kernel_changed(record, "0123")
    record.write_text(json.dumps({"library": "/gone", "source_hash": "4567"}))
    assert run_devices.kernel_changed(record, "0123")
    record.write_text(json.dumps({"library": "/gone", "source_hash": "0123"}))
    with pytest.raises(ConfigError, match=r"build\.json says.*is built, but.*not.*built"):
        run_devices.kernel_changed(record, "0123")


def test_limits_are_kept_and_refused_where_they_leave_nothing():
    section = {"list": "benchmark", "sample": 10, "max_nnz": 100_000, "max_features": 2048, "explicit": None}
    chosen = run_choices.chosen_patterns(section, "cpu.patterns")
    assert len(chosen) == 10
    assert all(p.nnz <= 100_000 and max(p.shape) <= 2048 for p in chosen)
    with pytest.raises(ConfigError, match=r"cpu.patterns.max_nnz = 5"):
        run_choices.chosen_patterns({**section, "max_nnz": 5}, "cpu.patterns")


def test_jobs_are_named_by_their_patterns():
    patterns = [ksmm.Pattern(1, 2, 3, 4), ksmm.Pattern(1, 2, 3, 5), ksmm.Pattern(1, 2, 3, 6)]
    assert run_choices.timing_jobs(patterns, 1) == {
        "1x2x3x4": ["1,2,3,4"],
        "1x2x3x5": ["1,2,3,5"],
        "1x2x3x6": ["1,2,3,6"],
    }
    assert run_choices.timing_jobs(patterns, 2) == {
        "1x2x3x4-to-1x2x3x5": ["1,2,3,4", "1,2,3,5"],
        "1x2x3x6": ["1,2,3,6"],
    }


@pytest.mark.parametrize("reason", [None, "no energy counter"])
def test_where_there_is_no_energy_counter_one_job_writes_it_all_down(monkeypatch, reason):
    monkeypatch.setattr("ksmm.measure.energy_counter.reason_absent", lambda device_type: reason)
    config = changed(preset("default"), "device", "cpu")
    jobs = run_settings.run_settings(config).energy_jobs
    assert len(jobs) == (12 if reason is None else 1)
    assert len(list(itertools.chain(*jobs.values()))) == 12
    assert run_settings.run_settings(changed(config, "energy.measure", False)).energy_jobs == {}


def test_the_default_gpu_sample_is_160_patterns_of_the_energy_list():
    section = preset("default")["energy"]["cuda"]["patterns"]
    chosen = run_choices.chosen_patterns(section, "energy.cuda.patterns")
    assert len(chosen) == 160
    assert set(chosen) <= set(ksmm.energy_patterns())
    assert sum(pattern.a == 1 for pattern in chosen) == len(chosen) / 2


def test_imported_records_of_other_devices_are_found(tmp_path):
    for device in ("tesla-v100", "nvidia-z1"):
        (tmp_path / device / "energy" / "records").mkdir(parents=True)
        (tmp_path / device / "energy" / "records" / "imported-1.json").touch()
    (path,) = run_devices.imported_records(tmp_path, "nvidia-z1")
    assert path.endswith("tesla-v100/energy/records/imported-1.json")
    assert run_devices.imported_records(tmp_path / "none", "cpu") == []
    assert run_devices.published_devices(tmp_path) == ["nvidia-z1", "tesla-v100"]
