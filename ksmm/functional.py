"""`ks_matmul`: one Kronecker-sparse multiplication, by whichever implementation, with its gradients."""

from __future__ import annotations

import contextlib
import functools

import torch
from torch.utils.flop_counter import register_flop_formula

from ksmm import flops
from ksmm.gradients import fake_product, gradients_with, save_operands
from ksmm.implementations import Packed, check_implementation, get_implementation, implementations, preference
from ksmm.implementations.kernel import asked_for, say_if_missing
from ksmm.names import dtype_name
from ksmm.operands import (
    OPERAND_DTYPES,
    along_features,
    autocast_operands,
    check_bias,
    check_dtypes,
    check_shapes,
    flatten_batch,
    is_empty,
    is_transformed,
    restore_batch,
)
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, Problem, check_layout
from ksmm.tuning.entry import precision_of
from ksmm.tuning.knowledge import ANSWERS, known


def ks_matmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    layout: str = "batch_first",
    implementation: str = "auto",
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Y = X Kᵀ + bias for the Kronecker-sparse matrix K of a canonical weight (Algorithm 2 of the paper).

    Differentiable in x, weight and bias with every implementation. Below the transforms of torch.func (grad, vmap, jvp,
    ...) and in a dual_level "bmm" multiplies whatever `implementation` says: they see through PyTorch's own operations
    alone. Under autocast all are cast as for nn.Linear.

    Precision: on Hopper GPUs, and on CPUs with AMX, "kernel" multiplies float32 on the matrix units, in a compensated
    form whose error is no larger than that of multiply-adds in nearly all cases (docs/float32.md, docs/cpu.md: up to
    1.03 times theirs, and x below 4e-31 loses digits). Badly scaled weights it leaves to multiply-adds, on GPUs at 3 to
    5 times the time of "kernel_strict", which is multiply-adds alone, and "kernel" where that is so, too. PyTorch's
    switches for TF32 (`torch.backends.cuda.matmul`) make "kernel" plain TF32 on Hopper GPUs.

    >>> x, weight = torch.randn(10, 96), torch.randn(1, 192, 48, 2)
    >>> ks_matmul(x, weight).shape
    torch.Size([10, 384])

    Args:
        x: shape (..., a·c·d) in batch_first, (a·c·d, ...) in batch_last.
        weight: shape (a, b, c, d), of the dtype and device of x.
        layout: "batch_first" or "batch_last".
        implementation: a name from `ksmm.implementations()`, or "auto" for the fastest that `python -m ksmm tune`
            measured on this device, and for the first in `ksmm.implementations.preference` that supports the problem
            where it measured none.
        bias: shape (a·b·d,), of the dtype and device of x; None for none.

    Returns:
        Shape (..., a·b·d) in batch_first, (a·b·d, ...) in batch_last; dtype and device of x (after autocast). In which
        order sums are added is not said: it depends on the implementation and the sizes, and with "kernel" on a GPU
        also on where in the batch a row is.

    Raises:
        ValueError: unknown layout or implementation; shapes, dtypes or devices that do not fit; a problem that the
            implementation does not support (the message says why).
    """
    check_layout(layout)
    pattern = check_shapes(x, weight, layout)
    x, weight, bias = autocast_operands(x, weight, bias)
    check_dtypes(x, weight)
    check_bias(x, bias, pattern)
    rows = flatten_batch(x, layout)
    batch_size = rows.shape[0] if layout == "batch_first" else rows.shape[1]
    ranges = choices(pattern.weight_shape, x.dtype, layout, x.device.type, implementation, x.device.index)
    name = choice_of(ranges, batch_size)
    if is_transformed():
        y = _multiply("bmm", rows, weight, layout, bias)  # plain operations of PyTorch, for every problem
    elif get_implementation(name).differentiable and not is_empty(rows):
        y = _multiply(name, rows, weight, layout, bias)
    else:
        y = _opaque_matmul(rows, weight, layout, name)
        if bias is not None:
            y = y + along_features(bias, layout)
    return restore_batch(y, x, layout)


def choice_of(ranges: tuple[tuple[int, int, str], ...], batch_size: int) -> str:
    """The name of the implementation for a batch size, of what choices() returns."""
    *measured, (_, _, name) = ranges  # with nothing measured, a batch size that may be symbolic is not looked at
    for first, last, other in measured:
        if first <= batch_size <= last:
            name = other
    return name


def choices(
    weight_shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    layout: str,
    device_type: str,
    implementation: str,
    device_index: int | None = None,
    for_many: bool = False,
) -> tuple[tuple[int, int, str], ...]:
    """The names of the implementations that multiply, by batch size: first, last and name; resolves "auto".

    Ranges do not overlap; the largest batch sizes come first, and last of all the range of every size, for what none of
    the others holds. It depends on no tensor, so torch.compile evaluates it once, and compares batch sizes only where
    the choice depends on them; hence the shape (a, b, c, d) instead of a Pattern, which the compiler cannot hand over.
    Answers are kept, as a small product takes no longer than finding one.

    Args:
        weight_shape: (a, b, c, d).
        dtype: of the operands.
        layout: of x.
        device_type: of the operands, "cuda" for example.
        implementation: a name, or "auto".
        device_index: which CUDA device; None for the present one.
        for_many: whether the weight is packed once for many products, as the tuner measures; else "auto" leaves out
            what takes long to pack.

    Raises:
        ValueError: there is no such implementation, or it does not support the problem; a dtype that none supports.
        TypeError: the implementation is no name.
    """
    # what an answer depends on besides; both may change
    precision = precision_of(dtype, device_type)
    if device_index is None and device_type == "cuda" and torch.cuda.is_initialized():
        device_index = torch.cuda.current_device()
    try:
        return _choices(weight_shape, dtype, layout, device_type, implementation, precision, device_index, for_many)
    except TypeError:  # of what has no hash
        check_implementation(implementation)
        raise


@functools.lru_cache(maxsize=4096)
def _choices(
    weight_shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    layout: str,
    device_type: str,
    implementation: str,
    precision: str | None,
    index: int | None,
    for_many: bool,
) -> tuple[tuple[int, int, str], ...]:
    """As choices(); `index` is that of the CUDA device, which is the present one for all that is asked here."""
    if dtype not in OPERAND_DTYPES:
        raise ValueError(
            f"x and weight have dtype {dtype_name(dtype)}; a floating-point dtype is needed, one of "
            f"{', '.join(map(dtype_name, OPERAND_DTYPES))}: convert them with .to()"
        )
    with torch.cuda.device(index) if device_type == "cuda" and index is not None else contextlib.nullcontext():
        pattern = Pattern(*weight_shape)
        problem = Problem(pattern, 1, dtype, layout, device_type)
        if check_implementation(implementation) == "auto":
            other = next(name for name in preference(problem) if get_implementation(name).supports(problem) is None)
            if device_type in ("cpu", "cuda") and dtype in DTYPES.values():  # the kernel would take it
                say_if_missing()
            measured = known(weight_shape, dtype, layout, precision, device_type, index)
            ranges = [
                (choice.first, choice.last, choice.implementation)
                for choice in measured
                if choice.implementation in implementations()
                and (for_many or choice.implementation not in _PACKED_ONCE)
                and get_implementation(choice.implementation).supports(problem) is None
            ]
            if all(name == other for _, _, name in ranges):
                ranges = []
            return *ranges, (0, _ANY, other)
        name = asked_for(implementation, problem)
        reason = get_implementation(name).supports(problem)
        if reason is not None:
            raise ValueError(
                f"implementation {implementation!r} cannot multiply pattern {pattern} in {layout}, "
                f"{dtype_name(dtype)}, on {device_type}: {reason}; choose another one, or auto"
            )
        return ((0, _ANY, name),)


_ANY = 2**63 - 1
_PACKED_ONCE = ("dense",)
"""Packing writes a·d times as many numbers as the weight has, which takes longer than the product of few that it is."""

ANSWERS.append(_choices.cache_clear)

# All that torch.compiler.assume_constant_result does, without importing torch._dynamo: a second at each start.
choices._dynamo_marked_constant = True


@torch.library.custom_op("ksmm::opaque_matmul", mutates_args=())
def _opaque_matmul(x: torch.Tensor, weight: torch.Tensor, layout: str, implementation: str) -> torch.Tensor:
    """A product that autograd and torch.compile cannot trace (or need not: an empty batch), as one operator."""
    return _multiply(implementation, x, weight, layout)


_opaque_matmul.register_fake(fake_product)
register_flop_formula(torch.ops.ksmm.opaque_matmul)(flops.of_product)
_opaque_matmul.register_autograd(gradients_with(ks_matmul), setup_context=save_operands)


def _multiply(
    name: str, x: torch.Tensor, weight: torch.Tensor, layout: str, bias: torch.Tensor | None = None
) -> torch.Tensor:
    implementation = get_implementation(name)
    return multiply_packed(name, implementation.pack_once(weight, layout), x, bias)


def multiply_packed(name: str, packed: Packed, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """One product with packed weights; an empty batch needs none, and not every library routine takes one."""
    if is_empty(x):
        rows = packed.pattern.rows
        return x.new_zeros((0, rows) if packed.layout == "batch_first" else (rows, 0))
    if bias is None:
        return get_implementation(name).matmul(packed, x)
    return get_implementation(name).matmul_bias(packed, x, bias)
