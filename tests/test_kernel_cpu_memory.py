"""The kernel on the CPU reads nothing before its operands, and nothing behind them: pages there cannot be read."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys

import pytest
import torch

from ksmm import DTYPES, LAYOUTS, Pattern, Problem
from tests.test_kernel_cpu import KERNEL, PATTERNS, _built, check, kernel, operands  # noqa: F401

PROT_NONE = 0
"""Of Linux's mprotect: neither read nor written."""

SHORT_ROWS = [(1, 64, 1, 3), (2, 64, 1, 3), (3, 70, 2, 3), (1, 64, 1, 5), (1, 33, 1, 6), (1, 64, 4, 7), (1, 64, 40, 3)]
"""Of which a vector reaches over one row of X and more."""


def between_walls(values: torch.Tensor, at_end: bool) -> torch.Tensor:
    """A copy whose memory ends, or begins, where a page does, beside a page that nobody may touch."""
    room = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for wall in (address, address + mmap.PAGESIZE + room):
        if libc.mprotect(ctypes.c_void_p(wall), ctypes.c_size_t(mmap.PAGESIZE), PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = mmap.PAGESIZE + (room - values.nbytes if at_end else 0)
    copy = torch.frombuffer(memory, dtype=values.dtype, count=values.numel(), offset=offset)
    return copy.view(values.shape).copy_(values)


def stored_between_walls(weight: torch.Tensor, at_end: bool) -> torch.Tensor:
    """The same, in the order that the dimensions have in memory."""
    order = sorted(range(4), key=weight.stride, reverse=True)
    return between_walls(weight.permute(order).contiguous(), at_end).permute([order.index(axis) for axis in range(4)])


def multiply_between_walls() -> None:
    """All patterns, in this process, which ends at the first number that is read from outside."""
    if reason := KERNEL.supports(Problem(Pattern(1, 1, 1, 1), 1, torch.float32, "batch_first")):
        sys.exit(reason)
    for layout in LAYOUTS:
        for dtype in DTYPES.values():
            for pattern in PATTERNS + SHORT_ROWS:
                for batch, at_end in [(1, True), (13, True), (61, True), (97, True), (13, False)]:
                    x, weight = operands(pattern, batch, layout, dtype)
                    walled_x = [between_walls(x, at_end)]
                    if pattern[3] in (3, 5, 6, 7):  # of which a vector reaches from a row into what follows it
                        walled_x.append(between_walls(x[:1], at_end).expand(x.shape))
                    bias = torch.randn(pattern[0] * pattern[1] * pattern[3]).to(dtype)
                    for stored in (weight, KERNEL.pack(weight, layout).data):
                        walled = stored_between_walls(stored, at_end)
                        for rows in walled_x:  # each its own, or all of them the first
                            y = kernel(rows, walled, layout, between_walls(bias, at_end))
                            check(y, rows, weight, layout, (pattern, layout, dtype, batch, at_end), bias)
    print("done")  # noqa: T201


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are protected by Linux's mprotect")
@pytest.mark.parametrize("variant", ["", "baseline", "avx2", "avx512", "avx512_bf16", "amx"])
def test_nothing_is_read_outside(variant, request):
    """By the variant that this machine chooses, and by each that it can run."""
    environment = {**os.environ, "PYTHONPATH": str(request.config.rootpath)}
    if variant:
        environment["KSMM_CPU_VARIANT"] = variant
    script = "from tests import test_kernel_cpu_memory as tests; tests.multiply_between_walls()"
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    if "this machine cannot run" in result.stderr:
        pytest.skip(f"this machine cannot run {variant}")
    assert result.stdout.strip() == "done", f"{variant}: {result.returncode}\n{result.stderr[-2000:]}"
