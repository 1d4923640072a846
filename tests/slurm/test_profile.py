"""The profile and its site file: what is asked of Slurm, and mistakes refused by name. Needs no Slurm."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from ksmm.measure.lock import DeviceAbsentError
from ksmm.measure.provenance import check_device, device_slug
from tests.slurm.submission import PROFILE
from tests.workflow.conftest import ROOT, TEST_CONFIG

import cost_model  # isort: skip - found through conftest
import slurm_site  # isort: skip

DEFAULTS = yaml.safe_load((PROFILE / "site.yaml").read_text())
FULL = {
    **DEFAULTS,
    "account": "physics",
    "partition": "gpu-long",
    "cpu_partition": "short",
    "qos": "normal",
    "gpu_model": "h200",
    "extra": "--mail-type=FAIL --exclude=node7",
}


def site_file(tmp_path, **changes):
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in {**DEFAULTS, **changes}.items() if value != "absent"}))
    return path


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"acount": "physics"}, r"acount is unknown; did you mean account\?"),
        ({"jobs": "absent"}, "jobs is missing"),
        ({"jobs": None}, "jobs is null; it needs a value"),
        ({"jobs": 0}, "jobs is 0; it must be an integer of at least 1"),
        ({"cpus": "8"}, "cpus is '8'; it must be an integer of at least 1"),
        ({"timing_jobs_per_slurm_job": 2.5}, "timing_jobs_per_slurm_job is 2.5; it must be an integer"),
        ({"partition": "gpu; rm -rf /"}, "partition is 'gpu; rm -rf /'; it must match"),
        ({"extra": "--comment=$(id)"}, r"extra is '--comment=\$\(id\)'; it must match"),
        ({"cuda_architectures": "9.0"}, "cuda_architectures is '9.0'; it must match"),
    ],
)
def test_a_wrong_site_file_is_refused_by_key(tmp_path, changes, expected):
    with pytest.raises(slurm_site.SiteError, match=expected):
        slurm_site.read_site(site_file(tmp_path, **changes))


def test_a_site_file_that_is_absent_or_no_mapping(tmp_path, monkeypatch):
    monkeypatch.setenv(slurm_site.SITE_VARIABLE, str(tmp_path / "nowhere.yaml"))
    with pytest.raises(slurm_site.SiteError, match=r"nowhere\.yaml cannot be read.*KSMM_SLURM_SITE"):
        slurm_site.read_site()
    for text, expected in (("- 1\n", "must map keys"), ("a: [", "not valid YAML")):
        (tmp_path / "site.yaml").write_text(text)
        with pytest.raises(slurm_site.SiteError, match=expected):
            slurm_site.read_site(tmp_path / "site.yaml")


def rules_with_a_gpu() -> set[str]:
    """Names of the rules that ask for a GPU where the config measures on CUDA."""
    text = "".join(path.read_text() for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")))
    bodies = re.split(r"^ *(?:rule|checkpoint) (\w+):$", text, flags=re.MULTILINE)
    return {name for name, body in zip(bodies[1::2], bodies[2::2], strict=True) if "gpu=TIMING_GPUS" in body}


def test_every_rule_that_holds_a_gpu_is_known_to_the_profile():
    assert set(slurm_site.GPU_RULES) == rules_with_a_gpu()


def test_every_rule_that_holds_a_gpu_is_tried_again():
    text = "".join(path.read_text() for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")))
    bodies = re.split(r"^ *(?:rule|checkpoint) (\w+):$", text, flags=re.MULTILINE)
    once = {name for name, body in zip(bodies[1::2], bodies[2::2], strict=True) if "retries: " not in body}
    assert not once & {"build_kernel", *slurm_site.GPU_RULES}


def test_a_partition_with_a_limit(monkeypatch):
    protocol = {"max_seconds": 600.0, "max_samples": 50, "runs_per_sample": 10}
    assert cost_model.network_minutes(90, protocol) > 60
    monkeypatch.setenv(slurm_site.GROUP_VARIABLE, "1")
    monkeypatch.setenv(cost_model.MOST_MINUTES_VARIABLE, "1")
    slurm_site.export({**FULL, "most_minutes": 60})
    assert cost_model.network_minutes(90, protocol) == 60
    assert cost_model.network_minutes(1, protocol) < 60
    assert cost_model.build_minutes("cuda", 3) == 60
    assert (cost_model.at_most(20), cost_model.at_most(90)) == (20, 60)
    assert slurm_site.default_resources({**FULL, "most_minutes": 10})["runtime"] == 10


def test_jobs_that_hold_a_gpu_go_where_gpus_are():
    assert slurm_site.default_resources(FULL)["slurm_partition"] == "'short'"
    assert slurm_site.default_resources({**FULL, "cpu_partition": None})["slurm_partition"] == "'gpu-long'"
    assert "slurm_partition" not in slurm_site.default_resources(DEFAULTS)
    resources = slurm_site.gpu_resources(FULL)
    assert resources["time_patterns"] == {"slurm_partition": "'gpu-long'", "gpu_model": "'h200'"}
    assert slurm_site.gpu_resources({**DEFAULTS, "minutes_per_timing_job": 7}) == {"time_patterns": {"runtime": 7}}


def test_the_build_holds_a_gpu_only_if_it_has_to_ask_it_what_it_is():
    assert "build_kernel" in slurm_site.gpu_resources(FULL)
    assert "build_kernel" not in slurm_site.gpu_resources({**FULL, "cuda_architectures": "90a"})


def rules() -> dict[str, str]:
    """Rule or checkpoint -> its text, of the whole workflow."""
    found = {}
    for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")):
        parts = re.split(r"^ *(?:rule|checkpoint) (\w+):$", path.read_text(), flags=re.MULTILINE)
        found |= dict(zip(parts[1::2], parts[2::2], strict=True))
    return found


def test_the_profile_knows_every_rule_that_may_hold_a_gpu():
    holding = {name for name, text in rules().items() if re.search(r"^ +gpu=", text, flags=re.MULTILINE)}
    assert holding == {"build_kernel", *slurm_site.GPU_RULES}, "slurm_site.GPU_RULES names the rules that measure"


def test_every_rule_that_runs_something_says_its_time_and_memory():
    for name, text in rules().items():
        if re.search(r"^ +shell:$", text, flags=re.MULTILINE):
            for resource in ("mem_mb", "runtime"):
                assert re.search(rf"^ +{resource}=", text, flags=re.MULTILINE), (name, resource)
            # a bare number would know nothing of most_minutes
            assert not re.search(r"^ +runtime=\d", text, flags=re.MULTILINE), name


def dry_run(tmp_path, *arguments: str, **changes) -> str:
    """What `snakemake --dry-run` says with the profile, its site file changed."""
    environment = {**os.environ, "KSMM_SLURM_SITE": str(site_file(tmp_path, **changes))}
    command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--profile", PROFILE]
    command += ["--configfile", TEST_CONFIG, "--dry-run", "--quiet", "host", *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=tmp_path, check=False
    )
    return done.stdout


@pytest.mark.workflow
def test_a_gpu_that_is_not_here_can_be_measured_on_there(tmp_path):
    said = dry_run(tmp_path, "--config", "device=cuda:nvidia-z1")
    assert "results/nvidia-z1/report.html" in said, said
    (group,) = re.findall(r"Group job timing0(?s:.*?)\n\[", said)
    assert group.count("Timing ") == 2


@pytest.mark.workflow
def test_the_pipeline_says_which_key_of_the_site_file_is_wrong(tmp_path):
    assert "partition is 'a b'; it must match" in dry_run(tmp_path, partition="a b")


def test_a_job_on_another_device_than_its_results_are_filed_under_is_refused():
    check_device("cpu", None)
    check_device("cpu", device_slug("cpu"))
    with pytest.raises(DeviceAbsentError, match=r"measures on nvidia-z1, but the device of this job is cpu-"):
        check_device("cpu", "nvidia-z1")
