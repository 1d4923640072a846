"""From the names of configurations, which tuning files remember, to the numbers that the kernel's operator takes."""

from __future__ import annotations

import functools
from collections.abc import Hashable

import torch

from ksmm.implementations.base import REGISTRY
from ksmm.implementations.kept import PackedForMany
from ksmm.patterns import Pattern
from ksmm.problem import Problem
from ksmm.tuning.entry import Choice, precision_of
from ksmm.tuning.knowledge import ANSWERS, known

_LARGEST_TRIAL = 1024
_MOST_ANSWERS = 4096
_numbers: dict[str, int] = {}
"""By name, as far as this process has come across them."""
_age: object = object()
"""Of the answers that are kept with packed weights: another one once they are forgotten, and in other processes."""


def remembered_number(
    kernel: str, weight_shape: tuple[int, ...], dtype: torch.dtype, layout: str, device: torch.device, batch_size: int
) -> int:
    """The configuration that was measured to be the fastest, or -1, the cost model's choice, where nobody measured.

    Answers are kept: looking one up takes less than a microsecond, where a small product takes ten.

    Args:
        kernel: "kernel" or "kernel_strict".
        weight_shape: (a, b, c, d).
        dtype: of the operands.
        layout: "batch_first" or "batch_last".
        device: of the operands.
        batch_size: columns of X in batch_last, rows in batch_first.
    """
    precision = precision_of(dtype, device.type, strict=kernel == "kernel_strict")  # a switch of PyTorch may change it
    return _answer(kernel, weight_shape, dtype, layout, device, batch_size, precision)


@functools.lru_cache(maxsize=_MOST_ANSWERS)
def _answer(
    kernel: str,
    weight_shape: tuple[int, ...],
    dtype: torch.dtype,
    layout: str,
    device: torch.device,
    batch_size: int,
    precision: str | None,
) -> int:
    for first, last, number in remembered_numbers(
        kernel, tuple(weight_shape), dtype, layout, device.type, device.index
    ):
        if first <= batch_size <= last:
            return number
    return -1


def answers_kept_with(packed: PackedForMany) -> dict[Hashable, int]:
    """Where answers for a packed weight may be kept: until they are forgotten, or many, and for this process.

    Finding one there takes a quarter of the time that `remembered_number` does.
    """
    answers = packed.answers
    if answers.age is not _age or len(answers.numbers) >= _MOST_ANSWERS:
        answers.numbers, answers.age = {}, _age  # in this order: of two threads neither sees old numbers as new ones
    return answers.numbers


def _forget() -> None:
    global _age
    _answer.cache_clear()
    _age = object()


ANSWERS.append(_forget)


def remembered_numbers(
    kernel: str, weight_shape: tuple[int, ...], dtype: torch.dtype, layout: str, device_type: str, index: int | None
) -> tuple[tuple[int, int, int], ...]:
    """The configurations that were measured to be the fastest, by batch size: first, last and number.

    It depends on no tensor, so torch.compile evaluates it once.

    Args:
        kernel: "kernel" or "kernel_strict".
        weight_shape: (a, b, c, d).
        dtype: of the operands.
        layout: "batch_first" or "batch_last".
        device_type: of the operands.
        index: of their device.
    """
    precision = precision_of(dtype, device_type, strict=kernel == "kernel_strict")
    choices = known(weight_shape, dtype, layout, precision, device_type, index)
    device = device_type if index is None else f"{device_type}:{index}"
    return _numbered(kernel, weight_shape, dtype, layout, device, choices) if choices else ()


# As torch.compiler.assume_constant_result does, without importing torch._dynamo.
remembered_numbers._dynamo_marked_constant = True


@functools.cache
def _numbered(
    kernel: str,
    weight_shape: tuple[int, ...],
    dtype: torch.dtype,
    layout: str,
    device: str,
    choices: tuple[Choice, ...],
) -> tuple[tuple[int, int, int], ...]:
    """Names that the library does not have (any more) are left to the cost model."""
    found = []
    for choice in choices:
        name = choice.configuration
        if name is not None and name not in _numbers:
            # of smaller problems the same configurations make it, and this one need not fit into memory
            batch_size = min(choice.first, _LARGEST_TRIAL)
            problem = Problem(Pattern(*weight_shape), batch_size, dtype, layout, device.split(":")[0])
            _numbers.update(configurations_for(kernel, problem, device))
        if name in _numbers:
            found.append((choice.first, choice.last, _numbers[name]))
    return tuple(found)


def configurations_for(kernel: str, problem: Problem, device: str | None = None) -> dict[str, int]:
    """The numbers of the configurations that take a problem, by name, the cost model's choice first; none on a CPU.

    Args:
        kernel: "kernel" or "kernel_strict".
        problem: on contiguous operands.
        device: "cuda:1", say; the problem's kind of device by default.
    """
    options = {"dtype": problem.dtype, "device": device or problem.device_type}
    implementation = REGISTRY[kernel]
    packed = implementation.pack(torch.empty(problem.pattern.weight_shape, **options), problem.layout)
    return implementation.configurations(packed, torch.empty(problem.input_shape, **options))
