# From a list of patterns to the paper's figures: build, time, measure energy, aggregate, draw, report.
# `snakemake --cores all` runs workflow/config/default.yaml; other settings with --configfile or --config key=value.
import json
import math
import os
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")

# Seen from the working directory, so that moving the repository makes nothing out of date.
ROOT = Path(os.path.relpath(workflow.basedir))
# The ksmm beside this file, whichever is installed.
sys.path[:0] = [f"{workflow.basedir}/workflow", str(workflow.basedir)]

import cost_model
from run_command import remember
from run_devices import use_own_python
from run_settings import run_settings
from run_summary import read_rows, summary

from ksmm.measure.earlier import keep_records


configfile: f"{workflow.basedir}/workflow/config/default.yaml"


# Every rule runs in the environment in which Snakemake runs, that of environment.yml. This line is there for --lint alone,
# which asks each rule for a container: the image has no PyTorch, and `--sdm apptainer` would run nothing.
container: "docker://condaforge/miniforge3"


report: "workflow/report/workflow.rst"


use_own_python(workflow.basedir)
run = run_settings(config)
RESULTS = run.results


wildcard_constraints:
    name=r"\w+",
    subject=r"\w+",
    dtype=r"float32|float16|bfloat16",


include: "workflow/rules/common.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/time.smk"
include: "workflow/rules/energy.smk"
include: "workflow/rules/tune.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/counters.smk"
include: "workflow/rules/networks.smk"
include: "workflow/rules/notebooks.smk"
include: "workflow/rules/report.smk"


# The records are asked for too: one that was set aside is measured again by the next run.
rule all:
    default_target: True
    input:
        RESULTS / "report.html",
        run.records,
        run.energy_records,
        run.networks_results if run.networks_in_all else [],


# A job that has arrived on a cluster's node runs there as it is. Otherwise each member of a group would start a step of
# the scheduler's and another Snakemake, several seconds each.
if workflow.remote_exec:
    workflow.localrules(*(rule.name for rule in workflow.rules))


# For `python -m ksmm resume`, after a run that died; and before Snakemake deletes any record in order to replace it.
onstart:
    remember(sys.argv[1:], RESULTS, run.device if run.measures else None)
    if run.measures:
        for study in ("time", "energy", "networks"):
            keep_records(RESULTS / study / "records")


onsuccess:
    print(summary(RESULTS))


onerror:
    print(summary(RESULTS))
