# make demo        train a small network and compare operations with NumPy, on the GPU or else the CPU
# make test        the whole test suite (GPU tests too, where there is a GPU)
# make test-quick  a choice of it, on the CPU, in at most two minutes; says at its end what it leaves out
# make attack      what tests/attacks/ does in seconds, for an hour; writes tests/attacks/record.json
# make mutate      plant small bugs and count those that no test sees; writes tests/mutation/record.json
# make bench       measure against whatever peers are installed; results below benchmarks/results/
# make notebooks   execute the notebooks in place
# make kernels     compile the kernels that common programs need, for every architecture, into wheels in dist/: a night's work
# make kernel-list record what common programs need (packs/programs.py), without a GPU
# make docs        the site, in docs/_build/html; offline, warnings are errors
# make lint        ruff, mypy, the import contracts and the form of public docstrings
#
# Each first sets up .venv in this folder, once, and installs nothing elsewhere.

PYTHON  ?= python3
WORKERS ?= 2
# On a machine with a GPU the CUDA 13.0 libraries come along; override with `make EXTRAS=test,demo` to use
# an installed toolkit (CUDA_PATH or CUDA_HOME) instead.
EXTRAS  ?= test,demo$(shell nvidia-smi -L >/dev/null 2>&1 && echo ,cu13)
RUN     := .venv/bin/python
STAMP   := .venv/.cudamath-installed

# Every process of the tests and of those they start would otherwise compile all test files again: ten seconds each.
test-quick test-cpu test-simulator test-gpu compiled-facts: export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-quick test-cpu test-simulator test-gpu attack mutate bench notebooks compiled-facts \
  kernels kernel-list docs lint clean

setup: $(STAMP)

# Pips that come with older Pythons take twice as long to look through an index. Nothing is compiled here: of 9,000 files
# Python compiles those that are imported, when they first are.
$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; (3, 11) <= v < (3, 15) or sys.exit( \
	  "cudamath needs Python 3.11 to 3.14 (Numba has no release for newer ones), and $(PYTHON) is %d.%d: " \
	  "make PYTHON=python3.12" % v[:2])'
	@echo "Setting up .venv with [$(EXTRAS)]: once, a few minutes"
	@$(PYTHON) -m venv .venv
	@$(RUN) -m pip install -qq --disable-pip-version-check --no-compile 'pip>=24'
	@$(RUN) -m pip install -qq --disable-pip-version-check --no-warn-script-location --no-compile -e '.[$(EXTRAS)]'
	@touch $@

demo: $(STAMP)
	@$(RUN) -m cudamath demo

# Three runs: the GPU, the CPU (and everything that needs no device), Numba's simulator. Where there is no GPU, the
# second reports how many tests were not run for want of one. All three run even if one fails.
test: $(STAMP)
	@status=0; \
	for part in test-gpu test-cpu test-simulator; do $(MAKE) --no-print-directory $$part || status=1; done; \
	exit $$status

# One BLAS thread a worker: two workers on two cores would otherwise fight over them. Each worker begins with its half of
# the files, so that what tests of a file share is made once, and takes over from the other when it is done.
test-cpu: $(STAMP)
	@echo "== CPU"
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(RUN) -m pytest -n $(WORKERS) --dist worksteal -q -m "not gpu and not multigpu and not simulator"

# The rules by which it chooses are in tests/support/quick.py.
test-quick: $(STAMP)
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(RUN) -m pytest --quick -n $(WORKERS) --dist worksteal -q

test-simulator: $(STAMP)
	@echo "== Numba's simulator"
	@NUMBA_ENABLE_CUDASIM=1 OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n $(WORKERS) --dist worksteal -q -m simulator

test-gpu: $(STAMP)
	@echo "== GPU"
	@if $(RUN) -c 'import sys, cudamath; sys.exit(not cudamath.cuda.device_count())'; then \
	  $(RUN) -m pytest -q -p benchmarks.record -m "gpu or multigpu"; \
	else echo "No GPU: the CPU's run counts the tests that need one."; fi

# SECONDS=600 for less; MUTANTS=30 for a sample.
attack: $(STAMP)
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(RUN) -m tests.attacks --seconds $(or $(SECONDS),3600) \
	  --jobs $(or $(JOBS),2)

mutate: $(STAMP)
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(RUN) -m tests.mutation --mutants $(or $(MUTANTS),300) \
	  --jobs $(or $(JOBS),2)

bench: $(STAMP)
	@$(RUN) -m benchmarks.run

notebooks: $(STAMP)
	@.venv/bin/jupyter-execute --inplace notebooks/*.ipynb

# What unchanged kernels compiled to, so that tests need not compile them again: after kernels have changed.
FACTS = tests/data/compiled_kernels.txt
compiled-facts: $(STAMP)
	@rm -f $(FACTS).new
	@CUDAMATH_COMPILED_FACTS=$(CURDIR)/$(FACTS).new $(RUN) -m pytest -n $(WORKERS) --dist worksteal -q -m compiles
	@LC_ALL=C sort -u $(FACTS).new > $(FACTS) && rm $(FACTS).new

kernels: $(STAMP)
	@$(RUN) -m packs.build

kernel-list: $(STAMP)
	@$(RUN) -m packs.record

docs: $(STAMP)
	@$(RUN) -c 'import pydata_sphinx_theme, myst_nb' 2>/dev/null || $(RUN) -m pip install -qq --disable-pip-version-check -e '.[docs]'
	@$(RUN) -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

lint: $(STAMP)
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo
	@.venv/bin/python -m pytest -q tests/meta/test_docs.py -k "numpydoc or is_documented"

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
