"""Which counter is read: the GPU's by its UUID, RAPL's of all packages, and the reason where there is none."""

import sys
import types

import pytest
import torch

from ksmm.measure import energy_counter, nvidia
from ksmm.measure.energy_counter import CounterError, NoCounterError, nvml_index, open_counter, reason_absent

rapl_device = pytest.importorskip("pyJoules.device.rapl_device")
nvidia_device = pytest.importorskip("pyJoules.device.nvidia_device")

UUIDS = ["11111111-aaaa", "22222222-bbbb", "33333333-cccc"]


class FakeNvml(types.SimpleNamespace):
    """Three GPUs whose counters read 1,000, 2,000 and 3,000 J; a handle is an index."""

    class NVMLError(Exception):
        pass

    NVML_DEVICE_MIG_ENABLE = 1
    divided = False
    counts = True

    def nvmlInit(self):
        pass

    def nvmlDeviceGetCount(self):
        return len(UUIDS)

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetHandleByUUID(self, name):
        if name.removeprefix("GPU-") not in UUIDS:
            raise self.NVMLError("Not Found")
        return UUIDS.index(name.removeprefix("GPU-"))

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{UUIDS[handle]}"

    def nvmlDeviceGetIndex(self, handle):
        return handle

    def nvmlDeviceGetMigMode(self, handle):
        return [int(self.divided), int(self.divided)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        if not self.counts:
            raise self.NVMLError("Not Supported")
        return 1_000_000 * (handle + 1)


@pytest.fixture
def nvml(monkeypatch):
    """NVML as above, where PyTorch computes on the GPU with the last UUID."""
    library = FakeNvml()
    monkeypatch.setattr(nvidia, "management_library", lambda: library)
    monkeypatch.setattr(nvidia_device, "pynvml", library)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(uuid=library.used))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    library.used = UUIDS[2]
    return library


@pytest.mark.parametrize("place", range(3))
def test_the_counter_is_that_of_the_gpu_in_use_whatever_cuda_calls_it(nvml, place):
    nvml.used = UUIDS[place]
    assert nvml_index() == place
    counter = open_counter("cuda")
    assert counter.name == f"NVML nvidia_gpu_{place}"
    assert counter.read() == 1000.0 * (place + 1)  # millijoules
    assert not counter.wraps


def test_a_part_of_a_gpu_has_no_counter(nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-0123")
    with pytest.raises(NoCounterError, match="not that of a part of it"):
        open_counter("cuda")


def test_nor_has_one_that_is_divided(nvml):
    nvml.divided = True
    with pytest.raises(NoCounterError, match=r"GPU-33333333-cccc is divided into parts \(MIG\)"):
        open_counter("cuda")


def test_a_gpu_before_volta_has_none(nvml):
    nvml.counts = False
    with pytest.raises(NoCounterError, match="NVML says Not Supported"):
        open_counter("cuda")


def test_one_that_stops_answering_cannot_be_believed(nvml):
    counter = open_counter("cuda")
    nvml.counts = False
    with pytest.raises(CounterError, match=r"NVML nvidia_gpu_2\) cannot be read any more: Not Supported"):
        counter.read()


def test_without_pyjoules_a_gpu_has_no_counter(nvml, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyJoules.device.nvidia_device", None)
    with pytest.raises(NoCounterError, match="pyJoules is not installed"):
        open_counter("cuda")


def test_a_gpu_that_nvml_does_not_know_is_named(nvml):
    nvml.used = "another"
    with pytest.raises(NoCounterError, match=r"does not know the GPU in use, GPU-another \(Not Found\)"):
        open_counter("cuda")


def test_without_nvml(monkeypatch):
    monkeypatch.setattr(nvidia, "management_library", lambda: None)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    assert reason_absent("cuda").startswith("no energy counter: NVML sees no GPU")
    with pytest.raises(NoCounterError, match="NVML sees no GPU"):
        open_counter("cuda")


def write_domain(folder, name, microjoules):
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")


@pytest.fixture
def rapl(tmp_path, monkeypatch):
    """Two packages, one of which has memory: 10 J, 20 J and 5 J."""
    write_domain(tmp_path / "intel-rapl:0", "package-0", 10_000_000)
    write_domain(tmp_path / "intel-rapl:0" / "intel-rapl:0:0", "dram", 5_000_000)
    write_domain(tmp_path / "intel-rapl:1", "package-1", 20_000_000)
    monkeypatch.setattr(rapl_device, "RAPL_API_DIR", str(tmp_path))
    return tmp_path


def test_rapl_is_the_sum_over_packages_and_memory(rapl):
    counter = open_counter("cpu")
    assert counter.name == "RAPL package_0 + package_1 + dram_0"
    assert counter.read() == pytest.approx(35)  # microjoules
    (rapl / "intel-rapl:1" / "energy_uj").write_text("21000000\n")
    assert counter.read() == pytest.approx(36)
    assert counter.wraps
    assert reason_absent("cpu") is None


def test_rapl_that_cannot_be_read_says_so(rapl):
    (rapl / "intel-rapl:1" / "energy_uj").unlink()
    (rapl / "intel-rapl:1" / "energy_uj").mkdir()  # even root cannot read it
    with pytest.raises(NoCounterError, match="RAPL cannot be read"):
        open_counter("cpu")
    assert "RAPL cannot be read" in reason_absent("cpu")


def test_without_rapl(tmp_path, monkeypatch):
    monkeypatch.setattr(rapl_device, "RAPL_API_DIR", str(tmp_path / "none"))
    assert "this system has no RAPL" in reason_absent("cpu")


def test_an_unknown_device_is_named():
    with pytest.raises(ValueError, match="unknown device 'tpu'; choose cpu or cuda"):
        energy_counter.open_counter("tpu")
