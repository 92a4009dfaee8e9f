# Retrofit: `make help` lists what can be done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Three processes for two cores, because tests of pages wait for the browser, which comes early, for it takes longest. Each takes
# whole files: a file's fixtures are made once.
# `make test PARALLEL=` takes one process.
PARALLEL ?= -n 3 --dist loadfile --no-loadscope-reorder
# glibc gives the memory of every large tensor back to the system and fetches it anew, which costs small networks half of their time.
# A notebook of many small fusions took 63 s without these and 40 s with them.
# Bytecode is kept as well, whatever the environment says: each process would compile code and tests anew, which takes 9 s.
KEEP := PYTHONDONTWRITEBYTECODE= MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=2000000000

.PHONY: help app test quick test-gpu test-all lint ceilings types format notebooks bundle benchmark docs dist clean

help:  ## List the targets
	@grep -hE "^[a-z-]+:.*##" $(MAKEFILE_LIST) | sed -E "s/:.*##/\t/"

# The stamps tie each installation to the files that decide it.
$(VENV)/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip setuptools
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

app: $(VENV)/installed  ## Set up and open the workbench in the browser
	$(BIN)/retrofit app

test: $(VENV)/installed-dev  ## Set up and run the tests
	$(KEEP) $(BIN)/python -m pytest $(PARALLEL)

quick: $(VENV)/installed-dev  ## The tests that need under a minute
	$(KEEP) $(BIN)/python -m pytest $(subst -n 3,-n 2,$(PARALLEL)) -m "not slow and not browser and not long"

# With CUDA, `device="auto"` is the GPU: the quick tests of a CPU run on it, and those marked `cuda`. A test waits for Python most of
# the time, so six processes share the GPU. Warnings of the GPU's packages are listed and fail nothing.
# On a machine without this environment, the same words follow `python -m pytest`; tests skip what is not there.
test-gpu: $(VENV)/installed-dev  ## The quick tests on a GPU, where there is one
	@$(BIN)/python -c "import torch; assert torch.cuda.is_available()" 2>/dev/null || { echo "PyTorch finds no CUDA device here."; exit 1; }
	$(KEEP) $(BIN)/python -m pytest $(subst -n 3,-n 6,$(PARALLEL)) -m "(cuda or not slow) and not browser and not long" -W default

# `make test-all PART=1/4` runs a quarter of the long tests and nothing else: .ci/run takes another quarter each day.
test-all: $(VENV)/installed-dev  ## Every test, those that take minutes each as well; PART=1/4: a part of the long ones alone
	$(KEEP) $(BIN)/python -m pytest $(PARALLEL) $(if $(PART),-m long --part $(PART),-m "")

lint: $(VENV)/installed-dev ceilings  ## Formatting, lint, types, and the ceilings of size
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/pyright

ceilings: $(VENV)/installed  ## How large the project is, beside its ceilings; fails above one
	$(BIN)/python benchmarks/size.py --check

format: $(VENV)/installed-dev  ## Format and fix
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bundle: $(VENV)/installed  ## Make the run that the first page shows again (about 20 seconds)
	$(BIN)/python -m retrofit_app.bundle

notebooks: $(VENV)/installed-dev  ## Execute the notebooks again
	$(BIN)/python docs/notebooks.py

benchmark: $(VENV)/installed  ## Measure everything again (about three hours on two cores; needs the checkpoints)
	$(BIN)/python benchmarks/accuracy.py && $(BIN)/python benchmarks/speed.py && $(BIN)/python benchmarks/methods.py

docs: $(VENV)/installed-dev  ## Build the documentation site into build/site (`mkdocs serve` shows it)
	$(BIN)/python -m mkdocs build --strict --site-dir build/site

# From a fresh copy of the last commit, so that nothing else of this folder comes along.
dist: $(VENV)/installed-dev  ## Build wheel and sdist of the last commit into dist
	rm -rf build/release dist && mkdir -p build/release
	git archive HEAD | tar -x -C build/release
	$(BIN)/python -m build --no-isolation --outdir dist build/release

clean:  ## Remove the environment
	rm -rf $(VENV)
