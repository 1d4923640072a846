# What a run can give is known only once its measurements are there; these functions wait for the checkpoint that plans it.


def plan():
    """figures.json, known once the table is there: name -> kind, title, caption, missing."""
    return json.loads(Path(checkpoints.plan_figures.get().output.plan).read_text(encoding="utf-8"))


def drawable(kind):
    """Names of the figures, or of the tables, that the config asks for and the measurements can give."""
    return [
        name
        for name, entry in plan().items()
        if entry["kind"] == kind and entry["missing"] is None and name in run.figures
    ]


def table_of(wildcards):
    """The table that a figure or table is drawn from."""
    return RESULTS / f"{plan()[wildcards.name]['study']}.csv"


def dtypes_in_table():
    """Dtypes of the measurements, in order of appearance; known once the table is there."""
    checkpoints.plan_figures.get()
    return list(dict.fromkeys(row["dtype"] for row in read_rows(RESULTS / "time.csv")))


def results_of_run(wildcards):
    """Every figure, table and executed notebook that this run can give."""
    return (
        expand(RESULTS / "figures/{name}.png", name=drawable("figure"))
        + expand(RESULTS / "tables/{name}.csv", name=drawable("table"))
        + expand(RESULTS / "notebooks/{name}-{dtype}.ipynb", name=run.notebooks, dtype=dtypes_in_table())
    )


def drawn_counters(wildcards):
    """The table and the figure of the counters, if anything could be counted; known once that was tried."""
    if run.measures:
        checkpoints.count_kernel.get()
    rows = read_rows(COUNTERS)
    if rows and not any(row["status"] == "ok" for row in rows):
        print(f"counters: skipped: {rows[0]['reason']}", file=sys.stderr)
        return []
    return RESULTS / "figures/counters_kernel.png"
