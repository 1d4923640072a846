"""Asks whether anything is known against the pinned dependencies: python3 .ci/audit.py

Exit status: 0 where nothing is known, or where nobody can be asked (which is said); 1 where something is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_MOST_SECONDS = 180


def main() -> int:
    """Installs pip-audit into a folder that is removed again, and runs it on what CI installs."""
    with tempfile.TemporaryDirectory() as folder:
        python, report = Path(folder) / "venv" / "bin" / "python", Path(folder) / "report.json"
        commands = [
            [sys.executable, "-m", "venv", python.parents[1]],
            [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", ROOT / ".ci/audit-requirements.txt"],
            [python, "-m", "pip_audit", "--disable-pip", "--require-hashes"],
        ]
        for name in ("requirements-ci.txt", ".ci/lazylinop-requirements.txt"):
            commands[-1] += ["-r", ROOT / name]
        commands[-1] += ["--progress-spinner", "off", "--format", "json", "--output", report]
        try:
            for command in commands:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            done = None
        if not report.exists():
            last = done.stderr.strip().splitlines()[-1:] if done else [f"no answer in {_MOST_SECONDS} s"]
            sys.stdout.write(f"audit: SKIPPED: pip-audit cannot run here ({' '.join(last)})\n")
            return 0
        text, status = summary(json.loads(report.read_text(encoding="utf-8")))
    sys.stdout.write(f"{text}\n")
    return status


def summary(report: dict) -> tuple[str, int]:
    """What a report of pip-audit says, and the exit status; packages that nobody knows are counted as not audited."""
    found = report["dependencies"]
    audited = [entry for entry in found if "skip_reason" not in entry]
    known = [(entry, fault) for entry in audited for fault in entry["vulns"]]
    if not audited:
        return f"audit: SKIPPED: the advisory service cannot be asked here about any of {len(found)} packages", 0
    lines = [f"audit: {len(audited)} of {len(found)} packages audited, {len(known)} known vulnerabilities"]
    for entry, fault in known:
        mended = ", ".join(fault.get("fix_versions", [])) or "no version yet"
        lines.append(f"audit:   {entry['name']} {entry['version']}: {fault['id']}, mended in {mended}")
    return "\n".join(lines), int(bool(known))


if __name__ == "__main__":
    sys.exit(main())
