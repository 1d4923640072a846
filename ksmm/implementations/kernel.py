"""`kernel`: this project's own kernel, Algorithm 2 in one pass, as the operator ksmm::ks_matmul of a built library.

`kernel_strict` is the same for float32 alone, without the matrix units.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import torch
from torch.nn import functional

from ksmm import build
from ksmm.gradients import fake_product, weight_gradient
from ksmm.implementations.base import REGISTRY, Implementation, Packed, register
from ksmm.problem import DTYPES, Problem, dtype_name
from ksmm.reference import pattern_of
from ksmm.tuning.numbers import remembered_numbers


@register
class Kernel(Implementation):
    """Output-stationary product; the permutations of Algorithm 1 are never materialised."""

    name = "kernel"

    precision: ClassVar[str] = "default"
    """What the operator is asked for."""

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
        # r·d + j contiguous in batch_first and reads rows of k in batch_last, as the CUDA kernels do in both, from
        # addresses that are multiples of 16 bytes.
        if layout == "batch_first" and weight.device.type == "cpu":
            data = weight.permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)  # stored as (a, c, b, d)
        else:
            data = weight.permute(0, 3, 1, 2)
            padding = -data.shape[-1] % (16 // weight.element_size()) if weight.device.type == "cuda" else 0
            data = functional.pad(data, (0, padding)).contiguous()  # stored as (a, d, b, c)
            data = data[..., : weight.shape[2]].permute(0, 2, 3, 1)
        return Packed(pattern_of(weight), layout, data)

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        return self._multiply(packed, x, None)

    def matmul_bias(self, packed: Packed, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return self._multiply(packed, x, bias)

    def _multiply(self, packed: Packed, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """In the configuration that was measured to be the fastest, -1 (the cost model's) where nobody measured."""
        shape, device = tuple(packed.data.shape), x.device
        batch_size = x.shape[0] if packed.layout == "batch_first" else x.shape[1]
        configuration = -1
        # a compiler's symbolic sizes are no pattern that somebody measured
        known = remembered_numbers if all(isinstance(size, int) for size in shape) else lambda *_: ()
        for first, last, number in known(self.name, shape, x.dtype, packed.layout, device.type, device.index):
            if first <= batch_size <= last:
                configuration = number
        return torch.ops.ksmm.ks_matmul(x, packed.data, packed.layout, bias, self.precision, configuration)

    def matmul_in(self, configuration: int, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        """As `matmul`, in the configuration of that number; in the cost model's if that one does not take x."""
        return torch.ops.ksmm.ks_matmul(x, packed.data, packed.layout, None, self.precision, configuration)

    def configurations(self, packed: Packed, x: torch.Tensor) -> dict[str, int]:
        """The configurations that take these operands, by name: the cost model's choice first.

        Names stay the same from build to build; numbers, which the operator takes, do not. On a CPU there are none.
        """
        if x.device.type != "cuda":
            return {}
        entries = torch.ops.ksmm.configurations(x, packed.data, packed.layout, self.precision)
        return {name: int(number) for number, name in (entry.split(" ", 1) for entry in entries)}


@register
class KernelStrict(Kernel):
    """The kernel in float32 multiply-adds alone: what PyTorch's products do by default."""

    name = "kernel_strict"
    precision = "strict"

    def supports(self, problem: Problem) -> str | None:
        if problem.dtype != torch.float32:
            return f"dtype {dtype_name(problem.dtype)}; only float32 has more than one precision: choose kernel"
        if problem.device_type == "cpu":
            return "on a CPU the kernel is strict anyway: choose kernel"
        return super().supports(problem)

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        # The strict kernel copies rows of r to shared memory as they are.
        data = weight.permute(0, 3, 2, 1).contiguous().permute(0, 3, 2, 1)  # stored as (a, d, c, b)
        return Packed(pattern_of(weight), layout, data)


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
    torch.library.register_autograd("ksmm::ks_matmul", _gradients, setup_context=_save)
    return manifest, None


def _without_cuda(manifest: build.Manifest) -> str | None:
    if not manifest.cuda_architectures:
        return f"the kernel library is built without CUDA: {manifest.without_cuda}"
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    major, minor = torch.cuda.get_device_capability()
    built = [(*divmod(int(name.rstrip("af")), 10), name.isdigit()) for name in manifest.cuda_architectures]
    # Machine code runs on the same major version from its minor version on (with an architecture's own instructions,
    # on that one alone); the newest architecture's PTX also on everything newer.
    if any((m, n) == (major, minor) or (portable and m == major and n <= minor) for m, n, portable in built):
        return None
    *newest, portable = max(built)
    if portable and tuple(newest) <= (major, minor):
        return None
    return (
        f"the kernel library is built for the CUDA architectures {', '.join(manifest.cuda_architectures)}, and this "
        f"device is {major}{minor}; run: {build.COMMAND}"
    )


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    x, weight, layout, _bias, precision, _configuration = inputs
    ctx.layout, ctx.name = layout, "kernel_strict" if precision == "strict" else "kernel"
    ctx.save_for_backward(x, weight)


def _gradients(ctx: Any, y_gradient: torch.Tensor) -> tuple:
    """Of x (the kernel again, with b and c exchanged), weight and bias, in differentiable steps."""
    x, weight = ctx.saved_tensors
    of_x = of_weight = of_bias = None
    if ctx.needs_input_grad[0]:
        kernel = REGISTRY[ctx.name]
        of_x = kernel.matmul(kernel.pack(weight.transpose(1, 2), ctx.layout), y_gradient)
    if ctx.needs_input_grad[1]:
        of_weight = weight_gradient(x, y_gradient, ctx.layout, tuple(weight.shape))
    if any(ctx.needs_input_grad[3:]):
        of_bias = y_gradient.sum(0 if ctx.layout == "batch_first" else 1)
    # defaults that a call leaves out take no gradient
    return (of_x, of_weight, None, of_bias, None, None)[: len(ctx.needs_input_grad)]
