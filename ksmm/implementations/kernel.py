"""`kernel`: this project's own kernel, Algorithm 2 in one pass, as the operator ksmm::ks_matmul of a built library.

`kernel_strict` is the same for float32 alone, without the matrix units.
"""

from __future__ import annotations

import functools
import logging
from typing import ClassVar

import torch
from torch.utils.flop_counter import register_flop_formula

from ksmm import build, flops
from ksmm.architectures import HOPPER, NOT_AT_ALL, PORTABLY, suitability
from ksmm.gradients import fake_chain, fake_planes, fake_product, fake_weight_gradient, fake_weight_gradient_first
from ksmm.implementations.base import Implementation, Packed, register
from ksmm.implementations.kept import PackedForMany, choose_and_keep, kept_weight
from ksmm.names import dtype_name
from ksmm.problem import DTYPES, Problem
from ksmm.reference import pattern_of
from ksmm.tuning.entry import precision_of
from ksmm.tuning.numbers import answers_kept_with, remembered_number, remembered_numbers

logger = logging.getLogger(__name__)


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
        if problem.device_type not in ("cpu", "meta"):  # on meta the fake kernel says what shape Y has
            return f"device {problem.device_type}; the kernel runs on cpu and cuda"
        return None

    def pack(self, weight: torch.Tensor, layout: str) -> Packed:
        data = self._stored(weight, layout)
        if torch.compiler.is_compiling():
            return Packed(pattern_of(weight), layout, data)
        own = type(data) is torch.Tensor and data.is_cuda and data.data_ptr() != weight.data_ptr()
        return PackedForMany(pattern_of(weight), layout, data, {} if own else None)

    def pack_once(self, weight: torch.Tensor, layout: str) -> Packed:
        # The CPU's kernel packs what it reads in any case, and from any order for less than a copy takes.
        return Packed(pattern_of(weight), layout, weight if weight.is_cpu else self._stored(weight, layout))

    def _stored(self, weight: torch.Tensor, layout: str) -> torch.Tensor:
        """In the order in which the kernel reads (csrc/gradients.cpp); the operator takes any strides."""
        return torch.ops.ksmm.pack.default(weight, layout, self.precision)

    def matmul(self, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        return self._multiply(packed, x, None)

    def matmul_bias(self, packed: Packed, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return self._multiply(packed, x, bias)

    def matmul_chain(
        self, inner: Packed, outer: Packed, x: torch.Tensor, bias: torch.Tensor | None = None, launches: int = 0
    ) -> torch.Tensor:
        """Two products in batch_first; in one launch, what lies between staying on the chip, where that is faster.

        A kernel takes both on compute capability 9.0 in 16 bits, for an inner factor with d = 1 and an outer one with
        a = 1, as Monarch matrices have: for up to 32 rows where both c are multiples of 8
        (csrc/cuda/hopper/few_chain.cu), for more with an inner b of 48, 64 or 128 and an outer d of 2 or 8
        (csrc/cuda/hopper/fused.cu), or an inner b of 64 and an outer d of 6 or 8, or 32 and 12, where what lies between
        fits into shared memory (csrc/cuda/hopper/fused_streamed.cu).

        Args:
            inner: packed weights of the factor that is applied first.
            outer: of the other one.
            x: shape (B, a·c·d) of the inner factor.
            bias: shape (a·b·d,) of the outer factor, or None.
            launches: 1 takes one wherever a kernel does, 2 two; 0 whichever is predicted to be faster.

        Returns:
            Shape (B, a·b·d) of the outer factor.

        Raises:
            ValueError: factors that do not chain, weights of another type or device than x, another `launches`.
        """
        numbers = (self._configuration_of_pattern(outer, x), self._configuration_of_pattern(inner, x))
        return torch.ops.ksmm.ks_chain.default(x, outer.data, inner.data, bias, *numbers, launches)

    def _multiply(self, packed: Packed, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return self._multiply_in(self._configuration(packed, x), packed, x, bias)

    def _multiply_in(
        self, configuration: int, packed: Packed, x: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        if not torch.compiler.is_compiling() and isinstance(packed, PackedForMany) and packed.kept is not None:
            kept = kept_weight(packed, configuration, x, self.precision)
            if kept:
                return torch.ops.ksmm.ks_matmul_kept.default(
                    x, packed.data, packed.layout, bias, self.precision, configuration, kept
                )
        return torch.ops.ksmm.ks_matmul.default(x, packed.data, packed.layout, bias, self.precision, configuration)

    def _configuration(self, packed: Packed, x: torch.Tensor) -> int:
        """The number of the one that was measured to be the fastest, -1 (the cost model's) where nobody measured.

        With weights that are packed for many products the answers are kept, the cost model's, too.
        """
        asked = x.shape[0] if packed.layout == "batch_first" else x.shape[1]
        if torch.compiler.is_compiling() or type(asked) is not int or not isinstance(packed, PackedForMany):
            return self._configuration_of_pattern(packed, x)
        if packed.data.dtype is torch.float32:  # whose answers a switch of PyTorch may change
            asked = asked, precision_of(torch.float32, packed.data.device.type, self.precision == "strict")
        answers = answers_kept_with(packed)
        number = answers.get(asked)
        if number is None:
            number = self._configuration_of_pattern(packed, x)
            if number < 0 and packed.kept is not None:
                number = choose_and_keep(packed, x, self.precision)
                if number < 0:
                    return number
            answers[asked] = number
        return number

    def _configuration_of_pattern(self, packed: Packed, x: torch.Tensor) -> int:
        """As `_configuration`, from what was measured of such a pattern: of x the batch size alone matters."""
        batch_size = x.shape[0] if packed.layout == "batch_first" else x.shape[1]
        weight = packed.data  # the operator refuses an x that is not like it
        asked = self.name, weight.shape, weight.dtype, packed.layout, weight.device, batch_size
        if not torch.compiler.is_compiling():
            try:
                return remembered_number(*asked)
            except TypeError:
                if all(type(size) is int for size in (*weight.shape, batch_size)):
                    raise
                # else symbolic, as make_fx has sizes, which have no hash
        return _configuration_compiled(*asked)

    def matmul_in(self, configuration: int, packed: Packed, x: torch.Tensor) -> torch.Tensor:
        """As `matmul`, in the configuration of that number; in the cost model's if that one does not take x."""
        return self._multiply_in(configuration, packed, x, None)

    def configuration_of(self, packed: Packed, x: torch.Tensor) -> str:
        names = {number: name for name, number in self.configurations(packed, x).items()}
        # the first is the cost model's, which is taken, too, where the one that is remembered does not take x
        return names.get(self._configuration(packed, x), next(iter(names.values()), ""))

    def configurations(self, packed: Packed, x: torch.Tensor) -> dict[str, int]:
        """The configurations that take these operands, by name: the cost model's choice first.

        Names stay the same from build to build; numbers, which the operator takes, do not. On a CPU there are none.
        """
        if x.device.type != "cuda":
            return {}
        kept = isinstance(packed, PackedForMany) and packed.kept is not None
        entries = torch.ops.ksmm.configurations(x, packed.data, packed.layout, self.precision, kept)
        return {name: int(number) for number, name in (entry.split(" ", 1) for entry in entries)}


def _configuration_compiled(
    kernel: str, shape: torch.Size, dtype: torch.dtype, layout: str, device: torch.device, batch_size: int
) -> int:
    """As remembered_number, in code that torch.compile reads: the batch size may be symbolic, which has no hash.

    So may the sizes of the weight, and they are no pattern that somebody measured.
    """
    configuration = -1
    if all(isinstance(size, int) for size in shape):
        for first, last, number in remembered_numbers(kernel, tuple(shape), dtype, layout, device.type, device.index):
            if first <= batch_size <= last:
                configuration = number
    return configuration


@register
class KernelStrict(Kernel):
    """The kernel in float32 multiply-adds alone: what PyTorch's products do by default."""

    name = "kernel_strict"
    precision = "strict"

    def supports(self, problem: Problem) -> str | None:
        """None only where the kernel does something else: a benchmark does not measure the same twice."""
        try:
            reason = _only_precision(problem)
        except ValueError as error:  # KSMM_CPU_VARIANT asks for what this CPU does not have
            return str(error)
        return super().supports(problem) if reason is None else f"{reason}: choose kernel"


def asked_for(implementation: str, problem: Problem) -> str:
    """The name of the implementation that multiplies where one is asked for by name.

    `kernel` for `kernel_strict` where both do the same; else the one that is asked for.
    """
    delegates = implementation == KernelStrict.name and _only_precision(problem) is not None
    return Kernel.name if delegates else implementation


def _only_precision(problem: Problem) -> str | None:
    """Why the kernel has no other precision than strict for a problem; None where it has, or no library says so."""
    if problem.dtype != torch.float32:
        return f"dtype {dtype_name(problem.dtype)}; only float32 has more than one precision"
    if problem.device_type == "cpu" and load()[0] is not None and not multiplies_by_tiles():
        return "on a CPU without AMX the kernel is strict anyway"
    return None


def multiplies_by_tiles() -> bool:
    """Whether this CPU has AMX, by which large float32 products are not strict. Needs the library."""
    return torch.ops.ksmm.multiplies_by_tiles()


@functools.cache
def load() -> tuple[build.Manifest | None, str | None]:
    """Loads the library, and registers its fake kernels and counts of operations, at the first call of a process.

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
    for product in ("ksmm::ks_matmul", "ksmm::ks_matmul_kept"):
        torch.library.register_fake(product, fake_product)
    torch.library.register_fake("ksmm::ks_chain", fake_chain)
    torch.library.register_fake("ksmm::planes", fake_planes)
    torch.library.register_fake("ksmm::weight_gradient", fake_weight_gradient)
    torch.library.register_fake("ksmm::weight_gradient_first", fake_weight_gradient_first)
    register_flop_formula([torch.ops.ksmm.ks_matmul, torch.ops.ksmm.ks_matmul_kept])(flops.of_product)
    register_flop_formula(torch.ops.ksmm.ks_chain)(flops.of_chain)
    register_flop_formula(torch.ops.ksmm.weight_gradient)(flops.of_weight_gradient)
    register_flop_formula(torch.ops.ksmm.weight_gradient_first)(flops.of_weight_gradient_first)
    return manifest, None


@functools.cache
def say_if_missing() -> None:
    """Logs, once a process, that "auto" does without the kernel where it could be built, and why."""
    manifest, reason = load()
    if manifest is None and build.missing_tools() is None:
        logger.warning('implementation="auto" does without the kernel: %s', reason)


def load_kernel() -> None:
    """Loads the kernel library, which the first product does otherwise.

    For a process that reads a saved graph before it multiplies: torch.export.load and torch.jit.load must know the
    kernel's operators.

    Raises:
        RuntimeError: there is no library, or it cannot be loaded; the message says why, and what to do.
    """
    manifest, reason = load()
    if manifest is None:
        raise RuntimeError(reason)


def _without_cuda(manifest: build.Manifest) -> str | None:
    if not manifest.cuda_architectures:
        return f"the kernel library is built without CUDA: {manifest.without_cuda}"
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    major, minor = torch.cuda.get_device_capability()
    suited = suitability(manifest.cuda_architectures, (major, minor))
    if suited != NOT_AT_ALL:
        if suited == PORTABLY and (major, minor) == (9, 0):
            _say_without_hopper(tuple(manifest.cuda_architectures))
        return None
    return (
        f"the kernel library is built for the CUDA architectures {', '.join(manifest.cuda_architectures)}, and this "
        f"device is {major}{minor}; run: {build.COMMAND}"
    )


@functools.cache
def _say_without_hopper(architectures: tuple[str, ...]) -> None:
    """Logs, once a process, that a device has faster kernels than those that were built."""
    logger.warning(
        "the kernel library is built for the CUDA architectures %s, without %s: what is for Hopper alone, and much "
        "faster, is left out; add it to KSMM_CUDA_ARCHITECTURES, or unset that, and run: %s",
        ", ".join(architectures),
        HOPPER,
        build.COMMAND,
    )
