"""What is said of several samples of one number. No PyTorch: what reads records needs this, too."""

from __future__ import annotations

import numpy


def median(samples: tuple[float, ...]) -> float:
    """The median."""
    return float(numpy.median(samples))


def interquartile_range(samples: tuple[float, ...]) -> float:
    """The third quartile minus the first, linearly interpolated."""
    first, third = numpy.percentile(samples, (25, 75))
    return float(third - first)
