# `make demo` to see it, `make check` while you work, `make test` before you show it, `make test-more`
# for what takes longer, `make docs` to read it as a site, `make wheel` and `make wheelhouse` to install
# it elsewhere, the second without a network. Each does all the set-up it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

.PHONY: demo check test test-more docs wheel wheelhouse clean

demo: $(VENV)/.train
	@$(VENV)/bin/pcer demo --out pcer-demo

check: $(VENV)/.dev
	@scripts/check changed

test: $(VENV)/.dev
	@scripts/check

test-more: $(VENV)/.dev
	@$(VENV)/bin/python -m pytest -m "slow and not gpu"

docs: $(VENV)/.docs
	@$(VENV)/bin/python -m sphinx -W --keep-going --quiet --jobs 2 --conf-dir docs . docs/_build/html
	@echo "open docs/_build/html/index.html"

wheel:
	@PYTHON=$(PYTHON) scripts/wheels dist

wheelhouse: # for this system and Python; the auditor's half and scikit-learn's
	@PYTHON=$(PYTHON) scripts/wheels wheelhouse sklearn

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

# torch goes first and by its pin, so that nothing that depends on it can choose another build.
$(VENV)/.torch: $(VENV)/bin/python constraints.txt
	$(PIP) install --constraint constraints.txt "$$(grep '^torch==' constraints.txt)"
	@touch $@

$(VENV)/.train: $(VENV)/.core $(VENV)/.torch
	$(PIP) install --constraint constraints.txt --editable ".[train]"
	@touch $@

$(VENV)/.docs: $(VENV)/.train studies/pyproject.toml
	$(PIP) install --constraint constraints.txt --editable ".[docs]" --editable ./studies
	@touch $@

$(VENV)/.dev: $(VENV)/.train studies/pyproject.toml
	$(PIP) install --constraint constraints.txt --editable ".[dev]" --editable ./studies
	@touch $@

clean:
	rm -rf $(VENV) wheelhouse docs/_build docs/generated .mypy_cache .pytest_cache .ruff_cache .hypothesis
