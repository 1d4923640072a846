"""`make publish` copies what others need of a run, study by study."""

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

    def publish(code=0):
        command = ["make", "-f", str(ROOT / "Makefile"), "publish", "DEVICE=some-gpu"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        folder = tmp_path / "measurements" / "some-gpu"
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}

    publish.results, publish.published = results, tmp_path / "measurements" / "some-gpu"
    return publish


TIME = {"ceilings.json", "time.csv", "left_out.csv", "time/records/file", "figures/file", "tables/file"}


def test_a_run_without_energies(run):
    assert set(run()) == TIME


def add(results, *files):
    for file in files:
        (results / file).parent.mkdir(parents=True, exist_ok=True)
        (results / file).write_text(file)


ENERGY = {"energy/records/file", "energy/ceilings.json", "energy.csv"}
NETWORKS = {"networks/records/file", "networks.csv", "networks_profile.csv"}


def test_energies_are_copied_with_the_imported_rows_that_figure_7_shows(run):
    add(run.results, *ENERGY, "energy/journal/file")
    (run.results / "energy.csv").write_text('device,pattern\nsome-gpu,"1,2,3,4"\ntesla-v100,"1,2,3,4"\n')
    published = run()
    assert set(published) == TIME | ENERGY
    assert published["energy.csv"] == (run.results / "energy.csv").read_text()


def test_notebooks_networks_and_tuning_are_copied_where_they_are(run):
    more = {"notebooks/vit-float32.ipynb", "tuning.json", "tuned_against_untuned.csv", "counters.csv"}
    add(run.results, *NETWORKS, *more, "figures/tuned_vs_untuned.pdf")
    assert set(run()) == TIME | NETWORKS | more | {"figures/tuned_vs_untuned.pdf"}


def test_a_study_is_added_to_those_that_are_published_and_their_figures_stay(run):
    run()
    for folder in run.results.iterdir():
        folder.rename(run.results.with_name(f"before-{folder.name}"))
    add(run.results, *ENERGY, *NETWORKS)
    add(run.results, "figures/file", "ceilings.json")
    for file in ("figures/file", "ceilings.json"):
        (run.results / file).write_text("without times")
    published = run()
    assert set(published) == TIME | ENERGY | NETWORKS
    assert published["figures/file"] == "figures"
    assert published["ceilings.json"] == "ceilings.json"


def test_a_study_that_is_published_is_refused_and_nothing_is_copied(run):
    before = run()
    add(run.results, *ENERGY)
    (run.results / "time.csv").write_text("another")
    assert run(code=2) == before


def test_without_a_run_nothing_is_published(run):
    (run.results / "time").rename(run.results / "none")
    assert run(code=2) == {}
