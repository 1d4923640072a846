# Whole networks: `snakemake --cores all networks`; part of `all` where the config key networks.in_all says so.
# One job measures one subject (ksmm/networks/subjects.py), one job at a time on a device.

NETWORKS = config["networks"]
MEASURED_NETWORKS = NETWORKS.get(run.device_type, {})


rule networks:
    input:
        run.networks_results,


rule measure_networks:
    input:
        kernel=RESULTS / "build.json",
    output:
        record=RESULTS / "networks/records/{subject}.json",
    log:
        RESULTS / "logs/measure_networks/{subject}.log",
    # What ends the process twice is recorded as failed by the third try; what was measured before is kept.
    retries: 2
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=12000,
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/measure_networks.py",
        device_type=run.device_type,
        size=MEASURED_NETWORKS.get("size"),
        accuracy_classes=MEASURED_NETWORKS.get("accuracy_classes", []),
        implementations=MEASURED_NETWORKS.get("implementations", []),
        modes=MEASURED_NETWORKS.get("modes", []),
        protocol=json.dumps(NETWORKS["protocol"]),
        journal=RESULTS / "networks/journal",
    message:
        "Measuring networks: {wildcards.subject}"
    shell:
        "python {params.script:q} --subject {wildcards.subject} --size {params.size}"
        " --device-type {params.device_type} --accuracy-classes {params.accuracy_classes}"
        " --implementations {params.implementations} --modes {params.modes} --protocol {params.protocol:q}"
        " --record {output.record:q} --journal {params.journal:q} > {log:q} 2>&1"


rule profile_networks:
    input:
        kernel=RESULTS / "build.json",
    output:
        profile=report(
            RESULTS / "networks_profile.csv",
            category="Measurements",
            labels={"what": "networks, kernel by kernel"},
        ),
    log:
        RESULTS / "logs/profile_networks.log",
    threads: TIMING_THREADS
    resources:
        gpu=TIMING_GPUS,
        mem_mb=12000,
    params:
        script=lambda wildcards, threads: ROOT / "workflow/scripts/profile_networks.py",
        device_type=run.device_type,
        size=MEASURED_NETWORKS.get("size"),
        accuracy_classes=MEASURED_NETWORKS.get("accuracy_classes", []),
        implementation=MEASURED_NETWORKS.get("implementations", [""])[0],
    message:
        "Profiling networks kernel by kernel"
    shell:
        "python {params.script:q} --size {params.size} --device-type {params.device_type}"
        " --accuracy-classes {params.accuracy_classes} --implementation {params.implementation}"
        " --output {output.profile:q} > {log:q} 2>&1"


rule aggregate_networks:
    input:
        records=run.network_records,
        script=ROOT / "workflow/scripts/aggregate_networks.py",
    output:
        table=report(
            RESULTS / "networks.csv",
            category="Measurements",
            labels={"what": "every measurement of networks"},
            caption="../report/table.rst",
        ),
    log:
        RESULTS / "logs/aggregate_networks.log",
    threads: 1
    resources:
        mem_mb=2000,
    params:
        rejected=RESULTS / "networks/rejected",
    message:
        f"Aggregating {len(run.network_records)} records of networks to {{output.table}}"
    shell:
        "python {input.script:q} --records {input.records:q} --rejected {params.rejected:q}"
        " --table {output.table:q} > {log:q} 2>&1"
