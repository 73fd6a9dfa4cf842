# Two commands on a fresh machine: make demo, make test. They need Python >= 3.11, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test test-full lint bench bench-peers conformance docs console packages clean

setup: $(STAMP)

$(STAMP): constraints.txt pyproject.toml
	$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

packages:
	sh scripts/debian_packages.sh

demo: setup packages
	$(BIN)/python scripts/demo.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python

test: setup packages console lint
	$(BIN)/python -m mkdocs build --strict -q -d $$(mktemp -d)
	$(BIN)/python scripts/run_tests.py

test-full: setup packages console
	$(BIN)/python scripts/run_tests.py --full

bench: setup
	$(BIN)/python bench/run.py

bench-peers: setup
	$(BIN)/python bench/peers.py $(PEERS)

conformance: setup
	$(BIN)/python scripts/conformance.py

docs: setup
	$(BIN)/python -m mkdocs build --strict

console: setup
	sh scripts/console.sh

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis
