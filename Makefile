# Everything a newcomer needs; each target sets itself up. PYTHON names the interpreter (3.11 or newer).
SHELL := /bin/sh
PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
# What is installed is what was tested: every package at its version with its hashes, ours alone from this folder.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-package hookgate
SOAK_TESTS ?= tests/races tests/e2e tests/crashes tests/outages tests/conformance tests/soak tests/newcomer \
  tests/upgrade tests/docs tests/browser/test_accessibility.py

.PHONY: help run demo test soak bench audit check format messages drawing lock

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

# A stamp is written only after everything before it worked, and names the folder: an interrupted set-up begins again,
# and so does one that was moved (scripts name their folder) or whose Python is gone.
SET_UP_IN := $(shell [ -x $(BIN)/python ] && cat .venv/installed 2>/dev/null)
ifneq "$(SET_UP_IN)" "$(CURDIR)"
.PHONY: .venv/installed
endif

.venv/installed: requirements.lock runtime/pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { echo "There is no $(PYTHON); Hookgate needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Hookgate needs Python 3.11 or newer; name one with make PYTHON=/path/to/python3.11")'
	@[ -w . ] || { echo "You may not write to $(CURDIR), where .venv must go; use a clone of your own." >&2; exit 1; }
	@if [ -e .venv-unfinished ] || { [ -e .venv/installed ] && [ "$(SET_UP_IN)" != "$(CURDIR)" ]; }; then rm -rf .venv; fi
	@echo "Setting up .venv (once, about a minute) …"
	@touch .venv-unfinished
	@"$(PYTHON)" -m venv .venv
	@$(INSTALL) --require-hashes -r requirements.lock
	@PYTHONWARNINGS=ignore $(INSTALL) --no-deps --no-build-isolation --editable ./runtime
	@printf '%s' "$(CURDIR)" > $@
	@rm -f .venv-unfinished

.venv/installed-dev: .venv/installed requirements-dev.lock
	@echo "Adding what the tests need …"
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

run: .venv/installed ## portal, worker and scheduler in one process, with a sample organization, on PORT (8000)
	@export PORT="$(PORT)"; exec $(BIN)/python -m examples run

demo: .venv/installed ## the main job from end to end without a person; exit 0 only if every step held
	@$(BIN)/python -m examples demo

test: check ## the whole suite: SQLite, then PostgreSQL + Redis + Celery
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.run

soak: .venv/installed-dev ## the long forms at full figures
	@PATH="$(CURDIR)/$(BIN):$$PATH" HOOKGATE_SOAK=1 $(BIN)/python -m tests.run -v $(SOAK_TESTS)

bench: .venv/installed-dev ## benchmarks, each beside its baseline
	@$(BIN)/python -m benchmarks.run

audit: .venv/installed-dev ## known vulnerabilities of everything that is locked
	@$(BIN)/python -m tests.audit requirements.lock requirements-dev.lock

check: .venv/installed-dev ## lint, format, types, layers, migrations, Django's checks
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lint-imports --no-logo > .lint-imports.log || { cat .lint-imports.log; exit 1; }
	@$(BIN)/python manage.py makemigrations --check --dry-run --verbosity 0
	@$(BIN)/python manage.py check --fail-level WARNING

format: .venv/installed-dev ## put the code into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

messages: .venv/installed-dev ## collect and compile translations (needs gettext)
	@$(BIN)/python manage.py makemessages --all --ignore .venv --ignore runtime --no-location
	@$(BIN)/python manage.py compilemessages --ignore .venv

drawing: .venv/installed-dev ## who imports whom, anew in docs/architecture.md
	@$(BIN)/python -m tests.imports

lock: .venv/installed-dev ## both locks anew after a change of requirements*.txt; UPGRADE=--upgrade takes the newest
	@$(LOCK) $(UPGRADE) requirements.txt --output-file requirements.lock >/dev/null
	@$(LOCK) $(UPGRADE) requirements-dev.txt --constraints requirements.lock --output-file requirements-dev.lock >/dev/null
