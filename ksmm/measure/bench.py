"""Measures one implementation on one problem: checked, then timed; whatever happens becomes a status, never a crash."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

import torch

from ksmm.implementations import Implementation, Packed
from ksmm.measure import check, memory, nvidia, timer
from ksmm.measure.errors import PoisonedError, is_poison, one_line
from ksmm.measure.inputs import Inputs, make_inputs
from ksmm.measure.measurement import Measurement, utc_now
from ksmm.measure.protocol import Protocol
from ksmm.measure.provenance import gpu_hash
from ksmm.measure.samples import interquartile_range, median
from ksmm.measure.trial import fastest_seconds, reason_too_slow, too_slow
from ksmm.names import dtype_name
from ksmm.problem import Problem


class PoisonedDeviceError(PoisonedError):
    """A CUDA error after which this process cannot use the device any more, where a new process can.

    Attributes:
        measurement: of status failed, what was being measured.
    """

    def __init__(self, measurement: Measurement) -> None:
        pattern = ",".join(map(str, measurement.pattern))
        super().__init__(f"{measurement.implementation} on {pattern}: {measurement.reason}")
        self.measurement = measurement


class _GaveUpError(Exception):
    """Carries a status other than ok out of the steps of a measurement."""

    def __init__(self, status: str, reason: str, relative_error: float | None = None) -> None:
        super().__init__(status, reason)
        self.outcome = {"status": status, "reason": reason, "relative_error": relative_error}


class Bench:
    """One problem, its operands and its reference, on which implementations are measured one after the other.

    Args:
        problem: what is computed.
        protocol: how it is timed.
        reference: to be shared by the two layouts of one pattern, batch size and dtype.
    """

    def __init__(self, problem: Problem, protocol: Protocol, reference: check.Reference | None = None) -> None:
        self.problem = problem
        self.protocol = protocol
        self.reference = reference or check.Reference(problem)
        self.tolerance = check.tolerance(problem.dtype, problem.pattern.c)
        self._inputs: Inputs | None = None

    def measure(self, implementation: Implementation, part: str = "whole") -> Measurement:
        """Checks what an implementation computes against float64 and, if it is right, times it.

        Args:
            implementation: registered or not.
            part: "whole", or "multiplication" for an implementation that has permute, multiply and permute_back.

        Raises:
            PoisonedDeviceError: a CUDA error that this process does not recover from.
        """
        started_at, start = utc_now(), time.monotonic()
        with torch.no_grad(), timer.strict_precision():
            outcome, poisoned = self._attempt(implementation, part)
        release = memory.release_surplus
        if outcome["status"] not in ("ok", "skipped"):
            gc.collect()  # an exception's frames can hold tensors in cycles
            release = memory.release_memory  # it may have run out of it
        if not poisoned:
            release(self.problem.device_type)
        measurement = Measurement(
            pattern=tuple(self.problem.pattern),
            batch_size=self.problem.batch_size,
            dtype=dtype_name(self.problem.dtype),
            layout=self.problem.layout,
            implementation=implementation.name,
            part=part,
            tolerance=self.tolerance,
            started_at=started_at,
            duration_s=time.monotonic() - start,
            gpu=gpu_hash() if self.problem.device_type == "cuda" else "",
            **outcome,
        )
        if poisoned:
            raise PoisonedDeviceError(measurement)
        return measurement

    def _attempt(self, implementation: Implementation, part: str) -> tuple[dict[str, Any], bool]:
        try:
            reason = self._reason_to_skip(implementation)
            if reason is not None:
                return {"status": "skipped", "reason": reason}, False
            return self._measure(implementation, part), False
        except _GaveUpError as stop:
            return stop.outcome, False
        except Exception as error:  # noqa: BLE001 - an implementation may raise anything; the others must go on
            if memory.is_out_of_memory(error):
                return {"status": "out_of_memory", "reason": one_line(error)}, False
            return {"status": "failed", "reason": f"{type(error).__name__}: {one_line(error)}"}, is_poison(error)

    def _reason_to_skip(self, implementation: Implementation) -> str | None:
        return implementation.supports(self.problem)

    def _measure(self, implementation: Implementation, part: str) -> dict[str, Any]:
        inputs = self._operands(implementation.name)
        packed = implementation.pack(inputs.weight, self.problem.layout)
        reason = reason_too_slow(
            lambda x: implementation.matmul(packed, x),
            inputs.x,
            self.problem,
            self.protocol,
            implementation.trial_fractions,
        )
        if reason is not None:
            raise _GaveUpError("too_slow", reason)
        run, whole = products(implementation, packed, inputs.x, part)
        error = self._check(whole, inputs)
        estimate = timer.estimate_seconds(run, self.protocol, self.problem.device_type)
        configuration = implementation.configuration_of(packed, inputs.x)
        return {"status": "ok", "relative_error": error, "configuration": configuration, **self._sampled(run, estimate)}

    def _sampled(self, run: Callable[[], object], estimate_s: float) -> dict[str, Any]:
        """Samples of a product that has passed its check and was warmed up, as fields of Measurement."""
        timing = timer.time_product(run, self.protocol, self.problem.device_type, estimate_s)
        median_s = median(timing.samples_s)
        graph_samples, note = self._replay(run, median_s)
        return {
            "samples_s": timing.samples_s,
            "runs_per_sample": timing.runs_per_sample,
            "protocol_met": timing.protocol_met,
            "median_s": median_s,
            "iqr_s": interquartile_range(timing.samples_s),
            "cuda_graph_samples_s": graph_samples,
            "device_state": nvidia.device_state() if self.problem.device_type == "cuda" else {},
            "note": note,
        }

    def _operands(self, implementation: str) -> Inputs:
        needed = memory.product_bytes(self.problem, implementation)
        if self._inputs is None:
            needed += memory.operand_bytes(self.problem)
        reason = memory.shortage(needed, self.problem.device_type)
        if reason is not None:
            raise _GaveUpError("out_of_memory", reason)
        if self._inputs is None:
            self._inputs = make_inputs(self.problem, self.protocol.seed)
        return self._inputs

    def _check(self, whole: Callable[[], torch.Tensor], inputs: Inputs) -> float:
        """The relative error of the whole product; gives up if it is too large, or the product takes too long."""
        results = []
        limit = self.protocol.max_seconds_per_run

        def run() -> None:
            results.clear()
            results.append(whole())

        # By the trial on an eighth it is not so slow. The first run may have met a compilation: PyTorch's BSR product
        # in float32 compiles for the size of the batch, up to 20 s.
        seconds = fastest_seconds(run, self.problem.device_type, limit, limit, doubtful=math.inf)
        if seconds > limit:
            count = self.problem.batch_size
            raise _GaveUpError("too_slow", too_slow(count, seconds, self.protocol, count))
        y = results.pop()
        reason, error = check.fault(y, self.problem), None
        if reason is None:
            error = self.reference.relative_error(y, inputs)
            reason = check.fault_of_error(error, self.tolerance)
        if reason is not None:
            raise _GaveUpError("wrong", reason, error if error is not None and math.isfinite(error) else None)
        return error

    def _replay(self, run: Callable[[], object], median_s: float) -> tuple[tuple[float, ...], str]:
        """Samples from a CUDA graph where launching matters, and a note: why there are none, or too few."""
        if self.problem.device_type != "cuda" or median_s >= timer.CUDA_GRAPH_BELOW_S:
            return (), ""
        try:
            timing = timer.time_cuda_graph(run, self.protocol, median_s)
        except RuntimeError as error:
            if is_poison(error):
                raise
            return (), f"no CUDA graph: {one_line(error)}"
        few = f"CUDA graph: fewer samples ({len(timing.samples_s)}) than the protocol asks for"
        return timing.samples_s, "" if timing.protocol_met else few


def products(
    implementation: Implementation, packed: Packed, x: torch.Tensor, part: str
) -> tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]:
    """What is timed, and what is checked: the same for the whole product.

    For the multiplication alone, X is permuted beforehand, and what is checked is permuted back.
    """
    if part == "whole":
        return (lambda: implementation.matmul(packed, x),) * 2
    permuted = implementation.permute(packed, x)

    def run() -> torch.Tensor:
        return implementation.multiply(packed, permuted)

    return run, lambda: implementation.permute_back(packed, run())
