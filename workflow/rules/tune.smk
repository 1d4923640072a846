# What `python -m ksmm tune` finds, as a job: `snakemake --cores all tune`. It is no part of `all`. What it finds stays in
# results/<device>/tuning.json, to be compared with the untuned and published: unlike the command, it writes nothing to
# the tuning file that ksmm multiplies by, since that would change what the run measures while it runs.


rule tune:
    input:
        RESULTS / "tuning.json",
        RESULTS / "tuned_against_untuned.csv",


rule tune_kernel:
    input:
        kernel=RESULTS / "build.json",
    output:
        tuning=RESULTS / "tuning.json",
    log:
        RESULTS / "logs/tune_kernel.log",
    # What ends the process is left out by the next try; what was measured before is kept.
    retries: RETRIES
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=16000,
        runtime=lambda wildcards, attempt: cost_model.tuning_minutes(
            config["tuning"]["max_seconds"], config["protocol"], attempt
        ),
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/tune_kernel.py",
        patterns=lambda wildcards: [pattern for patterns in run.jobs.values() for pattern in patterns],
        device=lambda wildcards, threads: run.device,
        device_type=run.device_type,
        batch_sizes=config["tuning"]["batch_sizes"],
        dtypes=MEASURED.get("dtypes", []),
        layouts=config["layouts"],
        protocol=json.dumps(config["protocol"]),
        max_seconds=config["tuning"]["max_seconds"],
        cpu_threads=CPU_THREADS,
        torch=run.torch,
        busy_gpu_max_wait_s=lambda wildcards, threads: config["busy_gpu_max_wait_s"],
        journal=RESULTS / "tuning/measured.json",
    message:
        f"Tuning the kernel on {run.device}"
    shell:
        "python {params.script:q} --patterns {params.patterns} --device {params.device:q} --device-type {params.device_type}"
        " --batch-sizes {params.batch_sizes} --dtypes {params.dtypes} --layouts {params.layouts}"
        " --protocol {params.protocol:q} --max-seconds {params.max_seconds} --journal {params.journal:q}"
        " --busy-gpu-max-wait-s {params.busy_gpu_max_wait_s}"
        " --output {output.tuning:q} > {log:q} 2>&1"


rule compare_tuned:
    input:
        tuning=RESULTS / "tuning.json",
        script=ROOT / "workflow/scripts/compare_tuned.py",
    output:
        summary=report(
            RESULTS / "tuned_against_untuned.csv",
            category="Tables",
            labels={"table": "tuned against untuned"},
        ),
        problems=RESULTS / "tuning/problems.csv",
    log:
        RESULTS / "logs/compare_tuned.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    message:
        "Comparing tuned with untuned in {input.tuning}"
    shell:
        "python {input.script:q} --tuning {input.tuning:q} --summary {output.summary:q}"
        " --problems {output.problems:q} > {log:q} 2>&1"
