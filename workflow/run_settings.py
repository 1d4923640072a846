"""What one run of the pipeline does, worked out from its config: device, folders, timing jobs.

The Snakefile imports this; nothing here knows of Snakemake. PyTorch is imported only where a run measures.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from check_config import ROOT
from config_values import understand
from run_choices import (
    chosen,
    chosen_implementations,
    chosen_networks,
    chosen_patterns,
    energy_jobs,
    stems,
    timing_jobs,
)
from run_devices import check_no_own_run, check_writable, imported_records, kernel_changed, resolve_device


@dataclass(frozen=True)
class RunSettings:
    """A run: which device, where its records are read and its results written, which jobs time which patterns.

    `jobs` maps the name of a timing job to its patterns as "a,b,c,d"; it is None where published records are drawn.
    `energy_jobs` is the same for the energy study, without any entry where it is off. `imported` are energy records
    that others measured. `networks` names the jobs of the study networks, and `networks_in_all` says whether a run
    measures them without being asked to. `kernel_sources` is the hash of the kernel's sources and flags,
    `implementation_hashes` maps each implementation to that of its Python sources, and `torch` is PyTorch's version:
    what is measured with others is measured again. `kernel_changed` says that the library was last built of others.
    """

    device: str
    device_type: str
    results: Path
    records_folder: Path
    jobs: dict[str, list[str]] | None
    implementations: list[str]
    kernel_sources: str
    kernel_changed: bool
    implementation_hashes: dict[str, str]
    torch: str
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
    def published_energies(self) -> list[str]:
        """The published table of energies, whose imported rows are drawn again; none where this run measures."""
        path = self.records_folder / "energy.csv"
        return [str(path)] if not self.measures and path.exists() else []

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
    """Checks the config, with its values put as they are meant, and works out the run.

    Raises:
        ConfigError: a key is missing, unknown or has a value that cannot be run.
    """
    understand(config)
    figures = chosen("figures", config["figures"], stems("figures/fig*.py") + stems("figures/table*.py"))
    notebooks = chosen("notebooks", config["notebooks"], stems("notebooks/*.ipynb"))
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
        check_no_own_run(results, device)
        return _settings_of_a_redraw(shared, measurements / device)
    return _settings_of_a_measurement(shared, config)


def _settings_of_a_redraw(shared: dict[str, Any], folder: Path) -> RunSettings:
    """Of published records in a folder: nothing is measured."""
    return RunSettings(
        **shared,
        records_folder=folder,
        jobs=None,
        implementations=[],
        kernel_sources="",
        kernel_changed=False,
        implementation_hashes={},
        torch="",
        energy_jobs=None,
        energy_implementations=[],
        networks=sorted(path.stem for path in folder.glob("networks/records/*.json")),
        networks_in_all=True,
    )


def _settings_of_a_measurement(shared: dict[str, Any], config: dict) -> RunSettings:
    """Of what is measured on this machine."""
    import torch

    from ksmm.build import source_hash
    from ksmm.measure.implementation_hash import implementation_hashes

    results, device_type = shared["results"], shared["device_type"]
    kernel_sources = source_hash()
    changed = kernel_changed(results / "build.json", kernel_sources)
    patterns = chosen_patterns(config[device_type]["patterns"], f"{device_type}.patterns")
    return RunSettings(
        **shared,
        records_folder=results,
        jobs=timing_jobs(patterns, config["patterns_per_job"]),
        implementations=chosen_implementations(config["implementations"]),
        kernel_sources=kernel_sources,
        kernel_changed=changed,
        implementation_hashes=implementation_hashes(),
        torch=str(torch.__version__),
        energy_jobs=energy_jobs(config, device_type),
        energy_implementations=chosen_implementations(config["energy"]["implementations"], "energy.implementations"),
        networks=chosen_networks(config["networks"], device_type),
        networks_in_all=config["networks"]["in_all"],
    )
