# One self-contained page of everything that a run made: Snakemake's own report, asked for on the finished results.


rule results:
    input:
        results_of_run,
        run.tables,
        RESULTS / "left_out.csv",


rule write_report:
    input:
        results_of_run,
        tables=run.tables,
        script=ROOT / "workflow/scripts/write_report.py",
    output:
        page=RESULTS / "report.html",
    log:
        RESULTS / "logs/write_report.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=cost_model.at_most(20),
    params:
        snakefile=ROOT / "Snakefile",
        config=json.dumps(config),
    message:
        "Writing {output.page}"
    shell:
        "python {input.script:q} --snakefile {params.snakefile:q} --config {params.config:q}"
        " --report {output.page:q} > {log:q} 2>&1"
