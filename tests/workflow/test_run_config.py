"""Presets have the same keys, and a wrong config is refused by name."""

import copy
import re

import pytest
import yaml

from ksmm.measure.energy_protocol import EnergyProtocol
from tests.workflow.conftest import ROOT, run_snakemake

import config_values  # isort: skip - found through conftest
from check_config import ConfigError, check_config  # isort: skip

PRESETS = sorted((ROOT / "workflow" / "config").glob("*.yaml"))


def preset(name: str) -> dict:
    return yaml.safe_load((ROOT / "workflow" / "config" / f"{name}.yaml").read_text())


def keys(config: object, prefix: str = "") -> set[str]:
    if not isinstance(config, dict):
        return {prefix}
    return set().union(*(keys(value, f"{prefix}.{key}") for key, value in config.items()))


def changed(config: dict, key: str, value: object) -> dict:
    """A copy of the config with the value at a dotted key; None removes the key."""
    config = copy.deepcopy(config)
    *path, last = key.split(".")
    section = config
    for name in path:
        section = section[name]
    if value is None:
        del section[last]
    else:
        section[last] = value
    return config


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_presets_are_valid_and_have_the_same_keys(path):
    config = yaml.safe_load(path.read_text())
    check_config(config)
    assert keys(config) == keys(preset("default"))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("counters.patterns", ["1,2,3,4\n"], r"counters.patterns.0 is '1,2,3,4\n'; it must be one line"),
        ("results", "a\nb", r"results is 'a\nb'; it must be one line"),
        ("implementations", ["bmm\n"], r"implementations.0 is 'bmm\n'; it must be one line"),
        ("device", "cpu\n", r"device is 'cpu\n'; it must be auto, cpu, cuda"),
        ("counters.patterns", ["1,2,3"], "it must be four positive integers"),
    ],
)
def test_a_line_break_does_not_slip_through(key, value, said):
    with pytest.raises(ConfigError) as refused:
        check_config(changed(preset("test"), key, value))
    assert said in str(refused.value)


def test_the_paper_preset_measures_the_papers_protocol():
    config = preset("paper")
    for section in ("cpu", "cuda"):
        assert config[section] == {
            "patterns": {"list": "benchmark", "sample": None, "max_nnz": None, "max_features": None, "explicit": None},
            "batch_size": 25088,
            "dtypes": ["float32", "float16"],
        }
    assert config["protocol"]["min_samples"] >= 10
    assert config["protocol"]["runs_per_sample"] >= 10
    energy = config["energy"]
    assert (energy["cuda"]["patterns"]["list"], energy["cuda"]["patterns"]["sample"]) == ("energy", None)
    assert energy["protocol"]["samples"] >= 10
    assert energy["protocol"]["min_runs"] >= 16


def test_the_default_measures_energy_on_150_patterns_of_a_gpu_in_both_precisions():
    energy = preset("default")["energy"]
    assert energy["measure"] is True
    assert energy["cuda"]["patterns"]["list"] == "energy"
    assert energy["cuda"]["patterns"]["sample"] >= 150
    assert energy["cuda"]["dtypes"] == ["float32", "float16"]
    assert EnergyProtocol.from_mapping(energy["protocol"]).to_dict() == energy["protocol"]
    assert energy["protocol"]["samples"] >= 10
    assert energy["protocol"]["min_runs"] >= 16
    assert energy["protocol"]["max_quantisation"] <= 0.02


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("bach_size", 16, ["bach_size is unknown", "Allowed here: busy_gpu_max_wait_s, counters, cpu"]),
        ("cpu.bach_size", 16, ["cpu.bach_size is unknown", "did you mean cpu.batch_size?"]),
        ("cpu.batch_size", -3, ["cpu.batch_size is -3", "at least 1"]),
        ("cpu.batch_size", 2.5, ["cpu.batch_size is 2.5", "integer"]),
        ("cpu.batch_size", 512.0, ["cpu.batch_size is 512.0", "of type integer, so write 512"]),
        ("cpu.batch_size", True, ["cpu.batch_size is True", "of type integer"]),
        ("patterns_per_job", 2.0, ["patterns_per_job is 2.0", "of type integer, so write 2"]),
        ("cpu.patterns.sample", 3.0, ["cpu.patterns.sample is 3.0", "integer or null, so write 3"]),
        ("protocol.min_samples", 10.0, ["protocol.min_samples is 10.0", "write 10"]),
        ("tuning.batch_sizes", [5.0], ["tuning.batch_sizes.0 is 5.0", "write 5"]),
        ("cpu.batch_size", "16", ["cpu.batch_size is '16'", "integer"]),
        ("cuda.dtypes", ["float8"], ["cuda.dtypes.0 is 'float8'", "float32, float16, bfloat16"]),
        ("cuda.dtypes", [], ["cuda.dtypes is []", "at least 1"]),
        ("layouts", ["batch_second"], ["layouts.0 is 'batch_second'", "batch_first, batch_last"]),
        ("layouts", ["batch_first", "batch_first"], ["layouts is", "differ"]),
        ("cpu.patterns.list", "all", ["cpu.patterns.list is 'all'", "benchmark, energy"]),
        ("cpu.patterns.explicit", ["1,2,3"], ["cpu.patterns.explicit.0 is '1,2,3'", "four positive integers"]),
        ("cpu.patterns.explicit", ["1,0,3,4"], ["cpu.patterns.explicit.0 is '1,0,3,4'", "1,192,48,2"]),
        ("cpu.patterns.sample", 0, ["cpu.patterns.sample is 0", "at least 1"]),
        ("protocol.seed", None, ["protocol.seed is missing"]),
        ("protocol.max_seconds", 0, ["protocol.max_seconds is 0", "greater than 0"]),
        ("protocol.max_samples", 1, ["protocol.max_samples is 1", "protocol.min_samples, which is 2"]),
        ("protocol.samples", 1, ["protocol.samples is unknown", "did you mean protocol.m"]),
        ("energy.measure", "yes", ["energy.measure is 'yes'", "boolean"]),
        ("energy.protocol.samples", 0, ["energy.protocol.samples is 0", "at least 1"]),
        ("energy.protocol.max_quantisation", 2, ["energy.protocol.max_quantisation is 2", "at most 1"]),
        (
            "energy.protocol.seconds",
            9,
            ["energy.protocol.seconds is unknown", "did you mean energy.protocol.idle_seconds"],
        ),
        ("energy.cuda.patterns.list", "all", ["energy.cuda.patterns.list is 'all'", "benchmark, energy"]),
        ("energy.cpu", None, ["energy.cpu is missing"]),
        ("tuning.batch_sizes", [], ["tuning.batch_sizes is []", "at least 1"]),
        ("tuning.batch_sizes", [0], ["tuning.batch_sizes.0 is 0", "at least 1"]),
        ("tuning.max_seconds", 0, ["tuning.max_seconds is 0", "greater than 0"]),
        ("tuning.seconds", 1, ["tuning.seconds is unknown", "did you mean tuning.max_seconds?"]),
        ("networks.subjects", "some", ["networks.subjects is 'some'", "the word all, or a list of names"]),
        ("networks.cpu.modes", ["fast"], ["networks.cpu.modes.0 is 'fast'", "eager, cuda_graph, compile"]),
        ("networks.cuda.size", "huge", ["networks.cuda.size is 'huge'", "paper, tiny"]),
        ("networks.protocol.max_samples", 1, ["networks.protocol.max_samples is 1", "min_samples, which is 2"]),
        ("implementations", [], ["implementations is []", "at least 1 entry"]),
        ("energy.implementations", [], ["energy.implementations is []", "at least 1 entry"]),
        ("protocol.max_seconds", float("inf"), ["protocol.max_seconds is inf", "a finite number"]),
        ("protocol.max_seconds", float("nan"), ["protocol.max_seconds is nan", "a finite number"]),
        ("protocol.seed", 10**23, [f"protocol.seed is {10**23}", "below 2^63"]),
        ("energy.protocol.seconds_per_pattern", float("inf"), ["energy.protocol.seconds_per_pattern is inf", "finite"]),
        ("tuning.batch_sizes", [2**63], [f"tuning.batch_sizes.0 is {2**63}", "below 2^63"]),
        ("patterns_per_job", 0, ["patterns_per_job is 0", "at least 1"]),
        ("device", "NVIDIA H200", ["device is 'NVIDIA H200'", "auto, cpu, cuda"]),
        ("device", "cuda:NVIDIA H200", ["device is 'cuda:NVIDIA H200'", "cuda: and the name of a GPU"]),
        ("figures", "some", ["figures is 'some'", "the word all, or a list of names"]),
        ("results", "", ["results is ''", "not be empty"]),
        ("implementations", ["kernel", "kernel"], ["implementations is ['kernel', 'kernel']", "entries must differ"]),
        ("implementations", ["ker nel"], ["implementations.0 is 'ker nel'"]),
        ("implementations", 3, ["implementations is 3", "the word all, or a list of names"]),
    ],
)
def test_a_wrong_config_is_refused_by_name(key, value, expected):
    with pytest.raises(ConfigError) as caught:
        check_config(changed(preset("test"), key, value))
    for text in expected:
        assert text in str(caught.value)


def test_every_wrong_key_is_named_at_once():
    config = changed(changed(preset("test"), "device", 3), "cpu.batch_size", 0)
    with pytest.raises(ConfigError, match=r"cpu\.batch_size is 0(?s:.)*device is 3"):
        check_config(config)


def test_what_the_command_line_leaves_as_text_is_what_it_says():
    config = preset("test")
    config["energy"]["measure"] = "false"
    config["cpu"] |= {"batch_size": "32", "patterns": config["cpu"]["patterns"] | {"sample": "null", "max_nnz": "9"}}
    config["tuning"]["batch_sizes"] = ["16", "32"]
    config["protocol"]["max_seconds"] = "0.5"
    config_values.understand(config)
    assert (config["energy"]["measure"], config["cpu"]["batch_size"]) == (False, 32)
    assert (config["cpu"]["patterns"]["sample"], config["cpu"]["patterns"]["max_nnz"]) == (None, 9)
    assert (config["tuning"]["batch_sizes"], config["protocol"]["max_seconds"]) == ([16, 32], 0.5)


@pytest.mark.parametrize(
    ("key", "value"), [("energy.measure", "maybe"), ("cpu.batch_size", "2.5"), ("cpu.batch_size", "2.0"), ("cpu", "{}")]
)
def test_text_that_is_nothing_else_is_refused_as_it_stands(key, value):
    with pytest.raises(ConfigError, match=rf"{key} is '{value}'; it must be of type"):
        config_values.understand(changed(preset("test"), key, value))


def test_folders_are_found_in_the_home_and_braces_refused(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    config = changed(changed(preset("test"), "results", "~/runs"), "energy.imported", "~")
    config_values.understand(config)
    assert (config["results"], config["energy"]["imported"]) == ("/home/somebody/runs", "/home/somebody")
    assert config["measurements"] == "measurements"
    with pytest.raises(ConfigError, match=r"results is '~nobody_of_that_name/x', and nobody here"):
        config_values.understand(changed(preset("test"), "results", "~nobody_of_that_name/x"))
    for key in ("results", "measurements", "energy.imported"):
        with pytest.raises(ConfigError, match=rf"{key} is 'a{{b}}'; it must have no {{"):
            config_values.understand(changed(preset("test"), key, "a{b}"))


def test_a_long_value_is_shown_in_part():
    with pytest.raises(ConfigError) as refused:
        config_values.understand(changed(preset("test"), "results", list(range(10_000))))
    (line,) = str(refused.value).splitlines()[1:]
    assert len(line) < 500
    assert line.startswith("  config key results is [0, 1, 2") and line.endswith("it must be of type string")


@pytest.mark.workflow
def test_the_command_line_changes_a_single_nested_key(tmp_path):
    done = run_snakemake(tmp_path, "--dry-run", "--config", "energy={measure: false}", "networks={in_all: false}")
    assert done.returncode == 0, done.stdout
    assert re.search(r"time_patterns +2\b", done.stdout)
    assert "energy_patterns" not in done.stdout


@pytest.mark.workflow
def test_the_pipeline_says_which_key_is_wrong(tmp_path):
    done = run_snakemake(tmp_path, "--config", "patterns_per_jop=3")
    assert done.returncode != 0
    assert "config key patterns_per_jop is unknown; did you mean patterns_per_job?" in done.stdout
