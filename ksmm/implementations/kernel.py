"""`kernel`: this project's own kernel, Algorithm 2 in one pass, as the operator ksmm::ks_matmul of a built library."""

from __future__ import annotations

import functools

import torch

from ksmm import build
from ksmm.gradients import fake_product, gradients_with, save_operands
from ksmm.implementations.base import REGISTRY, Implementation, Packed, register
from ksmm.problem import DTYPES, Problem, dtype_name
from ksmm.reference import pattern_of


@register
class Kernel(Implementation):
    """Output-stationary product; the permutations of Algorithm 1 are never materialised."""

    name = "kernel"

    def supports(self, problem: Problem) -> str | None:
        manifest, reason = load()
        if manifest is None:
            return reason
        if problem.dtype not in DTYPES.values():
            return f"dtype {dtype_name(problem.dtype)}; the kernel takes {', '.join(DTYPES)}"
        if problem.device_type == "cuda":
            return _without_cuda(manifest)
        if problem.device_type != "cpu":
            return f"device {problem.device_type}; the kernel runs on cpu and cuda"
        return None

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        # The operator takes any strides; the stored order is the one in which the kernel reads. The CPU kernel has
        # r·d + j contiguous in batch_first and reads rows of k in batch_last, as the CUDA kernel does in both for the
        # 16-bit types; for float32 that reads rows of r, which it copies to shared memory as they are.
        if layout == "batch_first" and weight.device.type == "cpu":
            data = weight.permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)  # stored as (a, c, b, d)
        elif weight.device.type == "cuda" and weight.dtype == torch.float32:
            data = weight.permute(0, 3, 2, 1).contiguous().permute(0, 3, 2, 1)  # stored as (a, d, c, b)
        else:
            data = weight.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1)  # stored as (a, d, b, c)
        return Packed(pattern_of(weight), layout, data)

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.ksmm.ks_matmul(x, packed.data, packed.layout)


@functools.cache
def load() -> tuple[build.Manifest | None, str | None]:
    """Loads the library and registers its fake kernel and gradients, at the first call of a process.

    Returns:
        The library's manifest and None, or None and the reason why there is no library.
    """
    manifest = build.find()
    if manifest is None:
        return None, build.reason_missing()
    try:
        torch.ops.load_library(manifest.library)
    except OSError as error:
        return None, f"the kernel library could not be loaded: {error}; remove {manifest.library} and build it again"
    torch.library.register_fake("ksmm::ks_matmul", fake_product)
    torch.library.register_autograd("ksmm::ks_matmul", gradients_with(_multiply), setup_context=save_operands)
    return manifest, None


def _without_cuda(manifest: build.Manifest) -> str | None:
    if not manifest.cuda_architectures:
        return f"the kernel library is built without CUDA: {manifest.without_cuda}"
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    major, minor = torch.cuda.get_device_capability()
    built = [divmod(int(name.rstrip("af")), 10) for name in manifest.cuda_architectures]
    # Machine code runs on the same major version from its minor version on; the newest architecture's PTX also on
    # everything newer.
    if any(m == major and n <= minor for m, n in built) or max(built) <= (major, minor):
        return None
    return (
        f"the kernel library is built for the CUDA architectures {', '.join(manifest.cuda_architectures)}, and this "
        f"device is {major}{minor}; run: {build.COMMAND}"
    )


def _multiply(x: torch.Tensor, weight: torch.Tensor, layout: str) -> torch.Tensor:
    """The product by weights that are in the order of some other factor, or layout."""
    kernel = REGISTRY["kernel"]
    return kernel.matmul(kernel.pack(weight, layout), x)
