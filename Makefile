# Needs python3 (3.11 or newer), make and a C++ compiler; everything else goes into .venv.
#   make figures                        measure on this machine and draw (workflow/config/default.yaml)
#   make figures DEVICE=nvidia-h200     draw the published measurements of a device, without measuring
#   make figures DEVICE=nvidia-h200 RESULTS=results/redrawn    the same, beside a run of your own of such a device
#   make figures CONFIG=workflow/config/paper.yaml
#   make resume                         go on with a run that was killed, with its arguments
#   make counters                       count with Nsight Compute what the kernel does on the GPU, and draw it
#   make publish DEVICE=nvidia-h200     copy a finished run from results/ to measurements/, to be redrawn anywhere
#   make audit                          ask what is known against the pinned dependencies
#   make hashes                         after a change of constraints.txt: their hashes, for CI
#   make test, make lint, make format, make clean
PYTHON ?= python3
CORES ?= all
# The tests run in so many processes side by side (some only wait).
TEST_PROCESSES ?= 3
CONFIG ?=
DEVICE ?=
RESULTS ?=
# More options of pip, e.g. --extra-index-url with PyTorch's CPU builds, which are much smaller than those for CUDA.
PIP_FLAGS ?=
# HASHED=1 installs only files with the hashes of requirements-ci.txt (all but PyTorch's).
HASHED ?=

BIN := .venv/bin
# Without --no-compile pip would compile one module after another; compileall does it on all processors afterwards.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile $(PIP_FLAGS)
INSTALLED := .venv/.installed
CPP_SOURCES = $(shell find ksmm/csrc benchmarks tests -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
NOTEBOOKS = $(wildcard notebooks/*.ipynb)

.PHONY: figures resume counters publish test audit hashes lint format clean

figures: $(INSTALLED)
	$(BIN)/snakemake --cores $(CORES) \
	  $(if $(CONFIG),--configfile "$(CONFIG)") $(if $(DEVICE)$(RESULTS),--config) \
	  $(if $(DEVICE),"device=$(DEVICE)") $(if $(RESULTS),"results=$(RESULTS)")
	@echo "Reports:"; ls "$(or $(RESULTS),results)"/*/report.html

resume: $(INSTALLED)
	$(BIN)/python -m ksmm resume

counters: $(INSTALLED)
	$(BIN)/snakemake --cores $(CORES) \
	  $(if $(CONFIG),--configfile "$(CONFIG)") $(if $(DEVICE),--config "device=$(DEVICE)") counters

# What others need in order to redraw and to check a run.
publish: $(INSTALLED)
	@test -n "$(DEVICE)" || { echo "name the device: make publish DEVICE=..."; exit 2; }
	@$(BIN)/python workflow/scripts/publish.py --device "$(DEVICE)"

# The kernel is built first, since its tests are skipped where it is missing.
test: $(INSTALLED)
	$(BIN)/python -m ksmm build
	$(BIN)/pytest -n $(TEST_PROCESSES) --durations 15

audit:
	$(PYTHON) .ci/audit.py

hashes:
	.ci/hashes

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	$(BIN)/clang-format --dry-run -Werror $(CPP_SOURCES)
	$(if $(NOTEBOOKS),$(BIN)/nbstripout --verify $(NOTEBOOKS))

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/snakefmt Snakefile workflow
	$(BIN)/clang-format -i $(CPP_SOURCES)
	$(if $(NOTEBOOKS),$(BIN)/nbstripout $(NOTEBOOKS))

# Results stay, which may be hours of measuring, and so does the kernel that they were measured with.
clean:
	rm -rf .venv *.egg-info .pytest_cache .ruff_cache

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "$(PYTHON) is Python %d.%d; \
	ksmm needs 3.11 or newer: make PYTHON=/path/to/python3.12 ..." % v[:2])'
	$(PYTHON) -m venv .venv
	@echo "Installing into .venv, which takes a minute or two ..."
	$(if $(HASHED),$(PIP_INSTALL) --require-hashes --no-deps -r requirements-ci.txt)
	$(PIP_INSTALL) -c constraints.txt -e '.[build,workflow,slurm,networks,dev]'
# Modules that this Python cannot compile, of which PyTorch has one for newer Pythons, are told of where they are imported.
	@$(BIN)/python -m compileall -q -j 0 .venv/lib > /dev/null || true
	@touch $@
