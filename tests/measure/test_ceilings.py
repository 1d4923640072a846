import json
from pathlib import Path

import pytest
import torch

from ksmm.measure import ceilings, timer
from ksmm.measure.ceilings_file import read_ceilings
from ksmm.measure.records import RecordError, checksum
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from tests.measure.simulated_device import SimulatedGpu


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ceilings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSMM_LOCK_DIRECTORY", str(folder / "locks"))
        ceilings.measure_ceilings("cpu", ["float32", "bfloat16"], folder / "ceilings.json", seconds=0.1)
    return folder / "ceilings.json"


def test_they_can_be_read_and_are_plausible(path):
    found = read_ceilings(path)
    assert found.device == json.loads(path.read_text())["device"]["slug"]
    assert 1e8 < found.copy_bytes_per_s < 1e13
    assert set(found.operations_per_s) == {"float32", "bfloat16"}
    assert 1e8 < found.operations_per_s["float32"] < 1e14
    assert json.loads(path.read_text())["max_runs_per_sample"] == 10
    assert json.loads(path.read_text())["seconds_per_ceiling"] == 0.1


def test_a_copy_reads_each_byte_and_writes_it(monkeypatch):
    source, target = torch.ones(1000, dtype=torch.uint8), torch.zeros(1000, dtype=torch.uint8)

    def best(run, device_type, seconds):
        run()
        assert torch.equal(source, target)
        return 0.25

    monkeypatch.setattr(ceilings, "copy_operands", lambda device_type: (source, target))
    monkeypatch.setattr(ceilings, "_best", best)
    assert ceilings.copy_bandwidth("cpu", 1.0) == 2 * 1000 / 0.25


def test_a_matrix_product_multiplies_and_adds_and_the_best_size_counts(monkeypatch):
    times = {32: 1e-5, 64: 4e-5, 128: 5e-4}  # at 64 four times the time for eight times the operations
    monkeypatch.setattr(ceilings, "_SMALLEST_SIZE", 32)
    monkeypatch.setitem(ceilings._LARGEST_SIZE, "cpu", 128)
    monkeypatch.setattr(ceilings, "_best", lambda run, device_type, seconds: times.pop(run().shape[0]))
    assert ceilings.matrix_product_rate("cpu", torch.float32, 10.0) == pytest.approx(2 * 64**3 / 4e-5, rel=1e-5)
    assert times == {}


@pytest.fixture
def gpu(monkeypatch):
    """A simulated GPU on whose clock a ceiling is timed; waiting for it takes 20 microseconds."""
    gpu = SimulatedGpu(product_s=2e-3)

    def synchronise(device_type):
        gpu.synchronize()
        gpu.sleep(20e-6)

    monkeypatch.setattr(timer, "synchronise", synchronise)
    monkeypatch.setattr(timer, "clock", gpu.clock)
    return gpu


def test_waiting_for_the_device_is_next_to_nothing_in_a_ceiling(gpu):
    assert ceilings._best(gpu.run, "cuda", 0.5) == pytest.approx(gpu.product_s, rel=0.003)


@pytest.mark.parametrize("product_s", [1e-3, 0.04, 0.2])
def test_a_ceiling_takes_about_as_long_as_it_may(gpu, product_s):
    gpu.product_s, start = product_s, gpu.now
    assert ceilings._best(gpu.run, "cuda", 0.5) == pytest.approx(product_s, rel=0.005)
    assert gpu.now - start < 2 * 0.5 + 2 * product_s


def test_a_problem_is_held_to_them(path):
    found = read_ceilings(path)
    problem = Problem(Pattern(1, 192, 48, 2), 1024, torch.float32, "batch_first")
    assert found.attainable_seconds(problem) >= problem.bytes_moved / found.copy_bytes_per_s
    assert found.attainable_seconds(Problem(problem.pattern, 1, torch.float16, "batch_first")) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "has schema_version 2, not 1"),
        ({"device": None}, "key device.slug is missing"),
        ({"copy_bytes_per_s": 0}, "key copy_bytes_per_s is not a positive number"),
        ({"copy_bytes_per_s": "fast"}, "key copy_bytes_per_s is not a positive number"),
        ({"operations_per_s": {"float32": -1}}, "key operations_per_s is not a table of positive numbers"),
        ({"operations_per_s": None}, "key operations_per_s is not a table of positive numbers"),
    ],
)
def test_the_key_that_is_wrong_is_named(path, tmp_path, change, message):
    broken = tmp_path / "ceilings.json"
    content = {**json.loads(path.read_text()), **change}
    broken.write_text(json.dumps({**content, "checksum": checksum(content)}))
    with pytest.raises(RecordError, match=f"{message}.*; remove it and measure the ceilings again"):
        read_ceilings(broken)


def test_one_that_was_edited_or_is_of_another_device_is_refused(path, tmp_path):
    device = read_ceilings(path).device
    assert read_ceilings(path, device).device == device
    with pytest.raises(RecordError, match=f"is of device {device}, among what is of nvidia-h200; remove it"):
        read_ceilings(path, "nvidia-h200")
    edited = tmp_path / "ceilings.json"
    content = json.loads(path.read_text())
    edited.write_text(json.dumps(content | {"copy_bytes_per_s": 2 * content["copy_bytes_per_s"]}))
    with pytest.raises(RecordError, match="was changed after it was written: key checksum"):
        read_ceilings(edited)


def test_those_of_before_there_was_a_checksum_are_read(path, tmp_path):
    content = json.loads(path.read_text())
    del content["checksum"]
    (tmp_path / "ceilings.json").write_text(json.dumps(content))
    assert read_ceilings(tmp_path / "ceilings.json") == read_ceilings(path)


def test_those_that_are_published_are_read():
    published = Path(__file__).resolve().parents[2] / "measurements" / "nvidia-h200" / "ceilings.json"
    assert read_ceilings(published, "nvidia-h200").copy_bytes_per_s > 1e12


def test_an_unknown_dtype(tmp_path):
    with pytest.raises(ValueError, match="unknown dtype 'float8'; choose one of"):
        ceilings.measure_ceilings("cpu", ["float8"], tmp_path / "x.json")
