"""What `python -m ksmm time` prints: one aligned table, the fastest implementation first."""

from __future__ import annotations

from collections.abc import Sequence

from ksmm.measure.ceilings_file import Ceilings
from ksmm.measure.measurement import Measurement
from ksmm.measure.provenance import device_name
from ksmm.measure.samples import median
from ksmm.names import dtype_name
from ksmm.problem import Problem
from ksmm.roofline import is_memory_bound


def time_report(problem: Problem, measurements: Sequence[Measurement], ceilings: Ceilings) -> str:
    """The table as text.

    Args:
        problem: what was measured.
        measurements: of it, one per implementation.
        ceilings: with the rate of the problem's dtype; they give the roofline.
    """
    roofline = ceilings.attainable_seconds(problem)
    timed = sorted((m for m in measurements if m.status == "ok"), key=lambda m: m.median_s)
    with_graph = any(m.cuda_graph_samples_s for m in timed)
    header = ["implementation", "median", "IQR", "ratio to best", "of roofline", "relative error"]
    rows = [header + ["CUDA graph"] * with_graph]
    for measurement in timed:
        cells = [
            measurement.implementation,
            f"{spoken_seconds(measurement.median_s)}{'' if measurement.protocol_met else '*'}",
            f"{measurement.iqr_s / measurement.median_s:.1%}",
            f"{measurement.median_s / timed[0].median_s:.2f}",
            f"{roofline / measurement.median_s:.1%}",
            f"{measurement.relative_error:.1e}",
        ]
        if with_graph:
            samples = measurement.cuda_graph_samples_s
            cells.append(spoken_seconds(median(samples)) if samples else "")
        rows.append(cells)
    lines = [_title(problem), *_ceiling_lines(problem, ceilings, roofline), ""]
    lines += aligned(rows if timed else [["nothing could be timed"]])
    untimed = [[m.implementation, f"{m.status}: {m.reason}"] for m in measurements if m.status != "ok"]
    lines += ["", *aligned(untimed, right=False)] if untimed else []
    if any(not m.protocol_met for m in timed):
        lines += ["", "* fewer samples or runs than the protocol asks for; a larger --max-seconds allows more"]
    return "\n".join(lines)


def _title(problem: Problem) -> str:
    name = device_name(problem.device_type)
    return f"{problem.pattern}  {dtype_name(problem.dtype)}  {problem.layout}  batch {problem.batch_size}  on {name}"


def _ceiling_lines(problem: Problem, ceilings: Ceilings, roofline: float) -> list[str]:
    rate = ceilings.operations_per_s[dtype_name(problem.dtype)]
    bound = "memory" if is_memory_bound(problem, ceilings.copy_bytes_per_s, rate) else "compute"
    return [
        f"ceilings: copy {ceilings.copy_bytes_per_s / 1e9:.4g} GB/s, matrix product {rate / 1e12:.4g} TFLOP/s; "
        f"roofline {spoken_seconds(roofline)} ({bound}-bound)"
    ]


def spoken_seconds(seconds: float) -> str:
    """Four significant digits, in the unit that suits."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds * 1e6:.4g} µs"


def aligned(rows: Sequence[Sequence[str]], right: bool = True) -> list[str]:
    """Columns of equal width, two spaces apart; the first one to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *others = row
        cells = [cell.rjust(w) if right else cell.ljust(w) for cell, w in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines
