# What the rules share. What a run can give is known only once its measurements are there: plan() and the functions that use
# it wait for the checkpoint that plans it.
from run_devices import check_targets

if not run.measures:
    check_targets(sys.argv[1:], run.device)

# What ends the process twice is recorded as failed by the third try, which what is left of a job on a cluster's node must
# not begin while it is being cancelled: there the Snakemake that submitted it tries again.
RETRIES = 0 if workflow.remote_exec else 2

# The build is tried again only where a scheduler may have ended it: a compiler that fails would fail again for minutes.
BUILD_RETRIES = RETRIES if os.environ.get("KSMM_TIMING_JOBS_PER_GROUP") else 0

# What a scheduler gets as one job: so many consecutive timing jobs, if its profile says how many. Chosen here, not by
# Snakemake, which each time that a checkpoint is over puts together again what are groups already (its issue 1628).
TIMING_JOBS_PER_GROUP = 0 if workflow.remote_exec else int(os.environ.get("KSMM_TIMING_JOBS_PER_GROUP", 0))
NUMBER_OF_JOB = {job: number for number, job in enumerate(run.jobs or {})}

# An energy job takes several times as long as a timing job.
ENERGY_JOBS_PER_GROUP = math.ceil(TIMING_JOBS_PER_GROUP / 5)
NUMBER_OF_ENERGY_JOB = {job: number for number, job in enumerate(run.energy_jobs or {})}


# What a job that measures needs. Its age means nothing (clocks jump, files are copied): that the kernel's sources changed
# is seen by their hash. But Snakemake takes a job whose ancient input is about to be written anew for done, whatever
# else has changed, until the next call; so what is about to be written is not ancient.
KERNEL_RECORD = RESULTS / "build.json" if run.kernel_changed else ancient(RESULTS / "build.json")


def hashes_of(implementations):
    """Hashes of the Python sources of implementations, by name, as a parameter: a repaired one is measured again."""
    return [run.implementation_hashes[name] for name in implementations]


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


def drawing_runtime(wildcards):
    """Minutes of a figure or table, which a scheduler gets together with all others of the run."""
    if workflow.remote_exec:
        return 5  # asked for already, by who knew all of them
    return cost_model.member_minutes(5, len(drawable("figure") + drawable("table")), workflow.cores)


def table_of_script(wildcards):
    """The table that a figure or table is drawn from."""
    return RESULTS / f"{plan()[wildcards.name]['study']}.csv"


NOTEBOOK_TABLES = {"vit_submodules": "networks.csv"}  # those that do not read time.csv


def table_of_notebook(wildcards):
    """The table that a notebook reads."""
    return RESULTS / NOTEBOOK_TABLES.get(wildcards.name, "time.csv")


def executed_notebooks():
    """The notebooks, each for the dtypes of its table, in order of appearance; known once the tables are there."""
    checkpoints.plan_figures.get()
    found = []
    for name in run.notebooks:
        table = RESULTS / NOTEBOOK_TABLES.get(name, "time.csv")
        dtypes = dict.fromkeys(row["dtype"] for row in read_rows(table)) if str(table) in run.tables else []
        found += expand(RESULTS / "notebooks/{name}-{dtype}.ipynb", name=name, dtype=dtypes)
    return found


def results_of_run(wildcards):
    """Every figure, table and executed notebook that this run can give."""
    return (
        expand(RESULTS / "figures/{name}.png", name=drawable("figure"))
        + expand(RESULTS / "tables/{name}.csv", name=drawable("table"))
        + executed_notebooks()
        + published_counters()
        + published_tuning()
    )


def published_counters():
    """The figure of the counters of a published run that has some; a run that measures draws it when asked to."""
    if run.measures or not COUNTERS.is_file():
        return []
    counted = any(row["status"] == "ok" for row in read_rows(COUNTERS))
    return [RESULTS / "figures/counters_kernel.png"] if counted else []


def published_tuning():
    """The figure of what tuning found, for a published run whose device has a file that ships with ksmm."""
    return [] if run.measures or not TUNED.is_file() else [RESULTS / "figures/tuned_vs_untuned.png"]


def network_runtime(wildcards, attempt):
    """Minutes that measuring a subject of the study networks may take; more at each retry."""
    from ksmm.networks.subjects import entries

    kinds = ("size", "accuracy_classes", "implementations", "modes")
    number = len(entries(wildcards.subject, *(MEASURED_NETWORKS[kind] for kind in kinds)))
    return cost_model.network_minutes(number, NETWORKS["protocol"], attempt)


def drawn_counters(wildcards):
    """The table and the figure of the counters, if anything could be counted; known once that was tried."""
    if run.measures:
        checkpoints.count_kernel.get()
    rows = read_rows(COUNTERS)
    if rows and not any(row["status"] == "ok" for row in rows):
        print(f"counters: skipped: {rows[0]['reason']}", file=sys.stderr)
        return []
    return RESULTS / "figures/counters_kernel.png"


def timing_group(wildcards):
    """The name of the group that a timing job is in."""
    return f"timing{NUMBER_OF_JOB[wildcards.job] // TIMING_JOBS_PER_GROUP}"


def energy_group(wildcards):
    """The name of the group that an energy job is in."""
    return f"energy{NUMBER_OF_ENERGY_JOB[wildcards.job] // ENERGY_JOBS_PER_GROUP}"


def timing_runtime(wildcards, attempt):
    """Minutes that a timing job may take; more at each retry."""
    return cost_model.timing_minutes(
        run.jobs[wildcards.job],
        run.device_type,
        MEASURED["batch_size"],
        MEASURED["dtypes"],
        config["layouts"],
        run.implementations,
        config["protocol"],
        attempt,
    )
