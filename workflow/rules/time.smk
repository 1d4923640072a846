# Measuring: one job at a time on a CPU (it takes every core), one per GPU otherwise.
# Neither an edited script nor a longer list of jobs may make days of measurements out of date. So scripts are no inputs,
# and these two parameters are functions of `threads`, which Snakemake does not count as a reason to run again.

MEASURED = config.get(run.device_type, {})
TIMING_THREADS = 1 if run.device_type == "cuda" else workflow.cores
TIMING_GPUS = 1 if run.device_type == "cuda" else 0


rule measure_ceilings:
    output:
        record=RESULTS / "ceilings.json",
    log:
        RESULTS / "logs/measure_ceilings.log",
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=4000,
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/measure_ceilings.py",
        device_type=run.device_type,
        dtypes=MEASURED.get("dtypes", []),
    message:
        f"Measuring copy bandwidth and matrix product rate of {run.device}"
    shell:
        "python {params.script:q} --device-type {params.device_type} --dtypes {params.dtypes}"
        " --record {output.record:q} > {log:q} 2>&1"


rule time_patterns:
    input:
        kernel=RESULTS / "build.json",
    output:
        record=RESULTS / "time/records/{job}.json",
    log:
        RESULTS / "logs/time_patterns/{job}.log",
    # What ends the process twice is recorded as failed by the third try; what was measured before is kept.
    retries: 2
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=8000,
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/time_patterns.py",
        jobs=lambda wildcards, threads: len(run.jobs),
        patterns=lambda wildcards: run.jobs[wildcards.job],
        device_type=run.device_type,
        batch_size=MEASURED.get("batch_size"),
        dtypes=MEASURED.get("dtypes", []),
        layouts=config["layouts"],
        implementations=run.implementations,
        protocol=json.dumps(config["protocol"]),
        journal=RESULTS / "time/journal",
    message:
        "Timing {wildcards.job}"
    shell:
        "python {params.script:q} --patterns {params.patterns} --device-type {params.device_type}"
        " --batch-size {params.batch_size} --dtypes {params.dtypes} --layouts {params.layouts}"
        " --implementations {params.implementations} --protocol {params.protocol:q}"
        " --record {output.record:q} --journal {params.journal:q} --jobs {params.jobs} --log {log:q}"


rule aggregate:
    input:
        records=run.records,
        ceilings=run.ceilings("ceilings.json"),
        script=ROOT / "workflow/scripts/aggregate.py",
    output:
        table=report(
            RESULTS / "time.csv",
            category="Measurements",
            labels={"what": "every measurement"},
            caption="../report/table.rst",
        ),
        rejected=report(
            RESULTS / "rejected.csv",
            category="Measurements",
            labels={"what": "records that were set aside"},
            caption="../report/rejected.rst",
        ),
    log:
        RESULTS / "logs/aggregate.log",
    threads: 1
    resources:
        mem_mb=2000,
    params:
        rejected=RESULTS / "time/rejected",
        ceilings=[f"--ceilings={path}" for path in run.ceilings("ceilings.json")],
    message:
        f"Aggregating {len(run.records)} records to {{output.table}}"
    shell:
        "python {input.script:q} --records {input.records:q} {params.ceilings:q}"
        " --rejected {params.rejected:q} --table {output.table:q} --rejected-list {output.rejected:q} > {log:q} 2>&1"
