# Measuring: one job at a time on a CPU (it takes every core), one per GPU otherwise.
# Neither an edited script nor a longer list of jobs may make days of measurements out of date. So scripts are no inputs,
# and these two parameters are functions of `threads`, which Snakemake does not count as a reason to run again.

MEASURED = config.get(run.device_type, {})
TIMING_THREADS = 1 if run.device_type == "cuda" else workflow.cores
TIMING_GPUS = 1 if run.device_type == "cuda" else 0

# On a CPU --cores decides how many threads multiply. As a parameter, so that no table mixes numbers of threads.
CPU_THREADS = workflow.cores if run.device_type == "cpu" else 0


rule measure_ceilings:
    output:
        record=RESULTS / "ceilings.json",
    log:
        RESULTS / "logs/measure_ceilings.log",
    retries: RETRIES
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=8000,
        runtime=lambda wildcards, attempt: cost_model.ceilings_minutes(
            MEASURED.get("dtypes", []), attempt, config["seconds_per_ceiling"]
        ),
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/measure_ceilings.py",
        device=lambda wildcards, threads: run.device,
        device_type=run.device_type,
        cpu_threads=CPU_THREADS,
        dtypes=MEASURED.get("dtypes", []),
        seconds=config["seconds_per_ceiling"],
        torch=run.torch,
        busy_gpu_max_wait_s=lambda wildcards, threads: config["busy_gpu_max_wait_s"],
    message:
        f"Measuring copy bandwidth and matrix product rate of {run.device}"
    shell:
        "python {params.script:q} --device {params.device:q} --device-type {params.device_type} --dtypes {params.dtypes}"
        " --seconds {params.seconds} --record {output.record:q}"
        " --busy-gpu-max-wait-s {params.busy_gpu_max_wait_s} > {log:q} 2>&1"


rule time_patterns:
    input:
        kernel=KERNEL_RECORD,
    output:
        record=RESULTS / "time/records/{job}.json",
    log:
        RESULTS / "logs/time_patterns/{job}.log",
    retries: RETRIES
    group:
        timing_group if TIMING_JOBS_PER_GROUP else None
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=16000,
        runtime=timing_runtime,
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/time_patterns.py",
        device=lambda wildcards, threads: run.device,
        jobs=lambda wildcards, threads: len(run.jobs),
        patterns=lambda wildcards: run.jobs[wildcards.job],
        device_type=run.device_type,
        cpu_threads=CPU_THREADS,
        batch_size=MEASURED.get("batch_size"),
        dtypes=MEASURED.get("dtypes", []),
        layouts=config["layouts"],
        implementations=run.implementations,
        kernel_sources=run.kernel_sources,
        implementation_hashes=hashes_of(run.implementations),
        torch=run.torch,
        protocol=json.dumps(config["protocol"]),
        journal=RESULTS / "time/journal",
        busy_gpu_max_wait_s=lambda wildcards, threads: config["busy_gpu_max_wait_s"],
    message:
        "Timing {wildcards.job}"
    shell:
        "python {params.script:q} --patterns {params.patterns} --device {params.device:q} --device-type {params.device_type}"
        " --batch-size {params.batch_size} --dtypes {params.dtypes} --layouts {params.layouts}"
        " --implementations {params.implementations} --protocol {params.protocol:q}"
        " --record {output.record:q} --journal {params.journal:q} --jobs {params.jobs} --log {log:q}"
        " --keep-journal --busy-gpu-max-wait-s {params.busy_gpu_max_wait_s}"


rule aggregate:
    input:
        records=run.records,
        ceilings=run.ceilings("ceilings.json"),
        script=ROOT / "workflow/scripts/aggregate.py",
        code=[
            ROOT / "workflow/scripts/aggregation.py",
            ROOT / "ksmm/aggregate.py",
            ROOT / "ksmm/collect.py",
            ROOT / "ksmm/table.py",
            ROOT / "ksmm/table_file.py",
            ROOT / "ksmm/roofline.py",
            ROOT / "ksmm/work.py",
        ],
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
        wrong=report(
            RESULTS / "wrong.csv",
            category="Measurements",
            labels={"what": "wrong results"},
            caption="../report/wrong.rst",
        ),
    log:
        RESULTS / "logs/aggregate.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    params:
        rejected=RESULTS / "time/rejected",
        journal=RESULTS / "time/journal",
        ceilings=[f"--ceilings={path}" for path in run.ceilings("ceilings.json")],
        # a published run is drawn whatever its folder is called
        device=["--device", run.device] if run.measures else [],
    message:
        f"Aggregating {len(run.records)} records to {{output.table}}"
    shell:
        "python {input.script:q} --records {input.records:q} {params.ceilings:q}"
        " --rejected {params.rejected:q} {params.device:q} --journal {params.journal:q}"
        " --table {output.table:q} --rejected-list {output.rejected:q} --wrong-list {output.wrong:q} > {log:q} 2>&1"
