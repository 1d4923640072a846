"""Building the kernel library, on a source tree so small that it compiles in a second."""

from __future__ import annotations

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from ksmm import build, ninja_file, toolchain
from ksmm.tuning import knowledge

needs_compiler = pytest.mark.skipif(build.missing_tools() is not None, reason=str(build.missing_tools()))


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small source tree and an empty build directory, both in folders with a space and a dollar sign."""
    root = tmp_path / "some $ources"
    (root / "part").mkdir(parents=True)
    (root / "part" / "one.cpp").write_text('#include "one.h"\nextern "C" int one() { return ONE; }\n')
    (root / "part" / "one.h").write_text("#define ONE 1\n")
    monkeypatch.setenv("KSMM_BUILD_DIRECTORY", str(tmp_path / "a build $folder"))
    return root


def count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    folders = []
    real = build._compile

    def counted(folder, *arguments):
        folders.append(folder)
        real(folder, *arguments)

    monkeypatch.setattr(build, "_compile", counted)
    return folders


def test_hash_follows_content_and_place_of_every_source(tmp_path):
    copy = tmp_path / "csrc"
    shutil.copytree(build.SOURCES, copy)
    assert build.source_hash(copy) == build.source_hash()
    header = copy / "cpu" / "tile.h"
    header.write_text(header.read_text() + "// one more line\n")
    edited = build.source_hash(copy)
    assert edited != build.source_hash()
    header.rename(copy / "tile.h")
    assert build.source_hash(copy) not in (edited, build.source_hash())
    moved = build.source_hash(copy)
    (copy / "notes.txt").write_text("not a source")
    assert build.source_hash(copy) == moved


def test_hash_follows_flags(monkeypatch, tmp_path):
    before = build.source_hash()
    edited = tmp_path / "toolchain.py"
    edited.write_text(Path(toolchain.__file__).read_text().replace('"-O3"', '"-O2"'))
    monkeypatch.setattr(build, "_FLAGS", (edited, *build._FLAGS[1:]))
    assert build.source_hash() != before


@needs_compiler
def test_builds_finds_and_builds_again_after_an_edit(sources, monkeypatch):
    compilations = count_compilations(monkeypatch)
    assert build.find(sources) is None
    assert "not built; run: python -m ksmm build" in build.reason_missing(sources)
    first = build.build(sources)
    assert Path(first.library).is_file() and first.torch == torch.__version__
    assert build.find(sources) == first and build.reason_missing(sources) is None
    assert build.build(sources) == first and len(compilations) == 1
    (sources / "part" / "one.h").write_text("#define ONE 2\n")
    assert build.find(sources) is None
    second = build.build(sources)
    assert second.key != first.key and Path(first.library).is_file()


@needs_compiler
def test_key_follows_the_compiler(sources, monkeypatch):
    first = build.build(sources)
    real = toolchain.find_toolchain()
    monkeypatch.setattr(build, "find_toolchain", lambda: build.Toolchain(**{**vars(real), "cxx_version": "another"}))
    second = build.build(sources)
    assert second.key != first.key
    assert build.find(sources) in (first, second)


@needs_compiler
def test_concurrent_builds_compile_once(sources, monkeypatch):
    compilations = count_compilations(monkeypatch)
    with ThreadPoolExecutor(3) as pool:
        manifests = list(pool.map(build.build, [sources] * 3))
    assert manifests[0] == manifests[1] == manifests[2]
    assert len(compilations) == 1


@needs_compiler
def test_manifest_is_written_last_and_whole(sources, monkeypatch):
    """A build that dies at any moment leaves nothing that is taken for a library, and the next one ends it."""

    def dies(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "_write_json", dies)
    with pytest.raises(KeyboardInterrupt):
        build.build(sources)
    assert build.find(sources) is None
    monkeypatch.undo()
    monkeypatch.setenv("KSMM_BUILD_DIRECTORY", str(sources.parent / "a build $folder"))
    manifest = build.build(sources)
    path = Path(manifest.library).parent / "manifest.json"
    assert json.loads(path.read_text())["source_hash"] == build.source_hash(sources)
    assert not list(path.parent.glob(".manifest*"))
    path.write_text(path.read_text()[:40])  # truncated by hand
    assert build.find(sources) is None
    assert build.build(sources).key == manifest.key
    Path(manifest.library).unlink()
    assert build.find(sources) is None


@needs_compiler
def test_a_library_that_was_cut_off_is_not_loaded_but_built_again(sources):
    manifest = build.build(sources)
    library = Path(manifest.library)
    whole = library.read_bytes()
    library.write_bytes(whole[: len(whole) // 2])
    assert build.find(sources) is None
    assert "is not built; run: python -m ksmm build" in build.reason_missing(sources)
    assert build.build(sources).size == len(whole)
    assert library.read_bytes() == whole
    assert build.find(sources).key == manifest.key


@needs_compiler
def test_compiler_error_is_reported_with_its_output(sources):
    good = (sources / "part" / "one.cpp").read_text()
    (sources / "part" / "one.cpp").write_text("this is not C++;\n")
    with pytest.raises(build.BuildError, match=r"(?s)could not be built.*one\.cpp.*error"):
        build.build(sources)
    assert build.find(sources) is None
    reason = build.reason_missing(sources)
    assert "could not be built" in reason and "one.cpp" in reason and "python -m ksmm build" in reason
    (sources / "part" / "one.cpp").write_text(good)
    assert "is not built" in build.reason_missing(sources)
    build.build(sources)
    assert build.reason_missing(sources) is None


@needs_compiler
def test_files_that_another_build_removes_meanwhile(sources, monkeypatch):
    """failure.json between the search for one and its reading, manifest.json once it is read."""
    real_glob, real_read = Path.glob, build._read_manifest

    def glob(self, pattern, **options):
        yield from real_glob(self, pattern, **options)
        if pattern == "*/failure.json":
            yield self / "removed" / "failure.json"

    def read(path):
        manifest = real_read(path)
        path.unlink()
        return manifest

    (sources / "part" / "two.cpp").write_text("this is not C++;\n")
    with pytest.raises(build.BuildError):
        build.build(sources)
    monkeypatch.setattr(Path, "glob", glob)
    assert "two.cpp" in build.reason_missing(sources)
    (sources / "part" / "two.cpp").unlink()
    manifest = build.build(sources)
    monkeypatch.setattr(build, "_read_manifest", read)
    assert build.find(sources) == manifest


def test_missing_compiler_is_reported_and_recorded(sources, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    reason = build.reason_missing(sources)
    assert "no C++ compiler found (looked for CXX=no-such-compiler)" in reason
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler"):
        build.build(sources)
    record = tmp_path / "records" / "build.json"
    assert build.main(record) == 0
    content = json.loads(record.read_text())
    assert content["library"] is None and "no C++ compiler" in content["reason"]


def test_missing_ninja_is_reported(sources, monkeypatch):
    monkeypatch.setattr(toolchain, "find_ninja", lambda: None)
    assert "pip install ninja" in build.reason_missing(sources)


@needs_compiler
def test_found_without_a_compiler_and_without_a_process(sources, monkeypatch):
    manifest = build.build(sources)

    def refuse(*arguments, **options):
        raise AssertionError(f"started {arguments}")

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.find(sources) == manifest
    assert build.reason_missing(sources) is None
    monkeypatch.setattr(build, "SOURCES", sources)
    assert build.main() == 0


@needs_compiler
def test_record_is_the_manifest(sources, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "SOURCES", sources)
    record = tmp_path / "build.json"
    assert build.main(record) == 0
    content = json.loads(record.read_text())
    assert {"key", "library", "source_hash", "flags", "compiler", "cuda_architectures", "torch", "seconds"} <= set(
        content
    )
    assert Path(content["library"]).is_file()


@needs_compiler
def test_moved_with_its_package(sources, monkeypatch, tmp_path):
    manifest = build.build(sources)
    moved = tmp_path / "moved"
    Path(manifest.library).parent.parent.rename(moved)
    monkeypatch.setenv("KSMM_BUILD_DIRECTORY", str(moved))
    assert build.find(sources).library == str(moved / manifest.key / build.LIBRARY_NAME)


def test_folder_that_cannot_be_written(sources, monkeypatch, tmp_path):
    occupied = tmp_path / "a file"
    occupied.touch()
    monkeypatch.setattr(build, "build_directories", lambda: [occupied, tmp_path / "cache" / "ksmm"])
    assert build._writable_directory() == tmp_path / "cache" / "ksmm"
    monkeypatch.setattr(build, "build_directories", lambda: [occupied])
    with pytest.raises(build.BuildError, match=r"a file.*set KSMM_BUILD_DIRECTORY"):
        build._writable_directory()


def test_build_directories(monkeypatch, tmp_path):
    monkeypatch.setenv("KSMM_BUILD_DIRECTORY", str(tmp_path / "mine"))
    assert build.build_directories() == [tmp_path / "mine"]
    monkeypatch.delenv("KSMM_BUILD_DIRECTORY")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.build_directories() == [Path(build.__file__).parent / "_build", tmp_path / "ksmm"]


def test_without_a_home_all_but_its_folder_is_there(monkeypatch, tmp_path):
    def refuse(user):
        raise KeyError(user)

    for variable in ("KSMM_BUILD_DIRECTORY", "KSMM_TUNING_FILE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", refuse)
    knowledge.forget()
    try:
        assert build.build_directories() == [Path(build.__file__).parent / "_build"]
        assert knowledge.user_file("cpu") is None
        assert isinstance(knowledge.known((1, 48, 24, 2), torch.float32, "batch_first", "", "cpu"), tuple)
    finally:
        knowledge.forget()


def test_cuda_architectures(monkeypatch):
    monkeypatch.setenv("KSMM_CUDA_ARCHITECTURES", " 90a; 80;120;80 ")
    assert toolchain.cuda_architectures() == ("80", "90a", "120")
    assert toolchain.architecture_flags(("80", "90")) == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90,code=compute_90",
    ]
    monkeypatch.setenv("KSMM_CUDA_ARCHITECTURES", "80;8.6")
    with pytest.raises(build.BuildError, match=r"'80;8\.6'; '8\.6' is not an architecture such as 80"):
        toolchain.cuda_architectures()


def test_what_is_for_hopper_alone_is_compiled_for_it_alone():
    hopper, other = Path("cuda/hopper/one.cu"), Path("cuda/one.cu")
    assert toolchain.architectures_of(hopper, ("80", "90a", "120")) == ("90a",)
    assert toolchain.architectures_of(other, ("80", "90a", "120")) == ("80", "90a", "120")
    assert toolchain.architectures_of(hopper, ("80", "120")) == ("80", "120")


def test_every_source_has_its_flags():
    units = {path.stem: toolchain.compiler_flags(path) for path in build.SOURCES.rglob("*.cpp")}
    variants = {f"variant_{name}" for name in ("baseline", "avx2", "avx512", "avx512_bf16")}
    assert {"binding", "multiply"} | variants <= set(units)
    assert not any(flag.startswith("-m") for flag in units["multiply"] + units["variant_baseline"])
    for flags in units.values():
        assert "-ffast-math" not in flags


@pytest.mark.parametrize("command", ["{}", "ccache {}", "sccache distcc {}", "ccache {} -m64", "{} -B elsewhere"])
def test_nvcc_is_told_the_compiler_and_not_what_starts_it(command, monkeypatch, tmp_path):
    for name in ("a-compiler", "ccache", "sccache", "distcc", "elsewhere"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", command.format("a-compiler"))
    tools = toolchain.Toolchain(toolchain.find_cxx(), "", "", "ninja", "nvcc", "", ("80",), "")
    assert tools.cxx[0] == str(tmp_path / command.format("a-compiler").split()[0])
    flags = ninja_file.flags(Path("one.cu"), tools)
    assert flags[flags.index("-ccbin") + 1] == str(tmp_path / "a-compiler")


def test_ninja_file_quotes_for_ninja_and_shell():
    assert ninja_file._path("a b$c:d") == "a$ b$$c$:d"
    assert ninja_file._shell(["-Ia b", "$x"]) == "'-Ia b' '$$x'"
