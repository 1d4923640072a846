"""Whatever an implementation does becomes a status with a reason, and never a time of a wrong result."""

import dataclasses

import pytest
import torch

from ksmm.implementations import implementations
from ksmm.measure import memory
from ksmm.measure.bench import Bench, PoisonedDeviceError
from ksmm.measure.errors import one_line
from ksmm.measure.measurement import Measurement
from ksmm.patterns import Pattern
from ksmm.problem import LAYOUTS, Problem
from tests.measure.conftest import exact, no_time

PROBLEM = Problem(Pattern(2, 3, 4, 2), 64, torch.float32, "batch_first")


@pytest.fixture
def measure(plant, quick):
    def run(matmul=exact, problem=PROBLEM, **more):
        return Bench(problem, quick).measure(plant("planted", matmul, **more))

    return run


def raising(error):
    def matmul(packed, x):
        raise error

    return matmul


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_right_result_is_timed(plant, quick, layout):
    quick = dataclasses.replace(quick, max_seconds=10.0)
    problem = Problem(PROBLEM.pattern, 64, torch.float32, layout)
    measurement = Bench(problem, quick).measure(plant("planted"))
    assert (measurement.status, measurement.reason) == ("ok", "")
    assert quick.min_samples <= len(measurement.samples_s) <= quick.max_samples
    assert measurement.median_s > 0
    assert measurement.relative_error < measurement.tolerance
    assert measurement.protocol_met


def test_a_measurement_names_the_configuration_where_there_is_one(plant, quick):
    planted = plant("planted")
    assert "configuration" not in Bench(PROBLEM, quick).measure(planted).to_dict()
    planted.configuration_of = lambda packed, x: f"tile for {x.shape[0]}"
    values = Bench(PROBLEM, quick).measure(planted).to_dict()
    assert values["configuration"] == "tile for 64"
    assert Measurement.from_dict(values).configuration == "tile for 64"


def test_wrong_numbers_have_no_time(measure):
    measurement = measure(lambda packed, x: exact(packed, x) * 1.001)
    assert measurement.status == "wrong"
    assert measurement.relative_error == pytest.approx(1e-3, rel=1e-2)
    assert "0.001" in measurement.reason
    assert "tolerance" in measurement.reason
    assert no_time(measurement)


def test_a_single_wrong_row_is_enough(measure):
    def matmul(packed, x):
        y = exact(packed, x)
        y[-1] = 0
        return y

    assert measure(matmul).status == "wrong"


def test_nan_is_wrong(measure):
    measurement = measure(lambda packed, x: exact(packed, x) * float("nan"))
    assert (measurement.status, measurement.relative_error) == ("wrong", None)
    assert "NaN" in measurement.reason
    assert no_time(measurement)


@pytest.mark.parametrize(
    ("change", "word"),
    [(lambda y: y.T, "shape"), (torch.Tensor.double, "dtype"), (lambda y: None, "NoneType")],
)
def test_something_else_than_the_product_is_wrong(measure, change, word):
    measurement = measure(lambda packed, x: change(exact(packed, x)))
    assert measurement.status == "wrong"
    assert word in measurement.reason


def test_an_exception_is_failed_with_its_message(measure):
    measurement = measure(raising(ZeroDivisionError("b is odd\nand more")))
    assert (measurement.status, measurement.reason) == ("failed", "ZeroDivisionError: b is odd")
    assert no_time(measurement)


def test_an_exception_of_supports_is_failed(measure):
    assert measure(supports=lambda problem: 1 // 0).reason == "ZeroDivisionError: integer division or modulo by zero"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 GiB"),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: out of memory"),
    ],
)
def test_running_out_of_memory(measure, error):
    measurement = measure(raising(error))
    assert measurement.status == "out_of_memory"
    assert measurement.reason
    assert no_time(measurement)


def test_what_is_not_supported_is_skipped_with_the_reason_of_the_implementation(measure):
    measurement = measure(raising(AssertionError), supports=lambda problem: "d is 2")
    assert (measurement.status, measurement.reason) == ("skipped", "d is 2")


@pytest.mark.parametrize("name", ["RuntimeError", "AcceleratorError"])
def test_a_cuda_error_says_that_the_process_is_done_for(measure, monkeypatch, name):
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)  # so that nobody can be asked
    kind = getattr(torch, name, RuntimeError)
    with pytest.raises(PoisonedDeviceError, match=r"planted on 2,3,4,2: .*illegal memory access") as raised:
        measure(raising(kind("CUDA error: an illegal memory access was encountered")))
    assert raised.value.measurement.status == "failed"
    assert no_time(raised.value.measurement)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_error_that_the_process_survives_is_only_failed(measure):
    torch.cuda.init()
    measurement = measure(raising(RuntimeError("CUDA error: invalid configuration argument")))
    assert measurement.status == "failed"


def test_of_pytorchs_account_of_memory_only_the_sum_is_kept(measure):
    said = "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has 1.00 GiB free. Including non-PyTorch memory, this"
    reason = measure(raising(torch.OutOfMemoryError(said))).reason
    assert reason == "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has 1.00 GiB free."


def test_an_interruption_is_not_swallowed(measure):
    with pytest.raises(KeyboardInterrupt):
        measure(raising(KeyboardInterrupt()))


def test_no_gradients_and_strict_float32_while_measuring(measure):
    def matmul(packed, x):
        assert not torch.is_grad_enabled()
        assert torch.get_float32_matmul_precision() == "highest"
        return exact(packed, x)

    assert measure(matmul).status == "ok"
    assert torch.is_grad_enabled()


def test_a_dense_matrix_larger_than_the_memory_is_never_allocated(quick, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device_type: 2**34)
    problem = Problem(Pattern(128, 8, 8, 128), 4, torch.float32, "batch_last")
    bench = Bench(problem, quick)
    measurement = bench.measure(implementations()["dense"])
    assert measurement.status == "out_of_memory"
    assert "64.0 GiB" in measurement.reason
    assert "16.0 GiB are available" in measurement.reason
    assert bench.measure(implementations()["bmm"]).status == "ok"


def test_operands_larger_than_the_memory_are_never_allocated(quick, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device_type: 2**20)
    problem = Problem(PROBLEM.pattern, 10**6, torch.float32, "batch_first")
    assert Bench(problem, quick).measure(implementations()["einsum"]).status == "out_of_memory"


def test_the_multiplication_alone_is_timed_and_checked(quick, monkeypatch):
    bmm = implementations()["bmm"]
    bench = Bench(PROBLEM, quick)
    assert bench.measure(bmm, "multiplication").status == "ok"
    monkeypatch.setattr(type(bmm), "multiply", lambda self, packed, x: 1.1 * torch.bmm(x, packed.data.mT))
    assert bench.measure(bmm, "multiplication").status == "wrong"


@pytest.mark.parametrize("name", sorted(implementations()))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_implementation_can_be_measured(name, layout, quick, device):
    problem = Problem(Pattern(2, 16, 8, 2), 32, torch.float32, layout, device)
    measurement = Bench(problem, quick).measure(implementations()[name])
    assert measurement.status in ("ok", "skipped"), measurement.reason
    assert (measurement.gpu != "") == (device == "cuda")
    assert ("gpu" in measurement.to_dict()) == (device == "cuda")


def test_memory_that_is_there_is_positive_and_no_more_than_the_machines():
    assert 0 < memory.available_bytes("cpu") < 2**50


def test_files_that_were_read_take_no_memory_from_a_control_group(monkeypatch, tmp_path):
    """What the kernel drops for whoever needs memory counts as used in memory.current."""
    group = tmp_path / "job"
    group.mkdir()
    (group / "memory.max").write_text("1000\n")
    (group / "memory.current").write_text("900\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_own_control_group", lambda: "job")
    assert min(memory._control_group_bytes()) == 100
    (group / "memory.stat").write_text("anon 100\ninactive_file 600\nactive_file 100\nslab_reclaimable 50\n")
    assert min(memory._control_group_bytes()) == 750


def test_a_reason_is_one_line_of_text_that_a_record_may_hold():
    assert one_line(ValueError("\x1b[31mno\tgood\ud800\x1b[0m\nsecond")) == "[31mno good  [0m"
    assert one_line(ValueError("\x1b\n\nsecond")) == "second"
    assert one_line(ValueError("\x1b")) == "ValueError"
