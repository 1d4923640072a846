"""Memory: how much there is, how much a product needs, and what running out of it looks like."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from ksmm.problem import Problem

_SIGNS = ("out of memory", "not enough memory", "can't allocate memory", "alloc_failed")
_CGROUPS = Path("/sys/fs/cgroup")
_SURPLUS = 0.25


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on the device or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


def release_memory(device_type: str) -> None:
    """Gives back what no tensor holds any more."""
    if device_type == "cuda" and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def release_surplus(device_type: str) -> None:
    """Gives back what no tensor holds any more, where it is more than a quarter of the device's memory.

    PyTorch takes what it holds itself for its next tensors, and asking for gigabytes anew takes longer than many a
    product; who else needs memory there (another process, CuPy) gets at least the rest.
    """
    if device_type == "cuda" and torch.cuda.is_initialized():
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if unused > _SURPLUS * torch.cuda.mem_get_info()[1]:
            torch.cuda.empty_cache()


def available_bytes(device_type: str) -> int:
    """Bytes that can still be allocated, on the present CUDA device or on the host (within its control group)."""
    if device_type == "cuda":
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return torch.cuda.mem_get_info()[0] + unused
    return min(_host_bytes(), *_control_group_bytes())


def _host_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:  # not Linux
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _control_group_bytes() -> list[int]:
    """What the limits of this process's control groups (version 2) leave; containers and Slurm set them.

    What a group is said to use counts files that were read and that the kernel drops for whoever needs memory: those
    are not in use here, as in MemAvailable.
    """
    own, left = _own_control_group(), [2**63]
    for folder in (_CGROUPS / own, *(_CGROUPS / own).parents):
        try:
            limit = (folder / "memory.max").read_text().strip()
            if limit != "max":
                used = int((folder / "memory.current").read_text()) - _dropped_when_needed(folder)
                left.append(max(0, int(limit) - max(0, used)))
        except (OSError, ValueError):
            continue
    return left


def _own_control_group() -> str:
    """The path of this process's control group below their root, "" for the root or where there are none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")


def _dropped_when_needed(folder: Path) -> int:
    """Bytes of a control group's files that were not asked for lately, and of what the kernel can make anew."""
    try:
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int(counts["inactive_file"]) + int(counts["slab_reclaimable"])
    except (OSError, ValueError, KeyError):
        return 0


def operand_bytes(problem: Problem) -> int:
    """Bytes of X and the weights, while they are made: X is there twice when it is transposed."""
    copies = 2 if problem.layout == "batch_last" else 1
    return (copies * problem.batch_size * problem.pattern.columns + problem.pattern.nnz) * problem.dtype.itemsize


def product_bytes(problem: Problem, implementation: str) -> int:
    """Bytes that packing and one product take at their peak, besides X and the canonical weights.

    An estimate: what `dense`, `sparse` and `bmm_strided` hold is known; of any other implementation it is assumed that
    it copies the weights twice and holds a permuted X, a permuted Y and Y at once, as bmm does.
    """
    pattern, size = problem.pattern, problem.dtype.itemsize
    x, y = (problem.batch_size * features * size for features in (pattern.columns, pattern.rows))
    if implementation == "dense":
        return pattern.rows * pattern.columns * size + y
    if implementation == "sparse":  # values, and column indices in 64 bits, then in 32
        return pattern.nnz * (size + 12) + y
    if implementation == "bmm_strided":
        return pattern.nnz * size + y
    return 2 * pattern.nnz * size + x + 2 * y


def shortage(needed: int, device_type: str) -> str | None:
    """None if so many bytes fit on the host, else a reason; CUDA is left to say so itself, since it can be caught.

    The host's kernel ends a process that touches more memory than there is, so it must not be let come to that. Of more
    bytes than a tensor can have CUDA is not asked: that is another error.
    """
    if device_type != "cpu" and needed < 2**63:
        return None
    available = available_bytes(device_type)
    if needed <= 0.9 * available:
        return None
    return f"needs about {needed / 2**30:.1f} GiB, {available / 2**30:.1f} GiB are available"
