"""Two factors in one launch, in two, and the dense matrix in their place.

    python benchmarks/chains.py --device cuda --dtype float16 > chains.csv

The chains are those of appendix B.7 and the defaults for the layers of ViT-S, of a network of 512 features and of GPT-2
medium, at 128 × 197 rows unless said otherwise (`--batches 1 8` for the tokens that a language model decodes), without
a bias unless one is asked for.
`fused` is ksmm::ks_chain in one launch (in two where no kernel takes both factors), `chosen` in as many as it chooses.
The last columns are ratios, below 1 where one launch, or the chain, wins. Calls below 200 µs are replayed from a CUDA
graph.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys

import torch
from side_by_side import add_device, implementation_for, require, seconds_without_launch

import ksmm
from ksmm.cli_arguments import positive_integer, positive_seconds
from ksmm.measure import timer
from ksmm.measure.protocol import Protocol
from ksmm.networks.chains import default_chain, paper_chain
from ksmm.problem import DTYPES

COLUMNS = ["chain", "batch_size", "dtype", "fused_s", "two_launches_s", "chosen_s", "dense_s"]
RATIOS = ["fused_over_two", "chosen_over_dense"]
VIT_SIZES = ((384, 384), (384, 1536), (1536, 384))
GPT_SIZES = ((1024, 1024), (1024, 3072), (1024, 4096), (4096, 1024))
SIZES = {paper_chain: VIT_SIZES, default_chain: (*VIT_SIZES, (384, 1152), (512, 512), *GPT_SIZES)}


def seconds_of_chain(
    chain: ksmm.Chain, batch_size: int, dtype: torch.dtype, device: str, limit: Protocol, with_bias: bool = False
) -> list[float]:
    """Median times in one launch, in two, in as many as is chosen, and of the dense matrix.

    Args:
        chain: of two factors.
        batch_size: rows of X.
        dtype: of all operands.
        device: "cpu" or "cuda".
        limit: how long to measure.
        with_bias: whether one is added, in the epilogue of all four.

    Raises:
        ValueError: the kernel does not run there; the message says why.
    """
    kernel = implementation_for(ksmm.Problem(chain[0], batch_size, dtype, "batch_first", device), "kernel")
    outer, inner = (
        kernel.pack(torch.randn(pattern.weight_shape, device=device).div(pattern.c**0.5).to(dtype), "batch_first")
        for pattern in chain
    )
    x = torch.randn(batch_size, chain.shape[1], device=device).to(dtype)
    dense = torch.randn(chain.shape, device=device).to(dtype)
    bias = torch.randn(chain.shape[0], device=device).to(dtype) if with_bias else None
    runs = (
        lambda: kernel.matmul_chain(inner, outer, x, bias, launches=1),
        lambda: kernel.matmul_chain(inner, outer, x, bias, launches=2),
        lambda: kernel.matmul_chain(inner, outer, x, bias),
        lambda: torch.nn.functional.linear(x, dense, bias),
    )
    with timer.strict_precision(), torch.no_grad():
        return [seconds_without_launch(run, device, limit) for run in runs]


def main() -> None:
    """Measures and writes CSV to the standard output, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="+", type=positive_integer, default=[128 * 197])
    add_device(parser)
    parser.add_argument("--dtype", default="float16", choices=list(DTYPES))
    parser.add_argument("--bias", action="store_true", help="add one to the outputs")
    parser.add_argument("--max-seconds", type=positive_seconds, default=0.5, help="for each number")
    arguments = parser.parse_args()
    protocol = Protocol(max_seconds=arguments.max_seconds)
    dtype = DTYPES[arguments.dtype]
    chains = [rule(*size) for rule, sizes in SIZES.items() for size in sizes]
    require(parser, ksmm.Problem(chains[0][0], 1, dtype, "batch_first", arguments.device))
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS + RATIOS)
    for chain, batch in itertools.product(chains, arguments.batches):
        fused, two, chosen, dense = seconds_of_chain(chain, batch, dtype, arguments.device, protocol, arguments.bias)
        numbers = [f"{number:.4g}" for number in (fused, two, chosen, dense, fused / two, chosen / dense)]
        writer.writerow([str(chain), batch, arguments.dtype, *numbers])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
