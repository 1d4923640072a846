"""The build.ninja of the kernel library: a statement to compile each source file, and one to link them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import torch

from ksmm.toolchain import (
    CUDA_FLAGS,
    PYTORCH_SOURCES,
    Toolchain,
    architecture_flags,
    architectures_of,
    compiler_flags,
    cuda_home,
    host_compiler,
)

_RULES = """\
ninja_required_version = 1.5

rule cxx
  command = {cxx} -MMD -MF $out.d $flags -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = compiling $in

rule nvcc
  command = {nvcc} -MMD -MF $out.d $flags -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = compiling $in

rule link
  command = {cxx} -shared $in -o $out $flags
  description = linking $out

"""


def flags(source: Path, tools: Toolchain) -> list[str]:
    """All flags of one source file, include directories counted."""
    if source.suffix == ".cu":
        architectures = architectures_of(source, tools.cuda_architectures)
        return [*CUDA_FLAGS, *architecture_flags(architectures), "-ccbin", host_compiler(tools.cxx)]
    if source.stem not in PYTORCH_SOURCES:
        return compiler_flags(source)
    includes = [_torch_folder() / "include"]
    if tools.nvcc:
        includes.append(cuda_home() / "include")
    with_cuda = ["-DKSMM_WITH_CUDA"] if tools.nvcc else []
    return [*compiler_flags(source), *with_cuda, *(f"-isystem{path}" for path in includes)]


def link_flags(tools: Toolchain) -> list[str]:
    """Links to PyTorch's own libraries, its OpenMP runtime included: a second one would bring its own threads.

    The shared C++ library is named before the compiler's own choice of one (see `Toolchain.cxx_library`).
    """
    folder = _torch_folder() / "lib"
    found = [f"-L{folder}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{folder}"]
    runtimes = sorted(path for pattern in ("libgomp*.so*", "libomp*.so*") for path in folder.glob(pattern))
    found += [str(runtimes[0])] if runtimes else ["-fopenmp"]
    if tools.cxx_library:
        found.append(tools.cxx_library)
    if tools.nvcc:
        found += ["-lc10_cuda", "-ltorch_cuda", f"-L{cuda_home() / 'lib64'}", "-lcudart"]
    return found


def render(root: Path, commands: dict[Path, list[str]], tools: Toolchain, library: str) -> str:
    """The text of build.ninja.

    Args:
        root: the folder of the sources; object files are named after the paths below it.
        commands: flags by source file.
        tools: the compilers.
        library: file name of the shared library.
    """
    lines = [_RULES.format(cxx=_shell(tools.cxx), nvcc=_shell([tools.nvcc or "nvcc"]))]
    objects = []
    for source, arguments in commands.items():
        name = "-".join(source.relative_to(root).parts) + ".o"
        objects.append(name)
        rule = "nvcc" if source.suffix == ".cu" else "cxx"
        lines.append(f"build {_path(name)}: {rule} {_path(source)}\n  flags = {_shell(arguments)}\n")
    inputs = " ".join(map(_path, objects))
    lines.append(f"build {_path(library)}: link {inputs}\n  flags = {_shell(link_flags(tools))}\n")
    lines.append(f"default {_path(library)}\n")
    return "\n".join(lines)


def _torch_folder() -> Path:
    return Path(torch.__file__).parent


def _shell(arguments: Iterable[str]) -> str:
    """Arguments as the shell must read them, in a place where ninja expands dollar signs."""
    return shlex.join(arguments).replace("$", "$$")


def _path(path: Path | str) -> str:
    """A path as ninja must read it."""
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
