"""`KSLinear`: a product of Kronecker-sparse factors in the place of a dense linear layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.fx
from torch import nn

from ksmm.frozen import FrozenChain
from ksmm.functional import ks_matmul, multiply_packed
from ksmm.implementations import check_implementation, get_implementation
from ksmm.names import dtype_name
from ksmm.operands import (
    OPERAND_DTYPES,
    autocasts,
    check_bias,
    flatten_batch,
    is_empty,
    is_plain,
    is_transformed,
    restore_batch,
)
from ksmm.pair import multiply_pair
from ksmm.patterns import Chain, Pattern
from ksmm.problem import check_layout
from ksmm.reference import to_dense

torch.fx.wrap("ks_matmul")  # a node of what torch.fx.symbolic_trace reads, which does not look into it

PARAMETER_DTYPES = OPERAND_DTYPES
"""What weights can be: the kernel takes all but float64, which other implementations multiply."""

_NO_WEIGHT = (
    "a KSLinear has no weight: its factors are in .factors, and .to_dense() multiplies them; a layer whose weight "
    "others read or share must stay as it is, with exclude= of ksmm.replace_linear"
)

_PACKED_FOR: dict[str, Callable[[str], str]] = {"layout": check_layout, "implementation": check_implementation}
"""What checks the attributes of a layer on which depends what its weights are packed as."""


class Factors(nn.ParameterList):
    """Weights that a module calls for, so that hooks on the list run: those of torch.nn.utils.prune, for example."""

    __call__ = nn.Module.__call__

    def forward(self) -> list[torch.Tensor]:
        """The weights, in order."""
        return list(self)


class KSLinear(nn.Module):
    """y = K_1 … K_L x + bias, with Kronecker-sparse factors K_l; a drop-in for nn.Linear.

    >>> layer = KSLinear([(1, 192, 48, 2), (2, 48, 192, 1)])
    >>> layer(torch.randn(8, 196, 384)).shape
    torch.Size([8, 196, 384])

    The state is the same for every implementation and layout: `factors.0` … `factors.{L-1}`, canonical weights of
    shape (a, b, c, d) in the chain's order, and `bias` of shape (out_features,).

    There is no `weight`: a module that reads that of a layer, instead of calling the layer, needs nn.Linear. to_dense()
    does not stand in for it, as initialising what that returns would initialise nothing.

    Precision: float32 on Hopper GPUs is multiplied on the matrix units, in a compensated form whose error is no larger
    than that of multiply-adds in nearly all cases; implementation="kernel_strict" takes multiply-adds alone, in less
    time where weights are badly scaled, and PyTorch's switches for TF32 give plain TF32. `ks_matmul` says it in full.

    Args:
        chain: the patterns of the factors, in the paper's order W = K_1 … K_L; a Chain, or patterns or tuples.
        bias: whether a bias is added.
        layout: "batch_first" takes x of shape (..., in_features) and returns (..., out_features);
            "batch_last" takes (in_features, ...) and returns (out_features, ...).
        implementation: a name from `ksmm.implementations()`, or "auto", as for `ks_matmul`.
        device: of the parameters.
        dtype: of the parameters, one of PARAMETER_DTYPES.

    Raises:
        TypeError: what is no list of patterns, an implementation that is no string.
        ValueError: factors that do not chain, an unknown layout or implementation, a dtype that is no weight's.
    """

    _frozen: FrozenChain | None = None
    _ended: FrozenChain | None = None
    """What a call ended, and CUDA graphs may go on reading."""

    def __init__(
        self,
        chain: Chain | Iterable[Pattern | tuple[int, int, int, int]],
        bias: bool = True,
        layout: str = "batch_first",
        implementation: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.chain = chain if isinstance(chain, Chain) else Chain(chain)
        self.layout = layout
        self.implementation = implementation
        if dtype is not None and dtype not in PARAMETER_DTYPES:
            named = dtype_name(dtype) if isinstance(dtype, torch.dtype) else repr(dtype)
            allowed = ", ".join(f"torch.{dtype_name(allowed)}" for allowed in PARAMETER_DTYPES)
            raise ValueError(f"dtype is {named}; choose one of {allowed}")
        self.out_features, self.in_features = self.chain.shape
        self.factors = Factors(
            nn.Parameter(torch.empty(pattern.weight_shape, device=device, dtype=dtype)) for pattern in self.chain
        )
        if bias:
            self.bias = nn.Parameter(torch.empty(self.out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights of each factor uniformly from ±1/√c (appendix B.1), the bias from ±1/√c of K_1.

        For the dense pattern (1, M, N, 1) both are what nn.Linear draws.
        """
        self.unfreeze()
        for pattern, weight in zip(self.chain, self.factors, strict=True):
            bound = 1 / math.sqrt(pattern.c)
            nn.init.uniform_(weight, -bound, bound)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.chain[0].c)
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies K_L first, K_1 last, then adds the bias.

        Args:
            x: shape (..., in_features) in batch_first, (in_features, ...) in batch_last.

        Returns:
            Shape (..., out_features), or (out_features, ...).
        """
        frozen = self._frozen  # read once: a call in another thread may end the freezing
        if frozen is not None:
            if self._can_use(frozen, x):
                return self._multiply_frozen(frozen, x)
            if not torch.compiler.is_compiling() and frozen.is_over(self._modules["factors"]):
                self.unfreeze()
                self._ended = frozen if frozen.device.type == "cuda" else None
        return self._multiply(x)

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        *weights, last = reversed(self._modules["factors"]())
        if len(weights) == 1 and self.layout == "batch_first":
            y = multiply_pair(x, weights[0], last, self.implementation, self._bias())
            if y is not None:
                return y
        for weight in weights:
            x = ks_matmul(x, weight, self.layout, self.implementation)
        return ks_matmul(x, last, self.layout, self.implementation, self._bias())

    def _multiply_frozen(self, frozen: FrozenChain, x: torch.Tensor) -> torch.Tensor:
        y = flatten_batch(x, self.layout)
        chosen = [factor.chosen(y) for factor in frozen.factors]
        is_pair = self.layout == "batch_first" and [name for name, _ in chosen] == ["kernel"] * 2
        if is_pair and not is_empty(y):
            (_, inner), (_, outer) = chosen
            kernel = get_implementation("kernel")
            return restore_batch(kernel.matmul_chain(inner, outer, y, self._bias()), x, self.layout)
        bias = self._bias()
        check_bias(y, bias, self.chain[0])
        for name, packed in chosen[:-1]:
            y = multiply_packed(name, packed, y)
        name, packed = chosen[-1]
        return restore_batch(multiply_packed(name, packed, y, bias), x, self.layout)

    def _bias(self) -> torch.Tensor | None:
        """self.bias, without looking for it in vain elsewhere first: microseconds, as a small product takes."""
        if "bias" in self._parameters:
            return self._parameters["bias"]
        return self.bias  # parametrized, or pruned

    def _can_use(self, frozen: FrozenChain, x: torch.Tensor) -> bool:
        return (
            isinstance(x, torch.Tensor)  # torch.fx.symbolic_trace comes with something else
            and not torch.is_grad_enabled()
            and not autocasts(x.device.type)
            and not is_transformed()
            and x.dim() > 0
            and is_plain(x)
            and x.shape[-1 if self.layout == "batch_first" else 0] == self.in_features
            and x.dtype == frozen.dtype
            and x.device == frozen.device
            and frozen.is_of(self._modules["factors"])
        )

    def freeze(self) -> KSLinear:
        """Packs the weights once, for inference, instead of at each call; returns the layer.

        Two factors of the kernel are then one call, and one launch on GPUs where a kernel takes the chain. On GPUs some
        configurations keep a weight in their own order, too, which takes as much memory again, from the first product
        on, which waits for the device. Where "auto" takes one implementation for some batch sizes and another one for
        others (docs/tuning.md), a weight is packed now for the largest batch sizes that were measured, and for another
        implementation, in memory of its own, at the first batch that is for it. Graphs of torch.compile and
        torch.jit.trace take what is for the largest ones, whatever theirs is, as does a CUDA graph that is captured
        before such a batch has come.

        Calls under torch.no_grad() or torch.inference_mode() then use the packed weights, as long as the weights are
        the same tensors and unchanged: others (torch.func.functional_call, a parametrization or pruning) are multiplied
        as if nothing were frozen, and so is all under autocast.

        train(), load_state_dict(), .to(), reset_parameters() and an assignment to `layout` or `implementation` end the
        freezing; so do a call that finds a weight changed (by an optimizer's step, or an assignment to `weight.data`),
        and one that records gradients of the weights, which an optimizer may then change unseen. Weights that require
        no gradient stay frozen in calls that record those of others. On GPUs what was packed stays in memory when a
        call ends the freezing, as CUDA graphs may read it: until freeze() or unfreeze(), or one of the former.

        Not seen, so that freeze() must be called again, are:
        - changes in place of `weight.data`, through .numpy() or DLPack, by another process, of a weight made in
          inference mode;
        - another tensor assigned to `weight.data` and the first one, changed meanwhile, assigned back, with no call of
          the layer between;
        - a step of a fused optimizer (fused=True) by gradients that no call of the layer since freeze() recorded;
        - any change of a weight by a compiled layer, which looks at no more than whether it is the same tensor, and
          whose calls do not end the freezing.
        """
        with torch.no_grad():
            frozen = FrozenChain(self.factors, self.layout, self.implementation)
        self._frozen, self._ended = frozen, None
        return self

    def unfreeze(self) -> KSLinear:
        """Drops the packed weights; returns the layer."""
        self._frozen = self._ended = None
        return self

    def to_dense(self) -> torch.Tensor:
        """The matrix W = K_1 … K_L, of shape (out_features, in_features), like nn.Linear's weight; differentiable."""
        matrix = to_dense(self.factors[0])
        for weight in self.factors[1:]:
            matrix = matrix @ to_dense(weight)
        return matrix

    def extra_repr(self) -> str:
        """What print(layer) says."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, chain={self.chain}, "
            f"bias={self.bias is not None}, layout={self.layout}, implementation={self.implementation}"
        )

    def __getattr__(self, name: str) -> Any:
        """As nn.Module's; says of `weight` why there is none."""
        if name == "weight":
            raise AttributeError(_NO_WEIGHT)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """As nn.Module's; refuses what would be ignored, and ends the freezing where the weights are packed in vain."""
        if name == "weight":
            raise AttributeError(_NO_WEIGHT)
        if name == "factors" and isinstance(value, nn.ParameterList) and not isinstance(value, Factors):
            raise TypeError(
                f"factors is a {type(value).__name__}; it must be a ksmm.linear.Factors, which takes the same list; "
                "layer.factors[0] = nn.Parameter(...) replaces one of them"
            )
        if name in _PACKED_FOR:
            value = _PACKED_FOR[name](value)
            self.unfreeze()
        super().__setattr__(name, value)

    def train(self, mode: bool = True) -> KSLinear:
        """As nn.Module.train; ends the freezing when it enters training."""
        if mode:
            self.unfreeze()
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> KSLinear:
        self.unfreeze()
        return super()._apply(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.unfreeze()
        super()._load_from_state_dict(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_frozen": None, "_ended": None}
