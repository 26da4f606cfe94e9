# Everything a person does here, in a few words. CI runs `make test` and nothing else.
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen

# The tests start hundreds of processes; without bytecode each would compile all it imports anew.
unexport PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check tests fix bench interop interop-daft console-shots trust mutate

help: ## Show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready ## Make the environment in .venv (uv is fetched with pip if it is missing)

.uv/bin/uv:
	python3 -m venv .uv && .uv/bin/pip install --quiet uv

.venv/.ready: uv.lock pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(UV) sync --frozen --quiet
	@touch $@

demo: setup ## Build a small catalog and show it
	$(RUN) lakeroot demo

test: check tests ## Everything CI runs: lint, types, import contracts, every test

check: setup
	$(RUN) ruff check . && $(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports

tests: setup
	$(RUN) pytest -n 2 --dist worksteal

# The rooms that invent examples: there the thorough profile is another one than that of every day.
INVENTING := tests/conformance tests/lance_dir tests/metastore tests/tables tests/unit tests/models \
	tests/server/test_openapi.py tests/faults/test_errors.py tests/iceberg/test_table_metadata.py \
	tests/iceberg/test_properties_and_places.py tests/iceberg/test_schema_conversion.py

trust: setup ## Try the promises of docs/trust.md at length (hours), and print the figures
	$(RUN) python -m tests.histories --calls $(or $(CALLS),20000) --seeds $(or $(HISTORIES),2) $(CATALOGS)
	LAKEROOT_RACERS=$(or $(RACERS),16) $(RUN) pytest -q -s --timeout 0 tests/races tests/tables/test_writers.py
	$(RUN) python -m tests.faults.matrix $(if $(BRIEF),,--everything)
	LAKEROOT_BYTES=$(or $(BYTES),2000) $(RUN) pytest -q --timeout 0 tests/faults/test_one_byte.py
	LAKEROOT_GC_SEEDS=$(or $(SEEDS),200) $(RUN) pytest -q --timeout 0 tests/fsck/test_old_versions.py
	LAKEROOT_KILLS=1 $(RUN) pytest -q --timeout 0 tests/fsck/test_killed_writers.py
	LAKEROOT_SOAK_SECONDS=$(or $(SOAK),3600) $(RUN) pytest -q -s --timeout 0 tests/server/test_soak.py tests/faults/test_soak.py
	LAKEROOT_TESTS=thorough $(RUN) pytest -n 2 --dist worksteal --timeout 0 $(or $(SUITES),$(INVENTING))
	$(MAKE) mutate

mutate: setup ## Make mistakes in the core modules and see whether the tests notice (MUTANTS=185 SEED=1)
	nice -n 10 $(RUN) python -m tests.mutation --sample $(or $(MUTANTS),185) --seed $(or $(SEED),1) $(MUTATE)

fix: setup ## Format, and mend what the linter can mend
	$(RUN) ruff check --fix . && $(RUN) ruff format .

bench: setup ## Measure against the peers, side by side (see benchmarks/README.md)
	$(RUN) python -m benchmarks $(BENCH)

DELTACAT := .interop/deltacat/bin/python
# deltacat's pins allow no other Python: one that runs here, else whatever uv can find or fetch.
PYTHON310 ?= $(shell for found in python3.10 $$HOME/.pyenv/versions/3.10.*/bin/python; do \
	$$found -c "" 2>/dev/null && echo $$found && exit; done; echo 3.10)

$(DELTACAT):
	$(UV) venv --quiet --python $(strip $(PYTHON310)) .interop/deltacat
	$(UV) pip install --quiet --python $@ deltacat==2.0.0.post4

interop: setup $(DELTACAT) ## Work on one catalog together with released deltacat
	LAKEROOT_DELTACAT_PYTHON=$(abspath $(DELTACAT)) $(RUN) pytest tests/interop/deltacat/check_deltacat.py tests/interop/deltacat/check_spark.py

DAFT := .interop/daft/bin/python

$(DAFT):
	$(UV) venv --quiet --python 3.11 .interop/daft
	$(UV) pip install --quiet --python $@ daft==0.7.26 'pyiceberg>=0.12'

interop-daft: setup $(DAFT) ## Read the mirror of a Lance table with released daft
	LAKEROOT_DAFT_PYTHON=$(abspath $(DAFT)) $(RUN) pytest tests/server/check_daft.py

console-shots: setup ## Open every page of the console in Chromium; pictures in artifacts/console
	$(RUN) pytest tests/console/test_browser.py
