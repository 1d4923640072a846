"""Earlier records: Snakemake deletes a record before its job runs again; here it is kept, and its numbers are taken up.

Before any job begins each record gets a second name, earlier/<time>/<job>.json, beside the folder of records: a hard
link, which takes no room. A job takes from there what it would measure in the same way, and measures the rest. So what
a failed job or another config has replaced is not lost, and who goes back to it need not wait.
"""

from __future__ import annotations

import datetime
import filecmp
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ksmm.measure.records import RecordError

logger = logging.getLogger(__name__)

FOLDER = "earlier"

_LASTING = ("ok", "wrong", "too_slow")
"""Statuses that come out again. What was skipped, failed or lacked memory may have done so for its circumstances."""


def keep_records(records: Path) -> None:
    """Gives those records of a folder a second name that have none yet.

    Args:
        records: the folder, which need not exist.

    Raises:
        OSError: one cannot be kept.
    """
    earlier = records.with_name(FOLDER)
    now = earlier / datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    for path in sorted(records.glob("*.json")):
        if any(filecmp.cmp(path, kept) for kept in _versions(earlier, path.name)):
            continue
        now.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, now / path.name)
        except OSError:  # a file system without hard links
            unfinished = shutil.copy2(path, now / f".{path.name}.part")
            Path(unfinished).replace(now / path.name)


class Earlier:
    """The measurements in the earlier records of a job that were made under the same conditions; newer ones first.

    Args:
        record: the one that the job is to write.
        content: what it says but for its measurements, as `recording` yields it.
        read: reads a record.
        identities_in: gives the identities of its measurements, in its order.
        kind: the class of a measurement, with from_dict and a status.
    """

    def __init__(
        self,
        record: Path,
        content: dict[str, Any],
        read: Callable[[Path], dict[str, Any]],
        identities_in: Callable[[dict[str, Any]], list[dict[str, Any]]],
        kind: type,
    ) -> None:
        self._record, self._taken = record, 0
        self._found: dict[str, Any] = {}
        for path in _versions(record.parent.with_name(FOLDER), record.name):
            try:
                found = read(path)
            except (RecordError, OSError) as error:
                logger.warning("nothing is taken from an earlier record: %s", error)
                continue
            if _conditions(found) != _conditions(content):
                continue
            measurements = map(kind.from_dict, found["measurements"])
            for identity, measurement in zip(identities_in(found), measurements, strict=True):
                if measurement.status in _LASTING:
                    self._found[_key(identity)] = measurement

    def find(self, identity: dict[str, Any]) -> Any | None:
        """The last measurement of that identity, None if there is none."""
        found = self._found.get(_key(identity))
        self._taken += found is not None
        return found

    def tell(self, total: int) -> None:
        """Says on stderr, too, how many of a record's measurements were found, and how to have them made again."""
        if self._taken:
            folder = self._record.parent.with_name(FOLDER)
            logger.warning(
                "%d of %d measurements are of earlier records, %s/*/%s: remove these and the new one to measure again",
                *(self._taken, total, folder, self._record.name),
            )


def _versions(earlier: Path, name: str) -> list[Path]:
    """The earlier records of a name, the oldest first."""
    return [path for folder in sorted(earlier.glob("*")) if (path := folder / name).is_file()]


def _conditions(content: dict[str, Any]) -> dict[str, Any]:
    """What a record says once for all its measurements, beyond their identities: the device, and versions of packages.

    Which of several equal GPUs it was is left out, and ksmm's own version.
    """
    software = content["provenance"]["software"]
    return {
        "device": {name: value for name, value in content["device"].items() if name != "id_hash"},
        "versions": {name: str(version) for name, version in software["versions"].items() if name != "ksmm"},
        "cuda": software["cuda"],
    }


def _key(identity: dict[str, Any]) -> str:
    return json.dumps(identity, sort_keys=True)
