"""`make publish` copies what others need of a run, and nothing that was imported."""

import subprocess

import pytest

from tests.workflow.conftest import ROOT


@pytest.fixture
def run(tmp_path):
    """The results of a run, and what copies them."""
    results = tmp_path / "results" / "some-gpu"
    for folder in ("time/records", "time/journal", "figures", "tables", "logs"):
        (results / folder).mkdir(parents=True)
        (results / folder / "file").write_text(folder)
    for file in ("ceilings.json", "time.csv", "left_out.csv"):
        (results / file).write_text(file)

    def publish():
        command = ["make", "-f", str(ROOT / "Makefile"), "publish", "DEVICE=some-gpu"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        folder = tmp_path / "measurements" / "some-gpu"
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}

    publish.results = results
    return publish


TIME = {"ceilings.json", "time.csv", "left_out.csv", "time/records/file", "figures/file", "tables/file"}


def test_a_run_without_energies(run):
    assert set(run()) == TIME


def test_energies_are_copied_and_those_of_others_are_not(run):
    for folder in ("energy/records", "energy/journal"):
        (run.results / folder).mkdir(parents=True)
        (run.results / folder / "file").write_text(folder)
    (run.results / "energy" / "ceilings.json").write_text("{}")
    (run.results / "energy.csv").write_text('device,pattern\nsome-gpu,"1,2,3,4"\ntesla-v100,"1,2,3,4"\n')
    published = run()
    assert set(published) == TIME | {"energy/records/file", "energy/ceilings.json", "energy.csv"}
    assert published["energy.csv"] == 'device,pattern\nsome-gpu,"1,2,3,4"\n'
