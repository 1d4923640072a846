"""Which Python sources an implementation is made of, as a hash: a repaired one is measured again."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from ksmm.implementations import Implementation, implementations

_IMPORTED = re.compile(r"^from (ksmm\.implementations\.\w+) import ", re.MULTILINE)


def implementation_hashes() -> dict[str, str]:
    """The hashes of all registered implementations, by name."""
    return {name: implementation_hash(implementation) for name, implementation in implementations().items()}


def implementation_hash(implementation: Implementation) -> str:
    """16 hexadecimal digits that change with the files of an implementation's classes, base.py among them.

    What these files import from the folder ksmm/implementations counts, too; other modules of ksmm do not. The C++ and
    CUDA sources of the kernel have a hash of their own, ksmm.build.source_hash.
    """
    sources = _sources(cls.__module__ for cls in type(implementation).__mro__)
    digest = hashlib.sha256()
    for name, source in sorted(sources.items()):
        digest.update(f"{name}\0{source}\0".encode())
    return digest.hexdigest()[:16]


def _sources(modules: Iterable[str]) -> dict[str, str]:
    """Name -> source of those of these modules that have a file and are not Python's own, and of what they import."""
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        file = getattr(sys.modules.get(name), "__file__", None)
        if name not in found and file is not None and name.split(".")[0] not in sys.stdlib_module_names:
            found[name] = Path(file).read_text(encoding="utf-8")
            waiting += _IMPORTED.findall(found[name])
    return found
