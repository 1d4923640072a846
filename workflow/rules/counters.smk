# What Nsight Compute counts of the kernel on a few patterns: `snakemake --cores all counters`. It is no part of `all`,
# but for a published run: it needs a GPU, `ncu`, and the right to read its counters. Without them counters.csv says why,
# and nothing is drawn.

COUNTERS = run.records_folder / "counters.csv"


rule counters:
    input:
        COUNTERS,
        drawn_counters,


if run.measures:

    checkpoint count_kernel:
        input:
            kernel=RESULTS / "build.json",
        output:
            counters=COUNTERS,
        log:
            RESULTS / "logs/count_kernel.log",
        retries: RETRIES
        threads: 1
        resources:
            gpu=TIMING_GPUS,
            mem_mb=16000,
            runtime=cost_model.at_most(60),
        params:
            script=lambda wildcards, threads: ROOT / "workflow/scripts/count_kernel.py",
            patterns=config["counters"]["patterns"],
            batch_size=MEASURED.get("batch_size"),
            dtypes=MEASURED.get("dtypes", []),
            layouts=config["layouts"],
            device=lambda wildcards, threads: run.device,
            torch=run.torch,
        message:
            "Counting what the kernel does"
        shell:
            "python {params.script:q} --patterns {params.patterns:q} --batch-size {params.batch_size} --device {params.device:q}"
            " --dtypes {params.dtypes} --layouts {params.layouts} --output {output.counters:q} > {log:q} 2>&1"


rule draw_counters:
    input:
        counters=COUNTERS,
        script=ROOT / "figures/counters_kernel.py",
        code=SHARED_DRAWING_CODE,
    output:
        png=report(
            RESULTS / "figures/counters_kernel.png",
            category="Figures",
            labels={"figure": "counters_kernel", "as": "picture"},
        ),
        pdf=RESULTS / "figures/counters_kernel.pdf",
        csv=report(
            RESULTS / "figures/counters_kernel.csv",
            category="Figures",
            labels={"figure": "counters_kernel", "as": "numbers"},
        ),
        markdown=RESULTS / "figures/counters_kernel.md",
    log:
        RESULTS / "logs/draw/counters_kernel.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    message:
        "Drawing the counters in {input.counters}"
    shell:
        'python {input.script:q} --counters {input.counters:q} --output "$(dirname {output.png:q})" > {log:q} 2>&1'
