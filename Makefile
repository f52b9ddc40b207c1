# Two commands: `make demo` and `make test`. Both do all the set-up they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test clean

demo: $(VENV)/.core
	@$(VENV)/bin/pcer audit examples --html demo-report.html

test: $(VENV)/.dev
	@scripts/check

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) install --constraint constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
