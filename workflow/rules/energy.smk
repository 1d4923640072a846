# The energy study: jobs like those that time, on its own list of patterns (appendix B.1), with its own table.
# What time.smk says of scripts and parameters holds here, too.

ENERGY = config["energy"]
ENERGY_MEASURED = ENERGY.get(run.device_type, {})

# What this study takes from the config's `protocol`: who changes how times are sampled measures no energy again.
ENERGY_USES = ("runs_per_sample", "max_seconds_per_run", "seed")

# measurements of one pattern
ENERGY_NUMBERS = len(ENERGY_MEASURED.get("dtypes", [])) * len(config["layouts"]) * len(run.energy_implementations)


rule measure_energy_ceilings:
    output:
        record=RESULTS / "energy/ceilings.json",
    log:
        RESULTS / "logs/measure_energy_ceilings.log",
    retries: RETRIES
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=8000,
        runtime=lambda wildcards, attempt: cost_model.ceilings_minutes(ENERGY_MEASURED.get("dtypes", []), attempt),
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/measure_energy_ceilings.py",
        device=lambda wildcards, threads: run.device,
        device_type=run.device_type,
        cpu_threads=CPU_THREADS,
        torch=run.torch,
        busy_gpu_max_wait_s=lambda wildcards, threads: config["busy_gpu_max_wait_s"],
        dtypes=ENERGY_MEASURED.get("dtypes", []),
        energy_protocol=json.dumps(ENERGY["protocol"]),
    message:
        f"Measuring what a byte and an operation cost on {run.device}"
    shell:
        "python {params.script:q} --device {params.device:q} --device-type {params.device_type} --dtypes {params.dtypes}"
        " --energy-protocol {params.energy_protocol:q} --record {output.record:q}"
        " --busy-gpu-max-wait-s {params.busy_gpu_max_wait_s} > {log:q} 2>&1"


rule energy_patterns:
    input:
        kernel=KERNEL_RECORD,
    output:
        record=RESULTS / "energy/records/{job}.json",
    log:
        RESULTS / "logs/energy_patterns/{job}.log",
    retries: RETRIES
    group:
        energy_group if ENERGY_JOBS_PER_GROUP else None
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=16000,
        runtime=lambda wildcards, attempt: cost_model.energy_minutes(
            run.energy_jobs[wildcards.job], ENERGY_NUMBERS, ENERGY["protocol"]["seconds_per_pattern"], attempt
        ),
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/energy_patterns.py",
        jobs=lambda wildcards, threads: len(run.energy_jobs),
        patterns=lambda wildcards: run.energy_jobs[wildcards.job],
        device_type=run.device_type,
        cpu_threads=CPU_THREADS,
        batch_size=ENERGY_MEASURED.get("batch_size"),
        dtypes=ENERGY_MEASURED.get("dtypes", []),
        layouts=config["layouts"],
        implementations=run.energy_implementations,
        device=lambda wildcards, threads: run.device,
        kernel_sources=run.kernel_sources,
        implementation_hashes=hashes_of(run.energy_implementations),
        torch=run.torch,
        busy_gpu_max_wait_s=lambda wildcards, threads: config["busy_gpu_max_wait_s"],
        protocol=json.dumps({name: config["protocol"][name] for name in ENERGY_USES}),
        energy_protocol=json.dumps(ENERGY["protocol"]),
        journal=RESULTS / "energy/journal",
    message:
        "Measuring the energy of {wildcards.job}"
    shell:
        "python {params.script:q} --patterns {params.patterns} --device {params.device:q} --device-type {params.device_type}"
        " --batch-size {params.batch_size} --dtypes {params.dtypes} --layouts {params.layouts}"
        " --implementations {params.implementations} --protocol {params.protocol:q}"
        " --energy-protocol {params.energy_protocol:q} --record {output.record:q} --journal {params.journal:q}"
        " --jobs {params.jobs} --log {log:q} --keep-journal --busy-gpu-max-wait-s {params.busy_gpu_max_wait_s}"


rule aggregate_energy:
    input:
        records=run.energy_records,
        imported=run.imported,
        ceilings=run.ceilings("ceilings.json"),
        energy_ceilings=run.ceilings("energy/ceilings.json") if run.energy_records else [],
        published=run.published_energies,
        script=ROOT / "workflow/scripts/aggregate_energy.py",
        code=[
            ROOT / "workflow/scripts/aggregation.py",
            ROOT / "ksmm/energy_aggregate.py",
            ROOT / "ksmm/collect.py",
            ROOT / "ksmm/energy_table.py",
            ROOT / "ksmm/table_file.py",
            ROOT / "ksmm/roofline.py",
            ROOT / "ksmm/work.py",
        ],
    output:
        table=report(
            RESULTS / "energy.csv",
            category="Measurements",
            labels={"what": "every measurement of energy"},
            caption="../report/table.rst",
        ),
        rejected=report(
            RESULTS / "energy/rejected.csv",
            category="Measurements",
            labels={"what": "records of energies that were set aside"},
            caption="../report/rejected.rst",
        ),
        wrong=report(
            RESULTS / "energy/wrong.csv",
            category="Measurements",
            labels={"what": "wrong results of energies"},
            caption="../report/wrong.rst",
        ),
    log:
        RESULTS / "logs/aggregate_energy.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    params:
        rejected=RESULTS / "energy/rejected",
        journal=RESULTS / "energy/journal",
        device=["--device", run.device] if run.measures else [],
        options=lambda wildcards, input: [f"--ceilings={path}" for path in input.ceilings]
        + [f"--energy-ceilings={path}" for path in input.energy_ceilings]
        + [f"--published-table={path}" for path in input.published],
    message:
        f"Aggregating {len(run.energy_records)} energy records to {{output.table}}"
    shell:
        "python {input.script:q} --records {input.records:q} --imported {input.imported:q} {params.options:q}"
        " --rejected {params.rejected:q} {params.device:q} --journal {params.journal:q} --table {output.table:q}"
        " --rejected-list {output.rejected:q} --wrong-list {output.wrong:q} > {log:q} 2>&1"
