import dataclasses
import sys

import pytest
import torch

from ksmm.implementations import get_implementation
from ksmm.networks import measure as module
from ksmm.networks.accuracy import dense_tolerance, precision, tolerance
from ksmm.networks.entry import FULLY_CONNECTED
from ksmm.networks.measure import PoisonedNetworkError, measure
from ksmm.networks.measurement import NetworkMeasurement
from ksmm.networks.sizes import VITS
from ksmm.reference import relative_error
from tests.networks.conftest import ENTRIES, QUICK, changed


@pytest.mark.parametrize("implementation", ["bmm", "auto", FULLY_CONNECTED])
@pytest.mark.parametrize("accuracy_class", ["strict", "float16"])
def test_a_right_network_is_timed(implementation, accuracy_class):
    entry = changed(ENTRIES["feed_forward"], implementation=implementation, accuracy_class=accuracy_class)
    found = measure(entry, QUICK, "cpu")
    assert (found.status, found.reason) == ("ok", "")
    assert found.median_s > 0 and len(found.samples_s) >= 1 and found.runs_per_sample == 1
    assert 0 < found.relative_error <= found.tolerance
    dense = 2 * 96 * 384
    assert (found.operations_per_row == 2 * dense) == (implementation == FULLY_CONNECTED)
    assert (found.parameters < dense) == (implementation != FULLY_CONNECTED)
    assert NetworkMeasurement.from_dict(found.to_dict()).entry == entry


def test_a_wrong_network_has_no_time(monkeypatch):
    bmm = get_implementation("bmm")
    right = type(bmm).matmul
    monkeypatch.setattr(type(bmm), "matmul", lambda self, packed, x: 1.0001 * right(self, packed, x))
    found = measure(ENTRIES["linear"], QUICK, "cpu")
    assert found.status == "wrong" and "relative error" in found.reason
    assert found.median_s is None and found.samples_s == ()
    assert found.relative_error > found.tolerance


def test_an_output_that_is_not_written_again_is_wrong(monkeypatch):
    def prepare(network, mode):
        y = network.run()  # right, and left behind by whatever ran before
        return lambda: y

    monkeypatch.setattr(module, "prepare", prepare)
    found = measure(ENTRIES["linear"], QUICK, "cpu")
    assert found.status == "wrong" and "NaN" in found.reason


def test_infinity_is_wrong(monkeypatch):
    bmm = get_implementation("bmm")
    monkeypatch.setattr(type(bmm), "matmul_bias", lambda self, packed, x, bias: torch.full((34, 96), torch.inf))
    entry = changed(ENTRIES["linear"])
    found = measure(entry, QUICK, "cpu")
    assert found.status == "wrong" and found.relative_error is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accuracy_class": "tf32"}, "TF32 is a precision of CUDA devices"),
        ({"mode": "cuda_graph"}, "CUDA graphs need a CUDA device"),
        ({"implementation": "kernel_strict"}, "on a CPU without AMX the kernel is strict anyway"),
        ({"implementation": "bmm_strided"}, "bmm_strided cannot multiply pattern 1,48,12,2: batch_first"),
        ({"network": "vit_s16_timm"}, "timm cannot be imported"),
    ],
)
def test_what_cannot_be_measured_is_skipped_with_the_reason(changes, reason, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setattr(sys.modules["ksmm.implementations.kernel"], "multiplies_by_tiles", lambda: False)
    found = measure(changed(ENTRIES["whole"], **changes), QUICK, "cpu")
    assert found.status == "skipped" and reason in found.reason


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "out_of_memory", "CUDA out of memory"),
        (RuntimeError("no such operator"), "failed", "RuntimeError: no such operator"),
    ],
)
def test_what_goes_wrong_is_a_status(error, status, reason, monkeypatch):
    def raise_it(*arguments):
        raise error

    monkeypatch.setattr(module, "build_network", raise_it)
    found = measure(ENTRIES["whole"], QUICK, "cpu")
    assert found.status == status and found.reason.startswith(reason)


def test_a_poisoned_device_is_told(monkeypatch):
    def raise_it(*arguments):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(module, "prepare", raise_it)
    monkeypatch.setattr(module, "is_poison", lambda error: "illegal" in str(error))
    with pytest.raises(PoisonedNetworkError, match="illegal") as caught:
        measure(ENTRIES["linear"], QUICK, "cpu")
    assert caught.value.measurement.status == "failed"


@pytest.mark.parametrize(("raised", "status"), [(True, "failed"), (False, "ok")])
def test_memory_that_cannot_be_released_takes_a_new_process_and_no_result(raised, status, monkeypatch):
    def raise_it(*arguments):
        raise RuntimeError("captures_underway")

    monkeypatch.setattr(module.memory, "release_memory", raise_it)
    if raised:
        monkeypatch.setattr(module, "prepare", raise_it)
    with pytest.raises(PoisonedNetworkError) as caught:
        measure(ENTRIES["linear"], QUICK, "cpu")
    assert caught.value.measurement.status == status
    assert ("then releasing memory failed" in caught.value.measurement.reason) == raised


def test_a_dense_equivalent_that_overflows_checks_nothing(monkeypatch):
    monkeypatch.setattr(module, "_tolerance", lambda *arguments: float("inf"))
    found = measure(ENTRIES["linear"], QUICK, "cpu")
    assert found.status == "failed" and "nothing can be checked" in found.reason
    assert found.tolerance is None and found.median_s is None


def test_a_row_of_64_layers_does_not_underflow_in_float16(monkeypatch):
    size = dataclasses.replace(VITS["vit_tiny"], hidden=16, layers=32)
    monkeypatch.setitem(VITS, "vit_tiny", size)
    entry = changed(
        ENTRIES["whole"], part="feed_forward_linears", implementation=FULLY_CONNECTED, accuracy_class="float16"
    )
    found = measure(entry, QUICK, "cpu")
    assert (found.status, found.reason) == ("ok", "")


def test_an_old_transformers_is_named(monkeypatch):
    monkeypatch.setattr("transformers.__version__", "4.57.1")
    found = measure(ENTRIES["whole"], QUICK, "cpu")
    assert found.status == "skipped" and "transformers is 4.57.1, and must be 5.18 or newer" in found.reason


def test_too_slow():
    from dataclasses import replace

    found = measure(ENTRIES["linear"], replace(QUICK, max_seconds_per_run=1e-9), "cpu")
    assert found.status == "too_slow" and "one forward pass takes" in found.reason


def test_tolerances_follow_the_class_and_the_dense_error():
    assert tolerance("strict", 1e-6) == pytest.approx(4e-6 + 2**-24)
    assert dense_tolerance("strict") < 2e-5 < dense_tolerance("float16") < 0.2
    y = torch.tensor([3.0, 4.0])
    assert relative_error(y, torch.tensor([3.0, 5.0], dtype=torch.float64)) == pytest.approx(1 / 34**0.5)
    assert relative_error(torch.tensor([torch.nan]), torch.ones(1, dtype=torch.float64)) == float("inf")


def test_precision_is_set_and_restored():
    before = torch.get_float32_matmul_precision()
    for accuracy_class, expected in (("tf32", "high"), ("strict", "highest"), ("float16", "highest")):
        with precision(accuracy_class):
            assert torch.get_float32_matmul_precision() == expected
            assert torch.backends.cudnn.allow_tf32 == (accuracy_class == "tf32")
    assert torch.get_float32_matmul_precision() == before
