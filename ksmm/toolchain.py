"""The compilers of this machine and the flags that the kernel library is built with."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from ksmm.architectures import HOPPER

_X86 = platform.machine().lower() in {"x86_64", "amd64"}

# Floating-point contraction makes multiply-adds fused; nothing here reorders a sum.
COMMON_FLAGS = ("-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=fast", "-Wall", "-Wno-maybe-uninitialized")

# The CPU kernel is compiled once per instruction set and chosen when it runs (csrc/cpu/multiply.cpp).
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512")
VARIANT_FLAGS = {
    "variant_avx2": _AVX2,
    "variant_avx512": _AVX512,
    "variant_avx512_bf16": (*_AVX512, "-mavx512bf16"),
    "variant_amx": (*_AVX512, "-mamx-tile", "-mamx-bf16"),
}

PYTORCH_SOURCES = ("binding", "gradients", "operators", "operators_cpu", "operators_cuda")
"""The C++ files that include PyTorch's headers; the others know nothing of it."""

CUDA_FLAGS = ("-O3", "-std=c++17", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-lineinfo")

# What CXX may name before the compiler.
_LAUNCHERS = {"ccache", "sccache", "distcc", "icecc"}


class BuildError(RuntimeError):
    """The kernel library cannot be built; the message says why, with the compiler's output if there is any."""


@dataclass(frozen=True)
class Toolchain:
    """What a build uses.

    Attributes:
        cxx: the C++ compiler's command, as arguments.
        cxx_version: the first line of what it says about itself.
        cxx_library: path of the compiler's shared C++ library, or "".
        ninja: path of ninja.
        nvcc: path of nvcc, or None if the CUDA part is not built.
        nvcc_version: the line of its version, or "".
        cuda_architectures: e.g. ("80", "90a"); empty if the CUDA part is not built.
        without_cuda: why the CUDA part is not built, or "".
    """

    cxx: tuple[str, ...]
    cxx_version: str
    cxx_library: str
    ninja: str
    nvcc: str | None
    nvcc_version: str
    cuda_architectures: tuple[str, ...]
    without_cuda: str


def compiler_flags(source: Path) -> list[str]:
    """Flags for one C++ source file, include directories not counted.

    PyTorch's headers need C++20 from version 2.12 on; the kernel itself is C++17 and needs none of them.
    """
    if source.stem in PYTORCH_SOURCES:
        abi = int(torch.compiled_with_cxx11_abi())
        return [*COMMON_FLAGS, "-std=c++20", "-fopenmp", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    return [*COMMON_FLAGS, "-std=c++17", *(VARIANT_FLAGS.get(source.stem, ()) if _X86 else ())]


def architectures_of(source: Path, architectures: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a build that a CUDA source is compiled for: of what is for Hopper alone, nothing is in it for others.

    Where Hopper is not among them, what is left is host code that says so.
    """
    return (HOPPER,) if source.parent.name == "hopper" and HOPPER in architectures else architectures


def architecture_flags(architectures: tuple[str, ...]) -> list[str]:
    """Flags of nvcc: machine code for each architecture, and PTX of the last one for GPUs yet to come.

    Code with an architecture's own instructions (90a) runs on that architecture alone, so its PTX is of no use.
    """
    flags = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in architectures]
    if architectures and architectures[-1].isdigit():
        flags.append(f"-gencode=arch=compute_{architectures[-1]},code=compute_{architectures[-1]}")
    if HOPPER in architectures:
        flags.append("-DKSMM_SM90A")
    return flags


def find_cxx() -> tuple[str, ...] | None:
    """The C++ compiler as arguments: the environment variable CXX if it is set, else g++, c++ or clang++."""
    wanted = os.environ.get("CXX")
    if wanted:
        command = shlex.split(wanted)
        path = shutil.which(command[0])
        return (path, *command[1:]) if path else None
    path = next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), None)
    return (path,) if path else None


def host_compiler(cxx: tuple[str, ...]) -> str:
    """The compiler itself of a command, without what starts it: what nvcc is to call, which takes one program."""
    for word in cxx:
        if Path(word).name not in _LAUNCHERS and not word.startswith("-"):
            return shutil.which(word) or word
    return cxx[0]


def find_ninja() -> str | None:
    """Path of ninja: the wheel's next to this Python, else the one on PATH."""
    beside = Path(sys.executable).parent / "ninja"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("ninja")


def missing_tools() -> str | None:
    """None if the library can be built here, else what is missing; starts no subprocess."""
    if find_cxx() is None:
        wanted = os.environ.get("CXX")
        looked_for = f"CXX={wanted}" if wanted else "g++, c++ and clang++ on PATH"
        return f"no C++ compiler found (looked for {looked_for}); install one, or set CXX"
    if find_ninja() is None:
        return "ninja was not found; install it: pip install ninja"
    return None


def find_toolchain() -> Toolchain:
    """The tools of this machine; asks the compilers for their versions.

    Raises:
        BuildError: no C++ compiler or no ninja; KSMM_CUDA_ARCHITECTURES is malformed.
    """
    missing = missing_tools()
    if missing:
        raise BuildError(missing)
    cxx = find_cxx()
    architectures, nvcc, nvcc_version, without_cuda = _cuda()
    return Toolchain(
        cxx=cxx,
        cxx_version=_first_line([*cxx, "--version"]),
        cxx_library=_shared_cxx_library(cxx),
        ninja=find_ninja(),
        nvcc=nvcc,
        nvcc_version=nvcc_version,
        cuda_architectures=architectures,
        without_cuda=without_cuda,
    )


def cuda_home() -> Path | None:
    """The CUDA toolkit's folder: the environment variable CUDA_HOME, else nvcc's, else /usr/local/cuda."""
    candidates = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _toolkit_of(shutil.which("nvcc"))]
    for candidate in filter(None, [*candidates, "/usr/local/cuda"]):
        if os.access(Path(candidate) / "bin" / "nvcc", os.X_OK):
            return Path(candidate)
    return None


def _toolkit_of(nvcc: str | None) -> str | None:
    """The toolkit's folder, also where the nvcc on PATH is a link or a script that calls the real one."""
    if nvcc is None:
        return None
    output = subprocess.run([nvcc, "--dryrun", "-E", "x.cu"], capture_output=True, text=True, check=False)
    found = re.search(r"^#\$ TOP=(.*)$", output.stderr, re.MULTILINE)
    return found.group(1) if found else str(Path(nvcc).resolve().parent.parent)


def _cuda() -> tuple[tuple[str, ...], str | None, str, str]:
    """(architectures, nvcc, its version, why not)."""
    if torch.version.cuda is None:
        return (), None, "", f"PyTorch {torch.__version__} is built without CUDA"
    home = cuda_home()
    if home is None:
        return (), None, "", "nvcc was not found (looked in CUDA_HOME, on PATH and in /usr/local/cuda)"
    nvcc = str(home / "bin" / "nvcc")
    output = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release (\d+)\.\d+.*", output)
    version = release.group(0) if release else output.strip()
    if release and release.group(1) != torch.version.cuda.split(".")[0]:
        return (), None, "", f"nvcc is of CUDA {version}, PyTorch of CUDA {torch.version.cuda}; set CUDA_HOME to match"
    architectures = cuda_architectures()
    if not architectures:
        return (), None, "", "no CUDA device is present; set KSMM_CUDA_ARCHITECTURES, e.g. to 80;90a"
    return architectures, nvcc, version, ""


def cuda_architectures() -> tuple[str, ...]:
    """Of the environment variable KSMM_CUDA_ARCHITECTURES ("80;90a"), else of the devices present; in ascending order.

    Raises:
        BuildError: the variable is malformed.
    """
    wanted = os.environ.get("KSMM_CUDA_ARCHITECTURES", "").strip()
    if wanted:
        names = [name.strip() for name in re.split(r"[;,\s]+", wanted) if name.strip()]
        for name in names:
            if not re.fullmatch(r"\d{2,3}[af]?", name):
                raise BuildError(
                    f"KSMM_CUDA_ARCHITECTURES is {wanted!r}; {name!r} is not an architecture such as 80 or 90a: "
                    "write compute capabilities without the dot, separated by semicolons"
                )
    else:
        devices = range(torch.cuda.device_count())
        names = ["{}{}".format(*torch.cuda.get_device_capability(device)) for device in devices]
        names = [HOPPER if name == "90" else name for name in names]
    return tuple(sorted(set(names), key=lambda name: (int(name.rstrip("af")), name)))


def _shared_cxx_library(cxx: tuple[str, ...]) -> str:
    """Where the compiler has libstdc++.so; "" if it has none (it uses another C++ library).

    PyTorch uses the shared one. Some installations of g++ link the static one into libraries unless told otherwise,
    and two in one process crash as soon as a number is printed.
    """
    for name in ("libstdc++.so", "libstdc++.so.6"):
        path = Path(_first_line([*cxx, f"-print-file-name={name}"]))
        if path.is_absolute() and path.exists():
            return str(path)
    return ""


def _first_line(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"{shlex.join(command)} failed:\n{result.stdout}{result.stderr}")
    return result.stdout.splitlines()[0] if result.stdout else ""
