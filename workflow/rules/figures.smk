# Which figures and tables the measurements can give is known once they are there: a checkpoint plans, then each is drawn.

OTHER_SOURCES = ("counters", "tuned")  # the scripts that draw from something else than the table
DRAWING_CODE = sorted(path for path in ROOT.glob("figures/*.py") if not path.stem.startswith(OTHER_SOURCES))
SHARED_DRAWING_CODE = [path for path in DRAWING_CODE if not path.stem.startswith(("fig", "table"))]
# What tuning found here, or for a published device what ships.
TUNED = RESULTS / "tuning.json" if run.measures else ROOT / f"ksmm/tuned/{run.device}.json"


checkpoint plan_figures:
    input:
        tables=run.tables,
        code=DRAWING_CODE,
    output:
        plan=RESULTS / "figures.json",
        left_out=report(
            RESULTS / "left_out.csv",
            category="Left out",
            labels={"what": "figures and tables that this run cannot draw"},
            caption="../report/left_out.rst",
        ),
    log:
        RESULTS / "logs/plan_figures.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    params:
        script=ROOT / "figures/plan.py",
    message:
        "Finding out what {input.tables} can give"
    shell:
        "python {params.script:q} --table {input.tables:q} --output {output.plan:q} > {log:q} 2>&1"


rule draw_figure:
    input:
        table=table_of_script,
        plan=RESULTS / "figures.json",
        script=ROOT / "figures/{name}.py",
        code=SHARED_DRAWING_CODE,
    output:
        png=report(
            RESULTS / "figures/{name}.png",
            category="Figures",
            labels={"figure": "{name}", "as": "picture"},
            caption="../report/drawn.rst",
        ),
        pdf=RESULTS / "figures/{name}.pdf",
        csv=report(
            RESULTS / "figures/{name}.csv",
            category="Figures",
            labels={"figure": "{name}", "as": "numbers"},
            caption="../report/drawn.rst",
        ),
    log:
        RESULTS / "logs/draw/{name}.log",
    wildcard_constraints:
        name=r"fig\w+",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=drawing_runtime,
    params:
        about=lambda wildcards: plan()[wildcards.name],
    message:
        "Drawing {wildcards.name}"
    shell:
        'python {input.script:q} --table {input.table:q} --output "$(dirname {output.png:q})" > {log:q} 2>&1'


rule draw_table:
    input:
        table=table_of_script,
        plan=RESULTS / "figures.json",
        script=ROOT / "figures/{name}.py",
        code=SHARED_DRAWING_CODE,
    output:
        csv=report(
            RESULTS / "tables/{name}.csv",
            category="Tables",
            labels={"table": "{name}"},
            caption="../report/drawn.rst",
        ),
        markdown=RESULTS / "tables/{name}.md",
    log:
        RESULTS / "logs/draw/{name}.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=drawing_runtime,
    params:
        about=lambda wildcards: plan()[wildcards.name],
    message:
        "Writing {wildcards.name}"
    shell:
        'python {input.script:q} --table {input.table:q} --output "$(dirname {output.csv:q})" > {log:q} 2>&1'


# With a published run; of a run that measures on its own, `snakemake --cores all draw_tuned`: most never tuned.
rule draw_tuned:
    input:
        tuning=TUNED,
        script=ROOT / "figures/tuned_vs_untuned.py",
        code=SHARED_DRAWING_CODE,
    output:
        png=report(
            RESULTS / "figures/tuned_vs_untuned.png",
            category="Figures",
            labels={"figure": "tuned_vs_untuned", "as": "picture"},
        ),
        pdf=RESULTS / "figures/tuned_vs_untuned.pdf",
        csv=report(
            RESULTS / "figures/tuned_vs_untuned.csv",
            category="Figures",
            labels={"figure": "tuned_vs_untuned", "as": "numbers"},
        ),
    log:
        RESULTS / "logs/draw/tuned_vs_untuned.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    message:
        "Drawing tuned against untuned from {input.tuning}"
    shell:
        'python {input.script:q} --tuning {input.tuning:q} --output "$(dirname {output.png:q})" > {log:q} 2>&1'
