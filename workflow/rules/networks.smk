# Whole networks: `snakemake --cores all networks`; part of `all` where the config key networks.in_all says so.
# One job measures one subject (ksmm/networks/subjects.py), one job at a time on a device.

NETWORKS = config["networks"]
MEASURED_NETWORKS = NETWORKS.get(run.device_type, {})


rule networks:
    input:
        run.networks_results,


rule measure_networks:
    input:
        kernel=KERNEL_RECORD,
    output:
        record=RESULTS / "networks/records/{subject}.json",
    log:
        RESULTS / "logs/measure_networks/{subject}.log",
    retries: RETRIES
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=12000,
        runtime=network_runtime,
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/measure_networks.py",
        device_type=run.device_type,
        cpu_threads=CPU_THREADS,
        size=MEASURED_NETWORKS.get("size"),
        accuracy_classes=MEASURED_NETWORKS.get("accuracy_classes", []),
        implementations=MEASURED_NETWORKS.get("implementations", []),
        modes=MEASURED_NETWORKS.get("modes", []),
        protocol=json.dumps(NETWORKS["protocol"]),
        journal=RESULTS / "networks/journal",
        kernel_sources=run.kernel_sources,
        implementation_hashes=hashes_of(MEASURED_NETWORKS.get("implementations", [])),
        torch=run.torch,
        device=lambda wildcards, threads: run.device,
        busy_gpu_max_wait_s=lambda wildcards, threads: config["busy_gpu_max_wait_s"],
    message:
        "Measuring networks: {wildcards.subject}"
    shell:
        "python {params.script:q} --subject {wildcards.subject:q} --size {params.size:q}"
        " --device {params.device:q} --device-type {params.device_type} --accuracy-classes {params.accuracy_classes:q}"
        " --implementations {params.implementations:q} --modes {params.modes:q} --protocol {params.protocol:q}"
        " --record {output.record:q} --journal {params.journal:q} --log {log:q}"
        " --keep-journal --busy-gpu-max-wait-s {params.busy_gpu_max_wait_s}"


rule profile_networks:
    input:
        kernel=KERNEL_RECORD,
    output:
        profile=report(
            RESULTS / "networks_profile.csv",
            category="Measurements",
            labels={"what": "networks, kernel by kernel"},
        ),
    log:
        RESULTS / "logs/profile_networks.log",
    retries: RETRIES
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=12000,
        runtime=lambda wildcards, attempt: cost_model.profile_minutes(attempt),
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/profile_networks.py",
        device_type=run.device_type,
        cpu_threads=CPU_THREADS,
        size=MEASURED_NETWORKS.get("size"),
        accuracy_classes=MEASURED_NETWORKS.get("accuracy_classes", []),
        implementation=MEASURED_NETWORKS.get("implementations", [""])[0],
        protocol=json.dumps(NETWORKS["protocol"]),
        device=lambda wildcards, threads: run.device,
        busy_gpu_max_wait_s=lambda wildcards, threads: config["busy_gpu_max_wait_s"],
        kernel_sources=run.kernel_sources,
        implementation_hashes=hashes_of(MEASURED_NETWORKS.get("implementations", [])[:1]),
        torch=run.torch,
        journal=RESULTS / "networks/profile_journal",
    message:
        "Profiling networks kernel by kernel"
    shell:
        "python {params.script:q} --size {params.size:q} --device {params.device:q} --device-type {params.device_type}"
        " --accuracy-classes {params.accuracy_classes:q} --implementation {params.implementation:q}"
        " --protocol {params.protocol:q} --output {output.profile:q} --journal {params.journal:q}"
        " --busy-gpu-max-wait-s {params.busy_gpu_max_wait_s} > {log:q} 2>&1"


rule aggregate_networks:
    input:
        records=run.network_records,
        script=ROOT / "workflow/scripts/aggregate_networks.py",
        code=[
            ROOT / "workflow/scripts/aggregation.py",
            ROOT / "ksmm/collect.py",
            ROOT / "ksmm/networks/table.py",
            ROOT / "ksmm/table_file.py",
        ],
    output:
        table=report(
            RESULTS / "networks.csv",
            category="Measurements",
            labels={"what": "every measurement of networks"},
            caption="../report/table.rst",
        ),
        rejected=report(
            RESULTS / "networks/rejected.csv",
            category="Measurements",
            labels={"what": "records of networks that were set aside"},
            caption="../report/rejected.rst",
        ),
        wrong=report(
            RESULTS / "networks/wrong.csv",
            category="Measurements",
            labels={"what": "wrong results of networks"},
            caption="../report/wrong.rst",
        ),
    log:
        RESULTS / "logs/aggregate_networks.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    params:
        rejected=RESULTS / "networks/rejected",
        journal=RESULTS / "networks/journal",
        device=["--device", run.device] if run.measures else [],
    message:
        f"Aggregating {len(run.network_records)} records of networks to {{output.table}}"
    shell:
        "python {input.script:q} --records {input.records:q} --rejected {params.rejected:q} {params.device:q}"
        " --journal {params.journal:q} --table {output.table:q} --rejected-list {output.rejected:q}"
        " --wrong-list {output.wrong:q} > {log:q} 2>&1"
