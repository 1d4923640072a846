# The kernel library, compiled once. Without a compiler the record says so, and `kernel` is recorded as skipped.


rule build_kernel:
    input:
        sources=[*ROOT.glob("ksmm/csrc/**/*.*"), ROOT / "ksmm/build.py"],
    output:
        record=RESULTS / "build.json",
    log:
        RESULTS / "logs/build_kernel.log",
    threads: workflow.cores
    resources:
        mem_mb=4000,
    params:
        # a library that was removed since is built again
        library_lost=library_lost(RESULTS / "build.json"),
    message:
        "Building the kernel library"
    shell:
        "python -m ksmm build --record {output.record:q} > {log:q} 2>&1"
