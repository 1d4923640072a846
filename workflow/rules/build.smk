# The kernel library, compiled once for its sources; when they change, everything is measured again.
# Without a compiler the record says so, and `kernel` is recorded as skipped.

# Unless it is told what to compile for, the build asks the GPU; on a cluster's node it sees one only if it holds it.
BUILD_GPUS = 1 if run.device_type == "cuda" and not os.environ.get("KSMM_CUDA_ARCHITECTURES") else 0


rule build_kernel:
    output:
        record=RESULTS / "build.json",
    log:
        RESULTS / "logs/build_kernel.log",
    retries: BUILD_RETRIES
    threads: workflow.cores
    resources:
        gpu=BUILD_GPUS,
        mem_mb=8000,
        runtime=lambda wildcards, attempt: cost_model.build_minutes(run.device_type, attempt),
    params:
        # instead of the files, which may be moved and touched
        source_hash=run.kernel_sources,
    message:
        "Building the kernel library"
    shell:
        "python -m ksmm build --record {output.record:q} > {log:q} 2>&1"
