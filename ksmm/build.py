"""Builds the kernel library: csrc -> one shared library, through ninja, keyed by everything that goes into it.

    <build directory>/<key>/        key = hash(sources, flags, compilers, PyTorch, CUDA architectures)
        build.ninja, *.o            what ninja works with
        ksmm_kernel.so              the library
        manifest.json               written last and atomically: its being there says that the library is whole
        failure.json                instead of it, what the last attempt said

The build directory is `_build` in the package, or KSMM_BUILD_DIRECTORY, or, where the package cannot be written to,
the user's cache directory. Importing this module compiles nothing and starts no process; nor does `find`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from ksmm import ninja_file, toolchain
from ksmm.architectures import suitability_here
from ksmm.cache import cache_folder
from ksmm.toolchain import BuildError, Toolchain, find_toolchain, missing_tools

SOURCES = Path(__file__).parent / "csrc"
COMMAND = "python -m ksmm build"
LIBRARY_NAME = "ksmm_kernel.so"
_SUFFIXES = {".cpp", ".h"} | (set() if torch.version.cuda is None else {".cu", ".cuh"})
_FLAGS = (Path(toolchain.__file__), Path(ninja_file.__file__))  # compilers and linkers are told what these say

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Manifest:
    """What a built library is made of.

    Attributes:
        key: the name of its folder.
        library: path of the shared library.
        size: of the library, in bytes.
        source_hash: `source_hash()` when it was built.
        flags: the flags, by source file.
        compiler: what the compilers say they are.
        cuda_architectures: empty if it has no CUDA part.
        without_cuda: why it has no CUDA part, or "".
        torch: version of PyTorch.
        machine: "x86_64", "aarch64".
        seconds: how long the build took.
    """

    key: str
    library: str
    size: int
    source_hash: str
    flags: dict[str, str]
    compiler: dict[str, str]
    cuda_architectures: list[str]
    without_cuda: str
    torch: str
    machine: str
    seconds: float


def source_hash(sources: Path | None = None) -> str:
    """16 hexadecimal digits that change with any source file (its path or its content) and with what sets the flags.

    CUDA sources count where PyTorch is built with CUDA.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _FLAGS))
    root = sources or SOURCES
    for path in sorted(path for path in root.rglob("*") if path.suffix in _SUFFIXES):
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def build_directories() -> list[Path]:
    """Where libraries are looked for; the first that can be written to is where they are built."""
    wanted = os.environ.get("KSMM_BUILD_DIRECTORY")
    if wanted:
        return [Path(wanted).expanduser().absolute()]
    cache = cache_folder()
    return [Path(__file__).parent / "_build", *([] if cache is None else [cache])]


def find(sources: Path | None = None) -> Manifest | None:
    """The library for the present sources, flags, PyTorch and kind of machine, or None if none is built.

    Of several (other compilers, other GPUs) one with a CUDA part goes first, then what suits the devices present, then
    the newest. The devices are looked at (which initialises CUDA) only where it depends on them.
    """
    found = _built(sources)
    if len({tuple(manifest.cuda_architectures) for with_cuda, _, manifest in found if with_cuda}) > 1:
        found = [(suitability_here(entry[2].cuda_architectures) if entry[0] else -1, *entry[1:]) for entry in found]
    return max(found, key=lambda entry: entry[:2])[2] if found else None


def _built(sources: Path | None) -> list[tuple[bool, float, Manifest]]:
    """Each library for these sources, flags, PyTorch and kind of machine: whether it has CUDA, its date, itself."""
    wanted = (source_hash(sources), str(torch.__version__), platform.machine())
    found = []
    for directory in build_directories():
        for path in directory.glob("*/manifest.json"):
            manifest = _read_manifest(path)
            if manifest and (manifest.source_hash, manifest.torch, manifest.machine) == wanted:
                found.append((bool(manifest.cuda_architectures), _last_change(path), manifest))
    return found


def reason_missing(sources: Path | None = None) -> str | None:
    """None if a library is there, else why not and what to do about it."""
    if _built(sources):
        return None
    missing = missing_tools()
    if missing:
        return f"the kernel library is not built, and cannot be: {missing}"
    failure = _last_failure(source_hash(sources))
    if failure:
        return f"the kernel library could not be built: {failure}; to see all of it, run: {COMMAND}"
    return f"the kernel library is not built; run: {COMMAND}"


def build(sources: Path | None = None) -> Manifest:
    """Builds the library unless it is there, and returns its manifest. A build that is already running is waited for.

    Args:
        sources: the folder of the sources, for tests; the package's csrc otherwise.

    Raises:
        BuildError: no compiler, no ninja, no folder to write to, or a compiler's error, with its output.
    """
    root = (sources or SOURCES).absolute()
    tools = find_toolchain()
    if tools.without_cuda:
        log.info("building without CUDA: %s", tools.without_cuda)
    hashed = source_hash(root)
    units = [path for path in sorted(root.rglob("*")) if path.suffix in ({".cpp", ".cu"} if tools.nvcc else {".cpp"})]
    commands = {path: ninja_file.flags(path, tools) for path in units}
    key = _key(hashed, commands, tools)
    folder = _writable_directory() / key
    with _locked(folder.parent / f"{key}.lock"):
        ready = _read_manifest(folder / "manifest.json")
        if ready:
            return ready
        folder.mkdir(exist_ok=True)
        (folder / LIBRARY_NAME).unlink(missing_ok=True)  # else ninja takes one that was cut off for a whole one
        started = time.monotonic()
        _compile(folder, root, commands, tools, hashed)
        manifest = Manifest(
            key=key,
            library=str(folder / LIBRARY_NAME),
            size=(folder / LIBRARY_NAME).stat().st_size,
            source_hash=hashed,
            flags={path.relative_to(root).as_posix(): " ".join(flags) for path, flags in commands.items()},
            compiler={"cxx": tools.cxx_version, "nvcc": tools.nvcc_version},
            cuda_architectures=list(tools.cuda_architectures) if any(path.suffix == ".cu" for path in units) else [],
            without_cuda=tools.without_cuda,
            torch=str(torch.__version__),
            machine=platform.machine(),
            seconds=round(time.monotonic() - started, 3),
        )
        _write_json(folder / "manifest.json", asdict(manifest))
        (folder / "failure.json").unlink(missing_ok=True)
    log.info("built %s in %.0f s", manifest.library, manifest.seconds)
    return manifest


def main(record: Path | None = None) -> int:
    """Builds the library; what `python -m ksmm build` does.

    Where there is no compiler at all, nothing is built, and the record says so: everything but `kernel` works.

    Args:
        record: a JSON file to write: the manifest, or {"library": null, "reason": …}.

    Returns:
        0; 1 if there is no library, as nothing can compile it, and no record that says so.

    Raises:
        BuildError: a compiler failed; the message holds its output.
    """
    missing = missing_tools()
    manifest = find() if missing else build()
    if manifest is None:
        log.warning("the kernel library cannot be built: %s", missing)
        content = {"library": None, "reason": missing, "source_hash": source_hash(), "torch": str(torch.__version__)}
    else:
        content = asdict(manifest)
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        _write_json(record, content)
    return int(manifest is None and record is None)


def _key(hashed: str, commands: dict[Path, list[str]], tools: Toolchain) -> str:
    parts = [hashed, [commands[path] for path in sorted(commands)], tools.cxx, tools.cxx_version, tools.cxx_library]
    parts += [tools.nvcc_version, tools.cuda_architectures, str(torch.__version__), platform.machine()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _compile(folder: Path, root: Path, commands: dict[Path, list[str]], tools: Toolchain, hashed: str) -> None:
    text = ninja_file.render(root, commands, tools, LIBRARY_NAME)
    (folder / "build.ninja").write_text(text)
    log.info("compiling %d files into %s", len(commands), folder)
    result = subprocess.run([tools.ninja, "-C", str(folder)], capture_output=True, text=True, check=False)
    if result.returncode:
        output = result.stdout + result.stderr
        _write_json(folder / "failure.json", {"source_hash": hashed, "torch": str(torch.__version__), "output": output})
        raise BuildError(f"the kernel library could not be built (in {folder}):\n{output}")


def _writable_directory() -> Path:
    problems = []
    for directory in build_directories():
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problems.append(str(error))
            continue
        if os.access(directory, os.W_OK):
            return directory
        problems.append(f"{directory} cannot be written to")
    raise BuildError(f"no folder to build in: {'; '.join(problems)}; set KSMM_BUILD_DIRECTORY to one")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock that the system releases if the process dies."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another build is running; waiting for it (%s)", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read_manifest(path: Path) -> Manifest | None:
    """None unless the manifest and its library are whole; one that was moved along with its folder is good.

    A library that was cut off, by a full disk or a copy that broke off, would end the process when it is loaded.
    """
    try:
        content = json.loads(path.read_text())
        manifest = Manifest(**{**content, "library": str(path.parent / Path(content["library"]).name)})
        return manifest if Path(manifest.library).stat().st_size == manifest.size else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _last_change(path: Path) -> float:
    """When a file was last written; 0 if another build has removed it since it was seen."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _last_failure(hashed: str) -> str | None:
    """The first line with an error of the newest failed build of these sources with this PyTorch."""
    failures = [path for directory in build_directories() for path in directory.glob("*/failure.json")]
    for path in sorted(failures, key=_last_change, reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError):
            content = json.loads(path.read_text())
            if (content["source_hash"], content["torch"]) == (hashed, str(torch.__version__)):
                lines = [line.strip() for line in content["output"].splitlines() if line.strip()]
                errors = (line for line in lines if re.search(r"\b(error|fatal)\s*:", line))
                return next(errors, lines[-1] if lines else "no output")
    return None


def _write_json(path: Path, content: dict) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(path)
