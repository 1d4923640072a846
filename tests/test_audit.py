"""The hashes of requirements-ci.txt are of the versions in constraints.txt, and the audit says what it could not do."""

import re
from pathlib import Path

import pytest

from tests.scripts import ROOT, load_script


@pytest.fixture(scope="module")
def audit():
    return load_script(".ci/audit.py")


def pinned(path: Path) -> dict[str, list[str]]:
    """Name and version as "name==version" -> its hashes."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if re.match(r"[A-Za-z0-9]", line):
            name, version = line.split()[0].split("==")
            hashes = found[f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"] = []
        hashes = hashes if found else []
        hashes += re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    return found


def test_all_but_torch_have_hashes_of_the_versions_that_are_tested():
    constraints = set(pinned(ROOT / "constraints.txt"))
    hashed = pinned(ROOT / "requirements-ci.txt")
    assert {name for name in constraints if not name.startswith("torch==")} == set(hashed), "run: make hashes"
    assert all(hashed.values())


def test_what_audits_has_hashes():
    hashed = pinned(ROOT / ".ci" / "audit-requirements.txt")
    assert any(name.startswith("pip-audit==") for name in hashed)
    assert all(hashed.values())


SAFE = {"name": "a", "version": "1", "vulns": []}
UNSAFE = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found on PyPI"}


def test_the_audit_says_what_is_known_and_what_was_not_audited(audit):
    assert audit.summary({"dependencies": [SAFE]}) == ("audit: 1 of 1 packages audited, 0 known vulnerabilities", 0)
    text, status = audit.summary({"dependencies": [SAFE, UNSAFE, UNKNOWN]})
    assert status == 1
    assert text.splitlines()[0] == "audit: 2 of 3 packages audited, 1 known vulnerabilities"
    assert "b 2: PYSEC-2026-1, mended in 3" in text
    text, status = audit.summary({"dependencies": [UNKNOWN]})
    assert status == 0
    assert text.startswith("audit: SKIPPED: the advisory service cannot be asked")
