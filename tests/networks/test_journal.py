"""What a job of networks takes from the journal: what was measured on the same GPU with the same packages."""

from pathlib import Path

from ksmm.measure import provenance
from ksmm.measure.journal import Journal
from ksmm.networks import job
from ksmm.networks.identity import identities_in, identity_of
from ksmm.networks.measurement import NetworkMeasurement
from ksmm.networks.records import read_record
from tests.networks.conftest import THREE, changed, run


def measured_in(monkeypatch, folder: Path, gpu: str | None = None, timm: str | None = None) -> int:
    """How many of THREE are measured by a job on some GPU (None: a CPU) with some timm; the journal keeps them."""
    measured, real = [], job.measure
    facts, versions = provenance.device_facts, provenance.versions
    of_gpu = {} if gpu is None else {"id_hash": gpu}
    of_timm = {} if timm is None else {"timm": timm}
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "device_facts", lambda device_type: facts(device_type) | of_gpu)
        patched.setattr(provenance, "versions", lambda *names: versions(*names) | of_timm)
        patched.setattr(job, "measure", lambda entry, *arguments: measured.append(entry) or real(entry, *arguments))
        record = read_record(run(folder, keep_journal=True))
    assert record["device"].get("id_hash") == gpu
    kept = Journal(folder / "journal", NetworkMeasurement)
    assert None not in [kept.find(identity) for identity in identities_in(record)]
    return len(measured)


def test_measurements_of_another_gpu_are_not_reused(monkeypatch, tmp_path):
    assert [measured_in(monkeypatch, tmp_path, gpu) for gpu in ("0a3e", "0a3e", "7c99", "0a3e")] == [3, 0, 3, 0]


def test_measurements_of_the_cpu_are_reused(monkeypatch, tmp_path):
    assert [measured_in(monkeypatch, tmp_path) for _ in range(2)] == [3, 0]


def test_measurements_with_another_timm_are_not_reused(monkeypatch, tmp_path):
    assert [measured_in(monkeypatch, tmp_path, timm=timm) for timm in ("1.0.29", "1.0.29", "1.1.0")] == [3, 0, 3]


def test_tuning_is_part_of_what_the_kernels_networks_measure(tmp_path):
    content = read_record(run(tmp_path, THREE[:1]))
    content["provenance"]["tuning_hash"] = "0123456789abcdef"
    entries = [*THREE[:2], changed(THREE[1], implementation="kernel")]  # dense, by bmm, by the kernel
    found = [identity_of(entry, content).get("tuning_hash") for entry in entries]
    assert found == [None, None, "0123456789abcdef"]
