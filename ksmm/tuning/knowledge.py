"""Looking up what was measured on the present device: a dictionary, read from the files once a process."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import torch

from ksmm.cache import cache_folder
from ksmm.names import dtype_name
from ksmm.tuning.entry import Choice, Key
from ksmm.tuning.file import TuningError, read_tuning

FILE_VARIABLE = "KSMM_TUNING_FILE"
SHIPPED = Path(__file__).resolve().parents[1] / "tuned"

ANSWERS: list[Callable[[], None]] = []
"""What forgets the answers that others keep."""

logger = logging.getLogger(__name__)


def user_file(slug: str) -> Path | None:
    """Where the user's own measurements of a device are: $KSMM_TUNING_FILE, else in the user's cache directory.

    None for a user without one.
    """
    wanted = os.environ.get(FILE_VARIABLE)
    if wanted:
        return Path(wanted).expanduser().absolute()
    cache = cache_folder()
    return None if cache is None else cache / "tuned" / f"{slug}.json"


def known(
    weight_shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    layout: str,
    precision: str | None,
    device_type: str,
    index: int | None = None,
) -> tuple[Choice, ...]:
    """What is known of a problem, by ranges of batch sizes that do not overlap, the largest sizes first.

    Args:
        weight_shape: (a, b, c, d).
        dtype: of X.
        layout: "batch_first" or "batch_last".
        precision: as `precision_of` gives it; nothing is known of None.
        device_type: "cpu" or "cuda"; nothing is known of others.
        index: of the CUDA device, None for the present one.
    """
    if precision is None or device_type not in ("cpu", "cuda"):
        return ()
    if device_type == "cuda" and index is None:
        index = torch.cuda.current_device() if torch.cuda.is_available() else None
    slug, name = _device(device_type, index)
    key: Key = (tuple(weight_shape), dtype_name(dtype), layout, precision)
    return _knowledge(slug, name).get(key, ())


def remembered_hash(slug: str, name: str) -> str:
    """16 hexadecimal digits that change with the choices that are known of a device; empty where there are none.

    Args:
        slug: of the device, as provenance.device_slug gives it.
        name: likewise.
    """
    choices = sorted(_knowledge(slug, name).items())
    return hashlib.sha256(repr(choices).encode()).hexdigest()[:16] if choices else ""


def forget() -> None:
    """Has the files read again at the next look-up."""
    _knowledge.cache_clear()
    for forget_answers in ANSWERS:
        forget_answers()


@functools.cache
def _device(device_type: str, index: int | None) -> tuple[str, str]:
    """Slug and name of a device; empty where there is none."""
    from ksmm.measure import provenance  # which imports much that a product does not need
    from ksmm.measure.lock import DeviceAbsentError

    try:
        if device_type == "cpu":
            return provenance.device_slug("cpu"), provenance.device_name("cpu")
        if index is None:
            return "", ""
        with torch.cuda.device(index):
            return provenance.device_slug("cuda"), provenance.device_name("cuda")
    except DeviceAbsentError:
        return "", ""


@functools.cache
def _knowledge(slug: str, name: str) -> dict[Key, tuple[Choice, ...]]:
    """All that is known of a device; of two files that speak for the same batch sizes the user's is kept."""
    choices: dict[Key, list[Choice]] = {}
    for path in (user_file(slug), SHIPPED / f"{slug}.json"):
        for key, choice in [] if path is None else _read(path, name):
            kept = choices.setdefault(key, [])
            if all(choice.last < other.first or other.last < choice.first for other in kept):
                kept.append(choice)
    return {key: tuple(sorted(kept, key=lambda choice: -choice.first)) for key, kept in choices.items()}


def _read(path: Path, device_name: str) -> list[tuple[Key, Choice]]:
    """The choices of a file; none, with a warning, if it is broken or another device's."""
    if not device_name or not (path.is_file() or path.is_dir()):
        return []
    try:
        tuning = read_tuning(path)
    except (TuningError, OSError) as error:
        advice = "" if path.is_dir() else ": remove it, or run: python -m ksmm tune"
        logger.warning("%s; it is ignored%s", error, advice)
        return []
    if tuning.device_name != device_name:
        logger.warning("the tuning file %s is of %s; on %s it is ignored", path, tuning.device_name, device_name)
        return []
    return [(entry.key, entry.choice) for entry in tuning.entries]
