"""What workflow/profiles/slurm asks Slurm for: the user's site.yaml, checked, as Snakemake's resources."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

import cost_model
import yaml

SITE_VARIABLE = "KSMM_SLURM_SITE"
GROUP_VARIABLE = "KSMM_TIMING_JOBS_PER_GROUP"
ARCHITECTURES_VARIABLE = "KSMM_CUDA_ARCHITECTURES"
DEFAULT_SITE = Path(__file__).resolve().parent / "profiles" / "slurm" / "site.yaml"

GPU_RULES = (
    "measure_ceilings",
    "time_patterns",
    "measure_energy_ceilings",
    "energy_patterns",
    "measure_networks",
    "profile_networks",
    "tune_kernel",
    "count_kernel",
)
"""The rules that hold a GPU where the config measures on CUDA; of the others only the build may, to ask what it is."""

_MOST_GROUPS = 1000

_WORD = r"[A-Za-z0-9_.,:+@&|*\[\]-]+"
_TEXTS = {
    "account": _WORD,
    "partition": _WORD,
    "cpu_partition": _WORD,
    "qos": _WORD,
    "constraint": _WORD,
    "gpu_model": r"[A-Za-z0-9_.]+",
    "cuda_architectures": r"\d+[af]?(;\d+[af]?)*",
    # goes into a shell command: words and what options are made of, but nothing that a shell would act on
    "extra": r"[A-Za-z0-9_.,:+@%=/ -]*",
}
_NUMBERS = ("gpus", "cpus", "timing_jobs_per_slurm_job", "minutes_per_timing_job", "most_minutes", "jobs")
_NEVER_NULL = ("extra", "cpus", "timing_jobs_per_slurm_job", "jobs")


class SiteError(ValueError):
    """A site file that cannot be used; the message names the file, the key, its value, and what is allowed."""


def read_site(path: Path | None = None) -> dict[str, Any]:
    """The user's settings, checked.

    Args:
        path: of the file; by default what KSMM_SLURM_SITE names, else site.yaml beside the profile.

    Raises:
        SiteError: there is no such file, or a key is missing, unknown or has a value that is not allowed.
    """
    path = path or Path(os.environ.get(SITE_VARIABLE) or DEFAULT_SITE)
    try:
        site = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SiteError(f"{path} cannot be read ({error.strerror}); {SITE_VARIABLE} names the file to use") from None
    except yaml.YAMLError as error:
        raise SiteError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(site, dict):
        raise SiteError(f"{path} must map keys to values, as {DEFAULT_SITE} does")
    complaints = [f"  {line}" for line in _complaints(site)]
    if complaints:
        raise SiteError("\n".join([f"{path} cannot be used:", *complaints]))
    return site


def _complaints(site: dict[str, Any]) -> list[str]:
    known = [*_TEXTS, *_NUMBERS]
    lines = []
    for key in site:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            lines.append(f"{key} is unknown; {hint}Allowed: {', '.join(known)}")
    for key in known:
        if key not in site:
            lines.append(f"{key} is missing")
        elif site[key] is None and key in _NEVER_NULL:
            lines.append(f"{key} is null; it needs a value")
        elif site[key] is not None:
            lines += _complaints_about(key, site[key])
    return lines


def _complaints_about(key: str, value: object) -> list[str]:
    if key in _NUMBERS:
        fine = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        return [] if fine else [f"{key} is {value!r}; it must be an integer of at least 1"]
    if re.fullmatch(_TEXTS[key], str(value)):
        return []
    return [f"{key} is {value!r}; it must match {_TEXTS[key]}"]


def export(site: dict[str, Any]) -> None:
    """Puts into the environment, which Slurm hands on to every job, what the rules and the build read from it."""
    os.environ[GROUP_VARIABLE] = str(site["timing_jobs_per_slurm_job"])
    if site["most_minutes"]:
        os.environ[cost_model.MOST_MINUTES_VARIABLE] = str(site["most_minutes"])
    if site["cuda_architectures"]:
        os.environ[ARCHITECTURES_VARIABLE] = str(site["cuda_architectures"])


def group_components() -> dict[str, int]:
    """Group -> how many jobs it may hold: any number, so that the names of the groups alone say what is in one.

    The rule time_patterns calls its groups timing0, timing1 ..., energy_patterns energy0, energy1 ...; Snakemake knows
    no pattern for names.
    """
    names = [f"{study}{number}" for study in ("timing", "energy") for number in range(_MOST_GROUPS)]
    return dict.fromkeys(["drawing", "notebooks", *names], 1000)


def default_resources(site: dict[str, Any]) -> dict[str, int | str]:
    """What a job asks for whose rule says nothing else: mem_mb in megabytes, runtime in minutes, where it runs."""
    texts = {
        "slurm_account": site["account"],
        "slurm_partition": site["cpu_partition"] or site["partition"],
        "qos": site["qos"],
        "slurm_extra": site["extra"],
    }
    # disk_mb is not asked for; without a value Snakemake would compute one from files that are not there yet
    return {"mem_mb": 2000, "disk_mb": 1000, "runtime": min(20, site["most_minutes"] or 20), **_quoted(texts)}


def gpu_resources(site: dict[str, Any]) -> dict[str, dict[str, int | str]]:
    """Rule -> what it asks for, for the rules that hold a GPU; without minutes the cost model's runtime stays."""
    texts = _quoted(
        {"slurm_partition": site["partition"], "constraint": site["constraint"], "gpu_model": site["gpu_model"]}
    )
    numbers = {"gpu": site["gpus"]} if site["gpus"] else {}
    minutes = {"runtime": site["minutes_per_timing_job"]} if site["minutes_per_timing_job"] else {}
    holders = GPU_RULES if site["cuda_architectures"] else ("build_kernel", *GPU_RULES)
    rules = {rule: {**numbers, **texts} for rule in holders}
    rules["time_patterns"] |= minutes
    return {rule: resources for rule, resources in rules.items() if resources}


def _quoted(texts: dict[str, object]) -> dict[str, str]:
    """Those that are given, as Python strings: Snakemake evaluates a resource as an expression."""
    return {key: repr(str(value)) for key, value in texts.items() if value not in (None, "")}
