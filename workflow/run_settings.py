"""What one run of the pipeline does, worked out from its config: device, folders, timing jobs.

The Snakefile imports this; nothing here knows of Snakemake. PyTorch is imported only where a run measures.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from check_config import ROOT, ConfigError, check_config


@dataclass(frozen=True)
class RunSettings:
    """A run: which device, where its records are read and its results written, which jobs time which patterns.

    `jobs` maps the name of a timing job to its patterns as "a,b,c,d"; it is None where published records are drawn.
    `energy_jobs` is the same for the energy study, without any entry where it is off. `imported` are energy records
    that others measured. `networks` names the jobs of the study networks, and `networks_in_all` says whether a run
    measures them without being asked to. `kernel_sources` is the hash of the kernel's sources and flags.
    """

    device: str
    device_type: str
    results: Path
    records_folder: Path
    jobs: dict[str, list[str]] | None
    implementations: list[str]
    kernel_sources: str
    figures: list[str]
    notebooks: list[str]
    energy_jobs: dict[str, list[str]] | None
    energy_implementations: list[str]
    imported: list[str]
    networks: list[str]
    networks_in_all: bool

    @property
    def measures(self) -> bool:
        """False where published records are drawn and nothing is measured."""
        return self.jobs is not None

    @property
    def records(self) -> list[str]:
        """Paths of the timing records that the table is made of."""
        return self._records("time", self.jobs)

    @property
    def energy_records(self) -> list[str]:
        """Paths of the energy records of this device."""
        return self._records("energy", self.energy_jobs)

    def _records(self, study: str, jobs: Iterable[str] | None) -> list[str]:
        folder = self.records_folder / study / "records"
        names = jobs if jobs is not None else sorted(path.stem for path in folder.glob("*.json"))
        return [str(folder / f"{name}.json") for name in names]

    @property
    def network_records(self) -> list[str]:
        """Paths of the records that the table of networks is made of."""
        return self._records("networks", self.networks)

    @property
    def networks_results(self) -> list[str]:
        """What the target `networks` makes; nothing where a device was published without networks."""
        if not self.networks:
            return []
        names = ["networks.csv", "networks_profile.csv"] if self.measures else ["networks.csv"]
        return [str(self.results / name) for name in names] + (self.network_records if self.measures else [])

    @property
    def tables(self) -> list[str]:
        """The tables that figures are drawn from: that of networks where these are part of `all`, or are published."""
        names = ["time.csv", "energy.csv"] + (["networks.csv"] if self.networks and self.networks_in_all else [])
        return [str(self.results / name) for name in names]

    def ceilings(self, name: str) -> list[str]:
        """The path of what the device can do at best, below its folder; none where nobody published it."""
        path = self.records_folder / name
        return [str(path)] if self.measures or path.exists() else []


def run_settings(config: dict) -> RunSettings:
    """Checks the config and works out the run.

    Raises:
        ConfigError: a key is missing, unknown or has a value that cannot be run.
    """
    check_config(config)
    figures = _chosen("figures", config["figures"], _stems("figures/fig*.py") + _stems("figures/table*.py"))
    notebooks = _chosen("notebooks", config["notebooks"], _stems("notebooks/*.ipynb"))
    measurements = Path(os.path.relpath(ROOT / config["measurements"]))
    device, device_type = resolve_device(config["device"], measurements)
    results = Path(config["results"]) / device
    check_writable(results)
    shared = {
        "device": device,
        "device_type": device_type,
        "results": results,
        "figures": figures,
        "notebooks": notebooks,
        "imported": imported_records(Path(config["energy"]["imported"]), device),
    }
    if device_type == "published":
        folder = measurements / device
        return RunSettings(
            **shared,
            records_folder=folder,
            jobs=None,
            implementations=[],
            kernel_sources="",
            energy_jobs=None,
            energy_implementations=[],
            networks=sorted(path.stem for path in folder.glob("networks/records/*.json")),
            networks_in_all=True,
        )
    from ksmm.build import source_hash

    kernel_sources = source_hash()
    check_library(results / "build.json", kernel_sources)
    patterns = chosen_patterns(config[device_type]["patterns"], f"{device_type}.patterns")
    return RunSettings(
        **shared,
        records_folder=results,
        jobs=timing_jobs(patterns, config["patterns_per_job"]),
        implementations=chosen_implementations(config["implementations"]),
        kernel_sources=kernel_sources,
        energy_jobs=energy_jobs(config, device_type),
        energy_implementations=chosen_implementations(config["energy"]["implementations"], "energy.implementations"),
        networks=chosen_networks(config["networks"], device_type),
        networks_in_all=config["networks"]["in_all"],
    )


def use_own_python() -> None:
    """Makes `python` in the rules the one that runs Snakemake, whether or not its environment is activated."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def check_library(record: Path, kernel_sources: str) -> None:
    """Checks that the library that the record of a build tells of is still there, if it was made of these sources.

    The pipeline would not build it again, as its record is there, and `kernel` would be skipped.

    Raises:
        ConfigError: it is gone, or was built with another PyTorch, or the record cannot be read.
    """
    from ksmm.build import find, reason_missing

    if not record.exists():
        return
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except ValueError:
        raise ConfigError(f"{record} is not whole JSON; remove it, nothing measured is lost by that") from None
    built = content.get("library") is not None and content.get("source_hash") == kernel_sources
    if built and find() is None:
        raise ConfigError(
            f"{record} says that the kernel library is built, but {reason_missing()}; "
            f"that keeps what was measured. To measure everything again instead, remove {record.parent}"
        )


def published_devices(measurements: Path) -> list[str]:
    """Names of the folders in `measurements` that hold records of times or energies."""
    return sorted({path.parents[2].name for path in measurements.glob("*/*/records/*.json")})


def imported_records(folder: Path, device: str) -> list[str]:
    """Paths of the energy records of other devices that `python -m ksmm import-upstream` wrote, if it was run."""
    paths = sorted(folder.glob("*/energy/records/*.json"))
    return [str(path) for path in paths if path.parents[2].name != device]


def resolve_device(name: str, measurements: Path) -> tuple[str, str]:
    """The slug of a device and what to do there: "cpu" or "cuda" to measure, "published" to draw its records.

    "cuda:nvidia-h200" is for jobs that measure elsewhere, on a cluster's nodes: nothing is asked of this machine.

    Raises:
        ConfigError: a GPU is asked for where PyTorch sees none, or the name is not that of a published device.
    """
    published = published_devices(measurements)
    if name.startswith("cuda:"):
        return name.removeprefix("cuda:"), "cuda"
    if name not in ("auto", "cpu", "cuda"):
        if name not in published:
            known = ", ".join(published) or "there are none"
            raise ConfigError(
                f"config key device is {name!r}; it must be auto, cpu or cuda to measure on this machine, "
                f"cuda:{name} to measure on such GPUs of a cluster, "
                f"or a device whose records are published under {measurements}: {known}"
            )
        return name, "published"
    import torch

    from ksmm.measure.provenance import device_slug

    has_gpu = name != "cpu" and torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise ConfigError(
            f"config key device is 'cuda', but PyTorch {torch.__version__} sees no GPU here. Check `nvidia-smi` and "
            "that PyTorch was built for CUDA (torch.version.cuda), or measure on the CPU with device=cpu"
            + "".join(f", or draw published records with device={device}" for device in published)
        )
    device_type = "cuda" if has_gpu else "cpu"
    return device_slug(device_type), device_type


def check_writable(folder: Path) -> None:
    """Checks that the folder can be written or created, without creating it.

    Raises:
        ConfigError: the nearest folder above it that exists cannot be written, or is a file.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        what = "cannot be written to" if existing.is_dir() else "is a file"
        raise ConfigError(
            f"results cannot be written to {folder}: {existing} {what}; "
            "choose another folder with the config key results (--config results=FOLDER)"
        )


def chosen_implementations(names: str | list[str], key: str = "implementations") -> list[str]:
    """Names of registered implementations: those given, all for "all".

    Raises:
        ConfigError: one is not registered.
    """
    import ksmm

    return _chosen(key, names, ksmm.implementations())


def chosen_networks(section: dict, device_type: str) -> list[str]:
    """Names of the jobs of the study networks: those given, all for "all".

    Raises:
        ConfigError: a name is not known, or an implementation is not registered.
    """
    import ksmm
    from ksmm.networks.subjects import SUBJECTS

    _chosen(f"networks.{device_type}.implementations", section[device_type]["implementations"], ksmm.implementations())
    return _chosen("networks.subjects", section["subjects"], SUBJECTS)


def chosen_patterns(section: dict, key: str) -> list:
    """The patterns (ksmm.Pattern) that a section such as cpu.patterns asks for, in the order of their list.

    Raises:
        ConfigError: the limits leave no pattern.
    """
    import ksmm
    from ksmm.pattern_lists import stratified_sample

    if section["explicit"] is not None:
        return [ksmm.Pattern.parse(text) for text in section["explicit"]]
    patterns = {"benchmark": ksmm.benchmark_patterns, "energy": ksmm.energy_patterns}[section["list"]]()
    max_nnz, max_features = section["max_nnz"], section["max_features"]
    kept = [
        pattern
        for pattern in patterns
        if (max_nnz is None or pattern.nnz <= max_nnz) and (max_features is None or max(pattern.shape) <= max_features)
    ]
    if not kept:
        raise ConfigError(
            f"config keys {key}.max_nnz = {max_nnz} and {key}.max_features = {max_features} leave none of the "
            f"{len(patterns)} patterns of the list {section['list']!r}; raise them"
        )
    return kept if section["sample"] is None else stratified_sample(kept, section["sample"])


def timing_jobs(patterns: list, patterns_per_job: int) -> dict[str, list[str]]:
    """Job name -> its patterns as "a,b,c,d": "1x48x48x1" for one, "<first>-to-<last>" for several."""
    jobs = {}
    for start in range(0, len(patterns), patterns_per_job):
        members = patterns[start : start + patterns_per_job]
        name = members[0].slug if len(members) == 1 else f"{members[0].slug}-to-{members[-1].slug}"
        jobs[name] = [str(pattern) for pattern in members]
    return jobs


def energy_jobs(config: dict, device_type: str) -> dict[str, list[str]]:
    """As timing_jobs, for the energy study; none where it is off, and a single one where there is no energy counter.

    That one writes down for every measurement why it is skipped, which takes a few seconds.

    Raises:
        ConfigError: the limits leave no pattern.
    """
    from ksmm.measure.energy_counter import reason_absent

    energy = config["energy"]
    if not energy["measure"]:
        return {}
    patterns = chosen_patterns(energy[device_type]["patterns"], f"energy.{device_type}.patterns")
    elsewhere = config["device"].startswith(
        "cuda:"
    )  # on nodes of a cluster, which have what this machine need not have
    nothing_to_measure = not elsewhere and reason_absent(device_type) is not None
    return timing_jobs(patterns, len(patterns) if nothing_to_measure else energy["patterns_per_job"])


def _chosen(key: str, names: str | list[str], known: Iterable[str]) -> list[str]:
    """Those of the known names that the config asks for, all of them for "all", in the order of the known.

    Raises:
        ConfigError: a name is not known.
    """
    known = list(known)
    unknown = [] if names == "all" else [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"config key {key} has {', '.join(map(repr, unknown))}; it must be all, or a list of some of "
            + (", ".join(known) or "none: there are none")
        )
    return [name for name in known if names == "all" or name in names]


def _stems(pattern: str) -> list[str]:
    """Names without ending of the repository's files that match the pattern, sorted."""
    return sorted(path.stem for path in ROOT.glob(pattern))
