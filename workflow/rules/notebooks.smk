# Each notebook, executed once for each dtype in the table.

# At most, known before the table is there.
NOTEBOOK_JOBS = len(run.notebooks) * len(MEASURED.get("dtypes", []))


rule execute_notebook:
    input:
        table=table_of_notebook,
        notebook=ROOT / "notebooks/{name}.ipynb",
        script=ROOT / "workflow/scripts/execute_notebook.py",
        code=DRAWING_CODE,  # of which notebooks import what figures share, and scripts of tables
    output:
        notebook=RESULTS / "notebooks/{name}-{dtype}.ipynb",
        page=report(
            RESULTS / "notebooks/{name}-{dtype}.html",
            category="Notebooks",
            labels={"notebook": "{name}", "dtype": "{dtype}"},
            caption="../report/notebook.rst",
        ),
    log:
        RESULTS / "logs/notebooks/{name}-{dtype}.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.member_minutes(30, NOTEBOOK_JOBS, workflow.cores),
    params:
        device=run.device,
        layout="both",
    message:
        "Executing the notebook {wildcards.name} on {wildcards.dtype}"
    shell:
        "python {input.script:q} {input.notebook:q} --table {input.table:q} --device {params.device:q}"
        " --dtype {wildcards.dtype} --layout {params.layout} --output {output.notebook:q} > {log:q} 2>&1"
