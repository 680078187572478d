# Everything a user or CI runs. Needs Python 3.11 or newer, and make; each target sets up .venv itself the first time.
#
#   make train                        learn from zero with configs/quick.yaml
#   make train ARGS="--help"          what can be set
#   make venv PYTHON=/path/to/python  choose the interpreter

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
.PHONY: help venv train test test-all check format bench perft clean

CONFIG ?= configs/quick.yaml
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# Good enough: 3.11 or newer, and able to make a virtual environment with pip in it.
SUITABLE := import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 11))

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP)  ## create .venv and install everything (once; again when pyproject.toml or constraints.txt change)

$(STAMP): pyproject.toml constraints.txt
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	    candidates='$(or $(PYTHON),python3.11 python3.12 python3.13 python3 python)'; \
	    for candidate in $$candidates; do \
	        if "$$candidate" -c '$(SUITABLE)' >/dev/null 2>&1; then found="$$candidate"; break; fi; \
	    done; \
	    if [ -z "$${found:-}" ]; then \
	        echo "error: no Python 3.11 or newer with venv (tried: $$candidates); install one, or: make venv PYTHON=/path/to/python" >&2; \
	        exit 2; \
	    fi; \
	    echo "Creating $(VENV) with $$("$$found" --version)"; \
	    "$$found" -m venv $(VENV); \
	fi
	@echo "Installing the packages pinned in constraints.txt (a few minutes, once)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@touch $@

train: $(STAMP)  ## train from zero: CONFIG=configs/quick.yaml ARGS="..."
	$(PY) scripts/train.py --config $(CONFIG) $(ARGS)

test: $(STAMP)  ## run the tests, without the slow ones
	$(PY) -m pytest $(ARGS)

test-all: $(STAMP)  ## run all tests
	$(PY) -m pytest -m "slow or not slow" $(ARGS)

check: $(STAMP)  ## what CI runs: format, lint, types, tests
	$(PY) -m ruff format --check --quiet .
	$(PY) -m ruff check --quiet .
	$(PY) -m mypy
	$(PY) -m pytest

format: $(STAMP)  ## format the code and fix what lint can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(STAMP)  ## measure speed on this machine
	$(PY) scripts/benchmark.py $(ARGS)

perft: $(STAMP)  ## count legal sequences: ARGS="--depth 7"
	$(PY) scripts/perft.py $(ARGS)

clean:  ## delete caches and build outputs (keeps .venv and runs)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find togyz_env agents scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +
