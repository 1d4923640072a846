"""A CUDA error after which nothing works in its process: the rest is measured in a new one. Out of memory is none."""

import pytest
import torch

from tests.faults.conftest import statuses

# From the illegal access on, every product of this process fails, as on a GPU.
POISON = """
    reached = []

    def faulty(self, packed, x):
        reached.append(1)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    plant("a_faulty", faulty)
    for name in ("bmm", "einsum", "dense"):
        implementation = type(get_implementation(name))
        def matmul(self, packed, x, right=implementation.matmul):
            if reached:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            return right(self, packed, x)
        implementation.matmul = matmul
    torch.cuda.is_initialized = lambda: False  # so that nobody can be asked
    (folder / "starts").open("a").write(f"sees {os.environ['CUDA_VISIBLE_DEVICES']}\\n")
    os.environ["CUDA_VISIBLE_DEVICES"] = "what the lock chose"
    run(["a_faulty", "bmm", "dense", "einsum"], restart=job.reexecute)
"""


def test_the_others_are_measured_in_a_new_process(run_job, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    done = run_job(POISON)
    assert done.returncode == 0, done.stderr
    found = statuses(tmp_path)
    assert found.pop(("a_faulty", "whole")) == "failed"
    assert set(found.values()) == {"ok"}
    assert {name for name, _ in found} == {"bmm", "dense", "einsum"}
    assert done.stderr.count("starting again in a new process") == 1
    assert (tmp_path / "starts").read_text() == 2 * "sees 1,2\n"  # the new process may choose another GPU
    assert "a_faulty on 1,4,2,1: RuntimeError: CUDA error: an illegal memory access" in done.stderr


OUT_OF_MEMORY = """
    def matmul(self, packed, x):
        return torch.empty(2**60)  # the allocator says no

    plant("a_large", matmul)
    (folder / "starts").open("a").write("one\\n")
    run(["a_large", "bmm"], restart=job.reexecute)
"""


def test_out_of_memory_in_one_implementation_only(run_job, tmp_path):
    done = run_job(OUT_OF_MEMORY)
    assert done.returncode == 0, done.stderr
    assert statuses(tmp_path) == {
        ("a_large", "whole"): "out_of_memory",
        ("bmm", "whole"): "ok",
        ("bmm", "multiplication"): "ok",
    }
    assert (tmp_path / "starts").read_text() == "one\n"


# Reading far outside of a tensor: a device-side assertion, after which CUDA is of no use to the process.
REAL_POISON = """
    def faulty(self, packed, x):
        x.flatten()[torch.full((8,), 2**40, device=x.device)]
        torch.cuda.synchronize()

    plant("a_faulty", faulty)
    (folder / "starts").open("a").write("one\\n")
    run(["a_faulty", "bmm", "dense", "einsum"], device_type="cuda", restart=job.reexecute)
"""


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_real_one_on_a_gpu(run_job, tmp_path):
    done = run_job(REAL_POISON)
    assert done.returncode == 0, done.stderr
    found = statuses(tmp_path)
    assert found.pop(("a_faulty", "whole")) == "failed"
    assert set(found.values()) == {"ok"}
    assert (tmp_path / "starts").read_text() == "one\none\n"
