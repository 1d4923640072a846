# The kernel library, compiled once for its sources; when they change, everything is measured again.
# Without a compiler the record says so, and `kernel` is recorded as skipped.


rule build_kernel:
    output:
        record=RESULTS / "build.json",
    log:
        RESULTS / "logs/build_kernel.log",
    threads: workflow.cores
    resources:
        mem_mb=4000,
    params:
        # instead of the files, which may be moved and touched
        source_hash=run.kernel_sources,
    message:
        "Building the kernel library"
    shell:
        "python -m ksmm build --record {output.record:q} > {log:q} 2>&1"
