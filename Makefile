# Each target creates what it needs, starting from a fresh clone and a Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Installed before everything else, so that no CUDA libraries come along.
TORCH := torch==2.13.0
PYTEST_WORKERS ?= 2
# Tests start hundreds of processes, each of which would compile 700 modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint format unit check acceptance bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Tilesmith needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[onnx,demo]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	$(BIN)/python -m pip install --quiet --editable '.[dev,onnx]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## compile the digits model, classify held-out digits, compare with onnxruntime
	$(BIN)/python examples/digits/demo.py

test: lint unit ## everything that has to pass: style, floors, all tests, the acceptance programs

lint: $(VENV)/.dev ## ruff (check and format), the contracts between the floors, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/check_types.py

unit: $(VENV)/.dev ## all tests and the acceptance programs
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal tests

check: $(VENV)/.dev ## all tests, with every compile checked pass by pass; the end says what was compared
	TILESMITH_CHECK=1 $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal tests

acceptance: $(VENV)/.dev ## only the acceptance programs
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal tests/acceptance

format: $(VENV)/.dev ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## latency of whole networks against rivals (benchmarks/README.md)
	$(BIN)/python -m benchmarks.run models

clean: ## remove the virtual environment and everything generated
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache benchmarks/out
	rm -f examples/digits/predictions.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
