"""Writes the report of a finished run: Snakemake's own, of the rule `results`, with the config of that run.

python workflow/scripts/write_report.py --snakefile Snakefile --config '{"device": "cpu"}' --report report.html
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Command line of this script; its exit status is that of Snakemake."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snakefile", type=Path, required=True)
    parser.add_argument("--config", type=json.loads, default={}, help="JSON: what the run was configured with")
    parser.add_argument("--report", type=Path, required=True, help="HTML file to write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(arguments.config), encoding="utf-8")
        # --nolock: the run that calls this script holds the lock of the working directory
        command = [sys.executable, "-m", "snakemake", "results", "--cores", "1", "--nolock"]
        command += ["--snakefile", arguments.snakefile, "--configfile", config, "--report", arguments.report]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
