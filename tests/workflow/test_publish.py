"""`make publish` copies what others need of a run, study by study, whole or not at all."""

import importlib
import json
import shutil
import subprocess

import pytest

from ksmm.measure.files import write_atomically
from ksmm.measure.records import checksum, dump, write_record
from tests.measure.sample_records import energy, measurement, network_measurement, record_content, write_sample
from tests.workflow.conftest import ROOT

SLUG = "cpu-x86_64"
SECTIONS = {
    "ceilings.json": {"copy_bytes_per_s": 1e10, "operations_per_s": {}},
    "energy/ceilings.json": {"status": "ok", "idle_w": 1.0, "joules_per_byte": 1e-9, "joules_per_operation": {}},
}


def ceilings(results, name):
    content = {"schema_version": 1, "device": {"slug": SLUG}, **SECTIONS[name]}
    write_atomically(results / name, dump({**content, "checksum": checksum(content)}, ""))


def measured(results, study, name="1x192x48x2", **changes):
    """A record of the study, and what its table is made of."""
    record = results / study / "records" / f"{name}.json"
    if study == "networks":
        entry = network_measurement(**changes).to_dict()
        write_record(record, record_content(job=name, measurements=[entry]))
    else:
        joules = energy() if study == "energy" else None
        runs = tuple(changes.pop("pattern", (1, 192, 48, 2)))
        write_sample(record, measurement(pattern=runs, energy=joules, **changes))
        ceilings(results, "ceilings.json")
    if study == "energy":
        ceilings(results, "energy/ceilings.json")
    return record


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "workflow" / "scripts"))
    return importlib.import_module("studies_of_run"), importlib.import_module("publish")


@pytest.fixture
def run(tmp_path, monkeypatch, scripts):
    """The results of a run of the times, and what publishes them and returns what is published by then."""
    studies, script = scripts
    results, published = tmp_path / "results" / SLUG, tmp_path / "measurements" / SLUG
    monkeypatch.chdir(tmp_path)

    def aggregate(study, *records):
        """Makes the table of a study, of all its records or of those given."""
        form = studies.STUDIES[study]
        made = form.make(records or sorted((results / study / "records").glob("*")), results, results / "rejected")
        form.write(made, results / f"{study}.csv")

    def publish(code=0):
        monkeypatch.setattr("sys.argv", ["publish.py", "--device", SLUG])
        if code:
            with pytest.raises(SystemExit) as ended:
                script.main()
            assert ended.value.code == code
        else:
            script.main()
        assert not list(published.parent.glob(".*"))
        return {str(path.relative_to(published)): path.read_text() for path in published.rglob("*") if path.is_file()}

    publish.results, publish.published, publish.aggregate = results, published, aggregate
    add(results, "time/journal/file", "figures/file", "tables/file", "logs/file", "left_out.csv")
    measured(results, "time")
    aggregate("time")
    return publish


TIME = {"ceilings.json", "time.csv", "left_out.csv", "time/records/1x192x48x2.json", "figures/file", "tables/file"}


def test_a_run_without_energies(run):
    assert set(run()) == TIME


def add(results, *files):
    for file in files:
        (results / file).parent.mkdir(parents=True, exist_ok=True)
        (results / file).write_text(file)


ENERGY = {"energy/records/1x192x48x2.json", "energy/ceilings.json", "energy.csv"}
NETWORKS = {"networks/records/1x192x48x2.json", "networks.csv", "networks_profile.csv"}


def add_study(run, study):
    measured(run.results, study)
    run.aggregate(study)
    if study == "networks":
        add(run.results, "networks_profile.csv")


def test_energies_are_copied_with_the_imported_rows_that_figure_7_shows(run):
    add_study(run, "energy")
    add(run.results, "energy/journal/file")
    head, *rows = (run.results / "energy.csv").read_text().splitlines()
    theirs = [row.replace(SLUG, "tesla-v100").replace(",measured", ",imported") for row in rows]
    (run.results / "energy.csv").write_text("\n".join([head, *rows, *theirs, ""]))
    published = run()
    assert set(published) == TIME | ENERGY
    assert published["energy.csv"] == (run.results / "energy.csv").read_text()
    assert "tesla-v100" in published["energy.csv"]


def test_notebooks_networks_and_tuning_are_copied_where_they_are(run):
    more = {"notebooks/vit-float32.ipynb", "tuning.json", "tuned_against_untuned.csv", "counters.csv"}
    add_study(run, "networks")
    add(run.results, *more, "figures/tuned_vs_untuned.pdf")
    assert set(run()) == TIME | NETWORKS | more | {"figures/tuned_vs_untuned.pdf"}


def test_what_an_earlier_config_has_left_is_not_published(run):
    plan = {"fig13": {"missing": "no measurement in float16"}, "fig06": {"missing": None}}
    (run.results / "figures.json").write_text(json.dumps(plan))
    add(run.results, "figures/fig13.png", "figures/fig06.png", "notebooks/one.failed.ipynb", "notebooks/two.ipynb")
    assert set(run()) == TIME | {"figures/fig06.png", "notebooks/two.ipynb"}


def test_a_study_is_added_to_those_that_are_published_and_their_figures_stay(run, caplog):
    before = run()
    shutil.rmtree(run.results)
    add_study(run, "energy")
    add_study(run, "networks")
    add(run.results, "figures/file", "figures/another")
    (run.results / "figures" / "file").write_text("without times")
    (run.results / "ceilings.json").write_text((run.results / "ceilings.json").read_text() + "\n")
    caplog.set_level("INFO")
    published = run()
    assert set(published) == TIME | ENERGY | NETWORKS
    assert {name: published[name] for name in TIME} == before
    redraw, copy = (record.getMessage() for record in caplog.records[-2:])
    assert redraw == f"make figures DEVICE={SLUG} RESULTS=results/redrawn"
    tables, energies = f"results/redrawn/{SLUG}/tables", f"results/redrawn/{SLUG}/energy.csv"
    assert copy.endswith(f"{tables} {energies} measurements/{SLUG}/")


def test_times_that_take_the_place_of_others_do_not_stand_beside_a_part_of_their_figures(run, caplog):
    add(run.results, "figures/of before")
    assert set(run()) == TIME | {"figures/of before"}
    shutil.rmtree(run.published / "time")
    shutil.rmtree(run.results / "figures")
    add(run.results, "figures/file", "figures/of now")
    caplog.set_level("INFO")
    assert set(run()) == TIME | {"figures/of before"}
    assert caplog.records[-1].getMessage().endswith(f"results/redrawn/{SLUG}/tables measurements/{SLUG}/")


def test_a_study_that_is_published_is_refused_and_nothing_is_copied(run, capsys):
    before = run()
    add_study(run, "energy")
    assert run(code=2) == before
    assert f"measurements/{SLUG}/time is there already; move it away first" in capsys.readouterr().err


def test_without_a_run_nothing_is_published(run, capsys):
    shutil.rmtree(run.results / "time")
    assert run(code=2) == {}
    assert "no run in" in capsys.readouterr().err


@pytest.mark.parametrize("study", ["time", "energy", "networks"])
def test_records_that_the_table_was_not_made_of_stay_behind(run, study, caplog):
    shutil.rmtree(run.results / "time")
    now = {"batch_size": 32, "started_at": "2026-03-02T03:04:05.678+00:00"}
    kept = [measured(run.results, study, name, **now) for name in ("a", "b")]
    measured(run.results, study, "of_another_config", batch_size=16)
    run.aggregate(study, kept[0])
    # the same measurements again, by jobs of more patterns: not those of the table either
    measured(run.results, study, "b", **(now | {"started_at": "2026-02-02T03:04:05.678+00:00"}))
    caplog.set_level("INFO")
    published = run()
    assert [name for name in published if "records" in name] == [f"{study}/records/a.json"]
    assert "b.json, of_another_config.json" in caplog.text


def test_energies_of_a_run_before_are_not_published_beside_an_empty_table(run):
    add_study(run, "energy")
    head = (run.results / "energy.csv").read_text().splitlines()[0]
    (run.results / "energy.csv").write_text(f"{head}\n")  # of a config with energy.measure false
    assert set(run()) == TIME


def test_before_anything_is_drawn_there_is_nothing_that_was_left_out(run):
    for name in ("figures", "tables"):
        shutil.rmtree(run.results / name)
    (run.results / "left_out.csv").unlink()
    assert set(run()) == TIME - {"figures/file", "tables/file", "left_out.csv"}


def changed_time(results):
    table = results / "time.csv"
    table.write_text(table.read_text().replace("0.0002,", "0.0001,", 1))


def removed_record(results):
    measured(results, "time", "another", pattern=(2, 3, 4, 5))
    (results / "time" / "records" / "1x192x48x2.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (changed_time, r"time.csv is not what its records give: in line 2 median_s is 0.0001, of the records 0.0002"),
        (removed_record, "it has 1 measurements, they have 0; make it again"),
        (lambda results: (results / "time.csv").unlink(), "time.csv; make it again, with the config of that run"),
        (lambda results: (results / "ceilings.json").unlink(), "ceilings.json; make it again"),
        (lambda results: (results / "time.csv").write_text("another"), "has no column device; aggregate"),
    ],
)
def test_what_cannot_be_redrawn_is_refused_and_nothing_is_copied(run, spoil, said, capsys):
    spoil(run.results)
    assert run(code=2) == {}
    assert said in capsys.readouterr().err


def test_a_file_that_names_a_folder_of_the_machine_is_refused_and_nothing_is_copied(run, capsys):
    add(run.results, "notebooks/study.ipynb")
    (run.results / "notebooks/study.ipynb").write_text(f'"output_path": "{run.results.absolute()}/study.ipynb"')
    assert run(code=2) == {}
    said = capsys.readouterr().err
    assert f"notebooks/study.ipynb names {run.results.absolute().parent}" in said and "make figures" in said


def test_a_copy_that_fails_leaves_what_was_published_as_it_was(run, monkeypatch):
    before = run()
    shutil.rmtree(run.results)
    add_study(run, "energy")
    monkeypatch.setattr("publish.copy_others", lambda *arguments: (_ for _ in ()).throw(OSError("disk full")))
    assert run(code=2) == before


def test_a_folder_that_cannot_be_renamed_leaves_what_was_published_as_it_was(run, scripts):
    before = run()
    with pytest.raises(OSError, match="nothing"):
        scripts[1].put_in_place(run.results / "nothing", run.published)
    assert {str(path.relative_to(run.published)) for path in run.published.rglob("*") if path.is_file()} == set(before)


def test_what_a_publishing_that_was_killed_left_aside_is_brought_back(run, capsys):
    """Killed between its two renames it leaves the only copy under another name, which the next one would remove."""
    before = run()
    aside = run.published.with_name(f".{SLUG}.before")
    run.published.rename(aside)
    shutil.rmtree(run.results)
    add_study(run, "energy")
    assert set(run()) >= {*before, "energy.csv"}
    shutil.copytree(run.published, aside)  # killed before it removed it
    whole = files(run.published)
    shutil.rmtree(run.published / "energy")
    with pytest.raises(AssertionError):  # the fixture's, since it is still there
        run(code=2)
    assert "compare them, and remove the one that is not wanted" in capsys.readouterr().err
    assert files(aside) == whole


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_make_calls_the_script():
    command = ["make", "-n", "publish", "-o", ".venv/.installed"]
    for device, said in (("some-gpu", 'publish.py --device "some-gpu"'), ("", "name the device: make publish")):
        done = subprocess.run([*command, f"DEVICE={device}"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert said in done.stdout
