# Everything works on a fresh clone with Python >= 3.11 (with pip and venv) and make: each target sets up what it needs.
# An environment is built once, and again when pyproject.toml changes.

PYTHON ?= python3
MODEL  ?=
LOOP   ?=

DEMO := .venv-demo/bin/python
TEST := .venv-test/bin/python
PIP  := -m pip install -qq --disable-pip-version-check
LOUD_PIP := -m pip install --disable-pip-version-check --progress-bar off
# What is shown of pip's own lines: the packages while they come, and everything from an error on.
SHOWN := /^Collecting / { print "      " $$2; fflush(); next } \
  /^Installing collected/ { print "      installing them all ..."; fflush(); next } \
  /^ERROR|^error/ { bad = 1 } bad && !/^FAILED$$/ { print > "/dev/stderr" } \
  /^FAILED$$/ { failed = 1 } END { exit failed }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help
help:  ## Show this list
	@echo "forbear: a deterministic recovery controller for AI agents' tool calls"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'
	@$(foreach name,$(BY_HAND),printf '%-18s %s\n' '  make $(name)' 'Run python -m tests.$(name); the figures go into the docs';)
	@echo
	@echo "PYTHON=python3.12 chooses the Python that environments are built with."

# --- the product -------------------------------------------------------------------------------------------------

.PHONY: demo
demo: .venv-demo/.stamp  ## Run the paper-trading desk (MODEL=name: a real model instead of the scripted ones; LOOP=openai-chat: no framework)
	@$(DEMO) -m examples.paper_trading $(if $(MODEL),--model $(MODEL)) $(if $(LOOP),--loop $(LOOP))

# --- checks ------------------------------------------------------------------------------------------------------

.PHONY: test
test: check unit  ## Run everything that must pass before a merge: check, then unit

.PHONY: check
check: .venv-test/.stamp  ## Check without running: lint, format, types (mypy and pyright), imports
	@echo "== ruff check";        $(TEST) -m ruff check .
	@echo "== ruff format";       $(TEST) -m ruff format --check .
	@echo "== mypy";              $(TEST) -m mypy
	@echo "== pyright";           $(TEST) -m pyright --pythonpath $(TEST)
	@echo "== import contracts";  .venv-test/bin/lint-imports --no-logo

# What proves the core: run by itself, so that its coverage is measured without slowing everything else.
CORE_TESTS := tests/model tests/unit/core tests/golden

.PHONY: unit
unit: .venv-test/.stamp  ## Run the tests; every branch of the core must be covered (ARGS="-k name" runs only those)
ifdef ARGS
	@echo "== pytest";            $(TEST) -m pytest -q $(ARGS)
else
	@echo "== pytest, the core";  $(TEST) -m coverage run -m pytest -q $(CORE_TESTS)
	@$(TEST) -m coverage report --include='controller/forbear/core/*' --fail-under=100
	@echo "== pytest, the rest";  $(TEST) -m pytest -q -n 2 --dist loadfile $(addprefix --ignore=,$(CORE_TESTS))
endif

.PHONY: format
format: .venv-test/.stamp  ## Format the code and repair what ruff can repair
	@$(TEST) -m ruff check --fix . ; $(TEST) -m ruff format .

# --- by hand -----------------------------------------------------------------------------------------------------

# Those of these that exist: tests/bench, tests/fuzz, tests/mutants, tests/soak.
BY_HAND := $(foreach name,bench fuzz mutants soak,$(if $(wildcard tests/$(name)/__main__.py tests/$(name).py),$(name)))

.PHONY: $(BY_HAND)
$(BY_HAND): .venv-test/.stamp
	@$(TEST) -m tests.$@ $(ARGS)

.PHONY: wheel
wheel: .venv-test/.stamp .venv-wheel/.stamp  ## Build the wheel and run the tests against it
	@rm -rf dist
	@echo "== build";             $(TEST) -m pip wheel -qq --no-deps --wheel-dir dist .
	@.venv-wheel/bin/python $(PIP) --force-reinstall --no-deps dist/forbear-*.whl
	@echo "== pytest on wheel";   .venv-wheel/bin/python -m pytest -q $(ARGS)

.PHONY: compat compat-lowest compat-frameworks
compat: compat-lowest compat-frameworks  ## Run the tests with the lowest supported versions, and govern in sixteen libraries

compat-lowest: .venv-compat/.stamp
	@echo "== pytest, lowest";    .venv-compat/bin/python -m pytest -q $(ARGS)

# Each library in an environment of its own, two at a time; writes the table of docs/reference/compat.md.
compat-frameworks: .venv-uv/.stamp
	@echo "== govern in libraries"; UV=.venv-uv/bin/uv PYTHON=.venv-uv/bin/python .venv-uv/bin/python -m tests.compat $(LIBRARIES)

.PHONY: clean
clean:  ## Remove environments, caches and reports
	rm -rf .venv-demo .venv-test .venv-wheel .venv-compat .venv-uv .venv-frameworks dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .mutants .demo
	rm -f .coverage .coverage.*

# --- environments ------------------------------------------------------------------------------------------------

.venv-demo/.stamp: WHAT := --editable '.[demo]'
.venv-test/.stamp: WHAT := --group dev --editable .
.venv-wheel/.stamp: WHAT := --group test .
.venv-compat/.stamp: WHAT := --group compat
.venv-uv/.stamp: WHAT := --group compat
.venv-compat/.stamp: AND_THEN := .venv-compat/bin/uv pip install --quiet --python .venv-compat/bin/python \
  --resolution lowest-direct --group test --group clients --editable '.[all,demo]'

.venv-%/.stamp: pyproject.toml
	@echo "Building the environment .venv-$* (once, and again when pyproject.toml changes):"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "forbear needs Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	@rm -rf .venv-$*
	@echo "  1/3 an empty environment ..."
	@$(PYTHON) -m venv .venv-$* \
	  || { echo "$(PYTHON) cannot build environments; install its venv module (Debian: python3-venv)" >&2; exit 1; }
	@echo "  2/3 pip ..."
	@.venv-$*/bin/python $(PIP) 'pip>=25.1'
	@echo "  3/3 packages, a line each (one to three minutes) ..."
	@{ .venv-$*/bin/python $(LOUD_PIP) $(WHAT) 2>&1 || echo FAILED; } | awk '$(SHOWN)'
	@$(AND_THEN)
	@touch $@
