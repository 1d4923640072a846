"""The authors' CSV files become records."""

import hashlib

import pytest

from ksmm import cli
from ksmm.aggregate import aggregate
from ksmm.measure.records import read_record
from ksmm.upstream import UpstreamError, device_slug, import_upstream

ENERGIES = """\
pattern,batch-size,algo,bs_position,precision,device_name,median,nruns,ecs
"[[1, 48, 48, 1]]",25088,kernel,bs_first,fp32,Tesla_V100-PCIE-16GB,4431.0,512.0,
"[[1, 48, 48, 1]]",25088,monarch,bs_last,fp16,Tesla_V100-PCIE-16GB,100.0,8.0,"[80.0, 120.0, 0.0]"
"['1,64,64,2']",128,dense,bs_last,fp32,NVIDIA_A100-SXM4-40GB,0.0,2.0,
"""
TIMES = """\
patterns,batch-size,algo,mean,median,iqr,times,bs_position,precision,device_name
"[[1, 192, 48, 2]]",25088,monarch,0.0021,0.002,0.0001,"[0.0019, 0.002, 0.0024]",bs_first,fp32,NVIDIA_A100-PCIE-40GB
"""


@pytest.fixture
def write(tmp_path):
    def file(text):
        (tmp_path / "theirs.csv").write_text(text)
        return tmp_path / "theirs.csv"

    return file


def test_energies_are_millijoules_of_so_many_runs(write, tmp_path):
    done = import_upstream(write(ENERGIES), tmp_path / "out")
    assert [(i.device, i.study, i.records, i.patterns, i.measurements) for i in done] == [
        ("tesla-v100", "energy", 1, 1, 2),
        ("nvidia-a100", "energy", 1, 1, 1),
    ]
    (path,) = done[0].folder.glob("*.json")
    digest = hashlib.sha256(ENERGIES.encode()).hexdigest()
    assert path == tmp_path / "out/tesla-v100/energy/records" / f"imported-{digest[:8]}-1x48x48x1-to-1x48x48x1.json"
    record = read_record(path)
    assert record["device"] == {"slug": "tesla-v100", "name": "Tesla V100-PCIE-16GB", "type": "cuda"}
    assert record["provenance"]["imported"]["file"] == "theirs.csv"
    kernel, bmm = record["measurements"]
    assert kernel["energy"]["energy_j"] == pytest.approx(4.431 / 512)
    assert (kernel["implementation"], kernel["layout"], kernel["dtype"]) == ("kernel", "batch_first", "float32")
    assert (kernel["runs_per_sample"], kernel["protocol_met"], kernel["median_s"]) == (512, True, None)
    assert (bmm["implementation"], bmm["layout"], bmm["dtype"]) == ("bmm", "batch_last", "float16")
    assert bmm["energy"]["samples_j"] == pytest.approx([0.01, 0.015])
    assert (kernel["note"], bmm["note"]) == ("", "1 of 3 samples are of 0 mJ or less, and left out")
    assert bmm["protocol_met"] is False


def test_a_zero_is_an_error_and_no_number(write, tmp_path):
    a100 = import_upstream(write(ENERGIES), tmp_path / "out")[1]
    (path,) = a100.folder.glob("*.json")
    (measurement,) = read_record(path)["measurements"]
    assert (measurement["status"], measurement["reason"]) == ("failed", "the counter reads 0.0 mJ for 2 runs")
    assert "energy" not in measurement


def test_times_become_timing_records(write, tmp_path):
    (done,) = import_upstream(write(TIMES), tmp_path / "out")
    assert (done.device, done.study) == ("nvidia-a100", "time")
    frame = aggregate(done.folder.glob("*.json"), None, tmp_path / "rejected")
    row = frame.iloc[0]
    assert (row.pattern, row.implementation, row.layout, row.status) == ("1,192,48,2", "bmm", "batch_first", "ok")
    assert (row.median_s, row.iqr_s, row.samples) == (0.002, 0.0001, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bs_first", "first", "line 2: column bs_position is 'first'; it must be one of bs_first, bs_last"),
        ("fp32", "fp8", "line 2: column precision is 'fp8'; it must be one of fp32, fp16"),
        ("[[1, 48, 48, 1]]", "[[1, 48, 48, 1], [1, 2, 2, 1]]", "a single factor, four integers, can be imported"),
        ("4431.0", "much", "line 2: column median is 'much', which is no number"),
        ("512.0", "0", "line 2: column nruns is 0; it must be at least 1"),
        ("nruns", "runs", r"has the columns pattern, batch-size, .*; the authors' files have for energy pattern, "),
        ("[[1, 48", "[[0, 48", "line 2: pattern entry a is 0; it must be at least 1"),
        ("25088", "2.5", "line 2: column batch-size is '2.5'; it must be a whole number, at least 1"),
        ("25088", "-4", "line 2: column batch-size is '-4'; it must be a whole number, at least 1"),
        ("Tesla_V100-PCIE-16GB", "_", "line 2: column device_name is '_'; a name has a letter or a digit"),
        ("80.0", "much", "line 3: column ecs is 'much', which is no number"),
        ("80.0", "inf", "line 3: column ecs is 'inf', which is no number"),
    ],
)
def test_what_cannot_be_understood_is_named(old, new, message, write, tmp_path):
    with pytest.raises(UpstreamError, match=message):
        import_upstream(write(ENERGIES.replace(old, new, 1)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_records_in_the_folder_are_left_alone(write, tmp_path):
    folder = tmp_path / "out" / "tesla-v100" / "energy" / "records"
    folder.mkdir(parents=True)
    (folder / "1x48x48x1.json").write_text("measured here")
    for _ in range(2):
        import_upstream(write(ENERGIES), tmp_path / "out")
    assert (folder / "1x48x48x1.json").read_text() == "measured here"
    assert len(list(folder.iterdir())) == 2


def test_files_of_the_same_patterns_and_device_are_all_kept(write, tmp_path):
    """One file for each precision, say."""
    for precision in ("fp32", "fp16"):
        (done,) = import_upstream(write(TIMES.replace("fp32", precision)), tmp_path / "out")
    frame = aggregate(done.folder.glob("*.json"), None, tmp_path / "rejected")
    assert sorted(frame.dtype) == ["float16", "float32"]


def names_in(output):
    """The device and the number of measurements that the one record of each device is of."""
    records = [read_record(path) for path in sorted(output.glob("*/energy/records/*.json"))]
    return {record["device"]["slug"]: (record["device"]["name"], len(record["measurements"])) for record in records}


def test_two_devices_of_one_model_are_kept_apart(write, tmp_path):
    both = ENERGIES + ENERGIES.replace("V100-PCIE", "V100-SXM2").partition("\n")[2]
    done = import_upstream(write(both), tmp_path)
    assert [i.device for i in done] == ["tesla-v100-pcie-16gb", "nvidia-a100", "tesla-v100-sxm2-16gb"]
    assert names_in(tmp_path) == {
        "tesla-v100-pcie-16gb": ("Tesla V100-PCIE-16GB", 2),
        "tesla-v100-sxm2-16gb": ("Tesla V100-SXM2-16GB", 2),
        "nvidia-a100": ("NVIDIA A100-SXM4-40GB", 2),
    }


def test_what_was_imported_of_another_device_of_that_model_is_kept(write, tmp_path):
    for _ in range(2):
        for variant in ("PCIE", "SXM2"):
            import_upstream(write(ENERGIES.replace("V100-PCIE", f"V100-{variant}")), tmp_path)
    assert names_in(tmp_path) == {
        "tesla-v100": ("Tesla V100-PCIE-16GB", 2),
        "tesla-v100-sxm2-16gb": ("Tesla V100-SXM2-16GB", 2),
        "nvidia-a100": ("NVIDIA A100-SXM4-40GB", 1),
    }


def test_two_spellings_of_a_name_are_one_device(write, tmp_path):
    done = import_upstream(write(ENERGIES.replace("Tesla_V100", "Tesla V100", 1)), tmp_path)
    assert [(i.device, i.measurements) for i in done] == [("tesla-v100", 2), ("nvidia-a100", 1)]


def test_devices_are_named_by_vendor_and_model():
    assert device_slug("Tesla_V100-PCIE-16GB") == "tesla-v100"
    assert device_slug("NVIDIA A100 80GB PCIe") == "nvidia-a100"


def test_the_command(write, tmp_path, capsys):
    assert cli.main(["import-upstream", str(write(ENERGIES)), "--output", str(tmp_path / "out")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("2 measurements (energy) of 1 patterns on tesla-v100: 1 records in ")
    assert "nvidia-a100" in second
    assert cli.main(["import-upstream", str(write("a,b\n1,2\n")), "--output", str(tmp_path / "out")]) == 2
    assert "has the columns a, b; the authors' files have" in capsys.readouterr().err
    assert cli.main(["import-upstream", str(tmp_path / "none.csv")]) == 2
