"""The check that every result passes before it is timed: the relative error against float64, over the whole output."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ksmm.measure.inputs import Inputs
from ksmm.problem import Problem
from ksmm.reference import reference_matmul

_CHUNK_ELEMENTS = 2**24
"""Elements of X and Y that are handled in float64 at a time: 128 MiB, a few times that with temporaries."""

_ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def tolerance(dtype: torch.dtype, c: int) -> float:
    """The largest relative error, ‖y − reference‖ / ‖reference‖, that counts as right.

    Let u be the unit roundoff of the dtype: 2^-24, 2^-11, 2^-8. The partial sums of c products of random signs grow
    like √k; where each of them is rounded, the result has a relative error of about 0.3·u·√c, in quadratic mean.

    float32 is allowed 2·u + 4·u·√c: ten times the error of adding one product after the other, 7.7e-6 for c = 1,024,
    and at most 1e-4 for whatever c. TF32 has 3e-4 for every c, so it never passes for float32.

    float16 and bfloat16 are allowed u + u·√c/8. Sums in float32 that are rounded once at the end have 0.4·u. Sums that
    are rounded after every 16 products have 0.07·u·√c and pass by a factor of 2: the product of `sparse` on CUDA
    behaves so (in float16 on an H200 3.0e-4 for c = 48, 5.0e-4 for c = 192, where all others have 2.0e-4). Sums that
    are rounded after every product do not pass, from c = 48 on.

    Raises:
        KeyError: the dtype is none of float32, float16, bfloat16.
    """
    roundoff = _ROUNDOFF[dtype]
    if dtype == torch.float32:
        return min(roundoff * (2 + 4 * math.sqrt(c)), 1e-4)
    return roundoff * (1 + math.sqrt(c) / 8)


class Reference:
    """The product of one pair of operands in float64, block by block, so that memory stays bounded.

    A block is some rows of the batch and one i (of a): Y[:, i] depends on the weights of that i alone. Blocks are
    kept for the next implementation where all of them together take at most `keep_bytes`.
    """

    def __init__(self, problem: Problem, keep_bytes: int = 2**30) -> None:
        self._problem = problem
        self._kept: dict[tuple[int, int], torch.Tensor] = {}
        self._keeps = problem.batch_size * problem.pattern.rows * 8 <= keep_bytes

    def relative_error(self, y: torch.Tensor, inputs: Inputs) -> float:
        """‖y − reference‖ / ‖reference‖ over the whole of y; NaN or infinite if y holds NaN or infinity.

        Args:
            y: shape (B, a·b·d) in batch_first, (a·b·d, B) in batch_last.
            inputs: the operands; the same values each time, in either layout.
        """
        y = y if inputs.layout == "batch_first" else y.T
        rows = self._problem.pattern.rows // self._problem.pattern.a
        difference = norm = 0.0
        for i, start, stop in self._blocks():
            reference = self._block(i, start, stop, inputs)
            computed = y[start:stop, i * rows : (i + 1) * rows].double()
            difference += computed.sub_(reference).square_().sum().item()
            norm += reference.square().sum().item()
        if difference == 0.0:
            return 0.0
        return math.sqrt(difference / norm) if norm else math.inf

    def _blocks(self) -> Iterator[tuple[int, int, int]]:
        pattern, batch_size = self._problem.pattern, self._problem.batch_size
        step = max(1, _CHUNK_ELEMENTS * pattern.a // (pattern.rows + pattern.columns))
        for i in range(pattern.a):
            for start in range(0, batch_size, step):
                yield i, start, min(start + step, batch_size)

    def _block(self, i: int, start: int, stop: int, inputs: Inputs) -> torch.Tensor:
        if (i, start) in self._kept:
            return self._kept[i, start]
        columns = self._problem.pattern.columns // self._problem.pattern.a
        x = inputs.x_batch_first[start:stop, i * columns : (i + 1) * columns]
        reference = reference_matmul(inputs.weight[i : i + 1], x, "batch_first")
        if self._keeps:
            self._kept[i, start] = reference
        return reference


def fault(y: object, problem: Problem) -> str | None:
    """None if a result can be compared with the reference, else what is wrong with it."""
    if not isinstance(y, torch.Tensor):
        return f"the result is a {type(y).__name__}, not a tensor"
    if tuple(y.shape) != problem.output_shape:
        return f"the result has shape {tuple(y.shape)} instead of {problem.output_shape}"
    if y.dtype != problem.dtype:
        return f"the result has dtype {y.dtype} instead of {problem.dtype}"
    return None


def fault_of_error(error: float, allowed: float) -> str | None:
    """None if a relative error passes, else why not; NaN and infinity never do."""
    if not math.isfinite(error):
        return "the result holds NaN or infinity"
    if error > allowed:
        return f"the relative error is {error:.2g}, the tolerance {allowed:.2g}"
    return None
