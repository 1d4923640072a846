"""What `python -m ksmm info` prints: the device, the versions, and what each implementation can do here."""

from __future__ import annotations

from ksmm import build
from ksmm.implementations import implementations
from ksmm.measure import nvidia, provenance
from ksmm.measure.energy_counter import reason_absent
from ksmm.measure.lock_files import lock_directory
from ksmm.patterns import Pattern
from ksmm.problem import DTYPES, LAYOUTS, Problem
from ksmm.time_report import aligned

_EXAMPLE = Pattern(1, 192, 48, 2)


def info_text(device_type: str) -> str:
    """Device, versions, kernel, and a table of implementations.

    Args:
        device_type: "cpu" or "cuda".
    """
    software = provenance.software_facts()
    facts = {
        "device": f"{provenance.device_name(device_type)} ({provenance.device_slug(device_type)})",
        "GPUs": ", ".join(str(nvidia.product_name(name)) for name in nvidia.gpu_names()) or "none",
        "driver": nvidia.driver_version() or "none",
        "versions": ", ".join(f"{name} {version}" for name, version in software["versions"].items()),
        "CUDA of PyTorch": software["cuda"] or "none",
        "kernel": _kernel(),
        "energy": reason_absent(device_type) or "can be measured",
        "locks": str(lock_directory()),
    }
    lines = aligned([[name, value] for name, value in facts.items()], right=False)
    return "\n".join([*lines, "", *support_lines(device_type)])


def _kernel() -> str:
    manifest = build.find()
    if manifest is None:
        return str(build.reason_missing())
    architectures = ", ".join(manifest.cuda_architectures)
    return f"{manifest.key}, " + (f"for CUDA {architectures}" if architectures else "without CUDA")


def support_lines(device_type: str, pattern: Pattern = _EXAMPLE) -> list[str]:
    """A table of implementation × (dtype, layout): yes, or the number of a reason below it."""
    columns = [(dtype, layout) for dtype in DTYPES for layout in LAYOUTS]
    reasons: list[str] = []
    rows = [["implementation", *(f"{dtype} {layout.removeprefix('batch_')}" for dtype, layout in columns)]]
    for name, implementation in implementations().items():
        cells = []
        for dtype, layout in columns:
            reason = implementation.supports(Problem(pattern, 1024, DTYPES[dtype], layout, device_type))
            if reason is not None and reason not in reasons:
                reasons.append(reason)
            cells.append("yes" if reason is None else f"no ({reasons.index(reason) + 1})")
        rows.append([name, *cells])
    notes = [f"({number}) {reason}" for number, reason in enumerate(reasons, start=1)]
    heading = f"On {device_type}, for the pattern {pattern}, by dtype and layout (batch first, batch last):"
    return [heading, *aligned(rows), *notes]
