"""environment.yml, pyproject.toml and constraints.txt say the same."""

import re
import tomllib

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.workflow.conftest import ROOT

CONDA_NAMES = {"torch": "pytorch"}
OPTIONAL = {"lazylinop"}
"""Extras that neither command of the README installs."""
CONDA_ONLY = {"python", "make", "cxx-compiler", "pip"}


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [f"python{project['requires-python']}", *project["dependencies"]]
    lines += [line for name, extra in extras.items() if name not in OPTIONAL for line in extra]
    return [Requirement(line) for line in lines]


def conda_requirements() -> list[Requirement]:
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    flat = [line for entry in entries for line in (entry["pip"] if isinstance(entry, dict) else [entry])]
    return [Requirement(line) for line in flat if line != "-e ."]


def test_the_conda_environment_says_the_same_as_pyproject():
    conda = {requirement.name: str(requirement.specifier) for requirement in conda_requirements()}
    wanted = {CONDA_NAMES.get(r.name, r.name): str(r.specifier) for r in requirements()}
    assert {name: spec for name, spec in conda.items() if name in wanted} == wanted
    assert set(conda) - set(wanted) == CONDA_ONLY - {"python"}


def test_every_dependency_has_one_exact_version():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", line) for line in lines)
    versions = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}
    for requirement in requirements()[1:]:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
