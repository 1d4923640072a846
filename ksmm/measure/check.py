"""The check that every result passes before it is timed: the relative error against float64, over the whole output."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ksmm.measure import memory
from ksmm.measure.inputs import Inputs
from ksmm.problem import Problem
from ksmm.reference import ratio_of_norms, reference_matmul

_CHUNK_ELEMENTS = 2**24
"""Elements of X and Y that are handled in float64 at a time: 128 MiB, a few times that with temporaries."""

_KEPT_SHARE = 8
"""One part in so many of the memory that is available may be taken by a reference that is kept."""

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

    A block is some rows of the batch and some i (of a): Y[:, i] depends on the weights of that i alone. Blocks are
    kept for the next implementation where all of them together take at most `keep_bytes`; by default an eighth of
    the memory that is available when the first is made.
    """

    def __init__(self, problem: Problem, keep_bytes: int | None = None) -> None:
        self._problem = problem
        self._keep_bytes = keep_bytes
        self._kept: dict[tuple[int, int], torch.Tensor] = {}

    def relative_error(self, y: torch.Tensor, inputs: Inputs) -> float:
        """‖y − reference‖ / ‖reference‖ over the whole of y; infinite if y holds NaN or infinity.

        Args:
            y: shape (B, a·b·d) in batch_first, (a·b·d, B) in batch_last.
            inputs: the operands; the same values each time, in either layout.
        """
        y = y if inputs.layout == "batch_first" else y.T
        # on the device until the end: asking for each block would wait for it
        sums = torch.zeros(2, dtype=torch.float64, device=y.device)
        for diagonal, batch in self._blocks():
            reference = self._block(diagonal, batch, inputs)
            computed = y[batch, _times(diagonal, self._problem.pattern.rows // self._problem.pattern.a)].double()
            sums[0] += computed.sub_(reference).square_().sum()
            sums[1] += reference.square().sum()
        difference, norm = sums.sqrt_().tolist()
        return ratio_of_norms(difference, norm)

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        """Each block as its range of i and its range of the batch."""
        pattern, batch_size = self._problem.pattern, self._problem.batch_size
        elements = (pattern.rows + pattern.columns) // pattern.a  # of one i and one row of the batch
        at_once = max(1, min(pattern.a, _CHUNK_ELEMENTS // (elements * batch_size)))
        step = max(1, min(batch_size, _CHUNK_ELEMENTS // elements))
        for i in range(0, pattern.a, at_once):
            for start in range(0, batch_size, step):
                yield slice(i, min(i + at_once, pattern.a)), slice(start, min(start + step, batch_size))

    def _block(self, diagonal: slice, batch: slice, inputs: Inputs) -> torch.Tensor:
        key = (diagonal.start, batch.start)
        if key in self._kept:
            return self._kept[key]
        pattern = self._problem.pattern
        x = inputs.x_batch_first[batch, _times(diagonal, pattern.columns // pattern.a)]
        reference = reference_matmul(inputs.weight[diagonal], x, "batch_first")
        if self._keeps(inputs):
            self._kept[key] = reference
        return reference

    def _keeps(self, inputs: Inputs) -> bool:
        if self._keep_bytes is None:
            self._keep_bytes = memory.available_bytes(inputs.weight.device.type) // _KEPT_SHARE
        return self._problem.batch_size * self._problem.pattern.rows * 8 <= self._keep_bytes


def _times(indices: slice, features: int) -> slice:
    """The features of a range of i, each of which has so many."""
    return slice(indices.start * features, indices.stop * features)


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
