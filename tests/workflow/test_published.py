"""Drawing the records of a published device: nothing is measured, nothing published is touched."""

import csv
import shutil
from pathlib import Path

import pytest

from ksmm.energy_aggregate import aggregate_energy
from ksmm.energy_table import read_energy_table, write_energy_table
from ksmm.upstream import import_upstream
from tests.workflow.conftest import ROOT, run_snakemake

pytestmark = pytest.mark.workflow

THEIRS = """\
pattern,batch-size,algo,bs_position,precision,device_name,median,nruns,ecs
"[[1, 48, 48, 1]]",25088,kernel,bs_first,fp32,Tesla_V100-PCIE-16GB,4431.0,512.0,
"[[1, 48, 48, 1]]",25088,monarch,bs_last,fp32,Tesla_V100-PCIE-16GB,2515.0,256.0,
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def measurements(finished_run, tmp_path) -> Path:
    """A folder of published measurements: the finished run's records and ceilings, and a record that is broken."""
    results, _ = finished_run
    device = tmp_path / "published ones" / results.name
    shutil.copytree(results / "time" / "records", device / "time" / "records")
    shutil.copytree(results / "networks" / "records", device / "networks" / "records")
    shutil.copy(results / "ceilings.json", device)
    shutil.copytree(results / "energy", device / "energy", ignore=shutil.ignore_patterns("journal", "rejected*"))
    (device / "time" / "records" / "1x2x2x1.json").write_text('{"schema_version": 1, "job"')
    shutil.copy(ROOT / "measurements" / "nvidia-h200" / "counters.csv", device)
    return device.parent


def test_nothing_is_measured_of_a_published_device(tmp_path):
    config = {"device": "nvidia-h200", "measurements": str(ROOT / "measurements")}
    done = run_snakemake(tmp_path, "tune", "--dry-run", config=config)
    assert done.returncode != 0
    said = (
        "config key device is 'nvidia-h200', a published device, of which nothing is measured: there is no target tune"
    )
    assert said in done.stdout
    assert "InputFunctionException" not in done.stdout


def test_published_records_are_drawn_and_left_alone(finished_run, measurements, tmp_path):
    results, _ = finished_run
    folder = tmp_path / "working directory"
    folder.mkdir()
    # through a link, the repository too has a space in its path
    (tmp_path / "a copy").symlink_to(ROOT)
    config = {
        "device": results.name,
        "measurements": str(measurements),
        "figures": [
            "fig02_support",
            "fig06_speedup_vs_ratio",
            "fig07_energy",
            "table03_speedups",
            "table04_vit_submodules",
        ],
        "notebooks": [],
        "energy": {"imported": "of others"},
    }
    # what was imported when they were published is in their table; here nobody imported anything
    (tmp_path / "theirs.csv").write_text(THEIRS)
    import_upstream(tmp_path / "theirs.csv", tmp_path / "imported")
    records = list((tmp_path / "imported").glob("*/energy/records/*.json"))
    table = aggregate_energy(records, None, None, tmp_path / "rejected")
    write_energy_table(table, measurements / results.name / "energy.csv")
    before = contents(measurements)
    done = run_snakemake(folder, config=config, snakefile=tmp_path / "a copy" / "Snakefile")
    assert done.returncode == 0, done.stdout
    drawn = folder / "results" / results.name
    assert contents(measurements) == before
    assert not (drawn / "time" / "records").exists()
    assert not (drawn / "networks" / "records").exists()
    assert not (drawn / "build.json").exists()
    assert (drawn / "time.csv").read_text() == (results / "time.csv").read_text()
    for file in ("networks.csv", "tables/table04_vit_submodules.csv"):
        assert (drawn / file).read_text() == (results / file).read_text()
    assert (drawn / "figures" / "fig02_support.pdf").exists()
    assert (drawn / "figures" / "counters_kernel.png").exists()
    energies = read_energy_table(drawn / "energy.csv")
    assert (
        energies[energies.device == results.name]
        .reset_index(drop=True)
        .equals(read_energy_table(results / "energy.csv"))
    )
    assert (drawn / "figures" / "fig07_energy.png").exists()
    with (drawn / "figures" / "fig07_energy.csv").open(newline="") as file:
        assert "tesla-v100" in {row["device"] for row in csv.DictReader(file)}
    assert (drawn / "report.html").exists()
    with (drawn / "rejected.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert "1x2x2x1.json is not whole JSON" in row["reason"]
    assert "1x2x2x1.json" in done.stdout
