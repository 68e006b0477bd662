# Every target creates .venv by itself. Override PYTHON to choose the interpreter.
PYTHON ?= python3
# The first fit loads thousands of files of torch: compiled once, they are there in a second.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
INSTALLED := .venv/.installed
ALONE := .venv-alone/.installed
ECOSYSTEM := .venv-ecosystem/.installed
LAPLACE := laplace-torch asdfghjkl backpack-for-pytorch curvlinops-for-pytorch

.PHONY: demo test alone ecosystem versions bench bench-scale report docs check format clean

demo: $(INSTALLED)  ## the main job, on generated and bundled data
	$(BIN)/actgp demo

test: $(INSTALLED)  ## all tests, of the library and of the experiments
	$(BIN)/pytest -n auto

alone: $(ALONE)  ## the library without its extras and without the experiments, installed as users install it
	.venv-alone/bin/python tests/alone.py

ecosystem: $(ECOSYSTEM)  ## the library with the packages that docs/ecosystem.md names, in an environment of its own
	@# Warnings of theirs, and shapes in signatures, are for the development environment to look at.
	.venv-ecosystem/bin/python -m pytest -q --override-ini=addopts= --override-ini=filterwarnings=default tests/ecosystem

versions: $(INSTALLED)  ## the distributions, and the library beside the oldest and newest releases it supports; gigabytes
	$(BIN)/nox

bench: $(INSTALLED)  ## what a step and a prediction cost, beside the peers; fails above 1/5 of GPyTorch's step; some ten minutes
	$(BIN)/python -m benchmarks

bench-scale: $(INSTALLED)  ## 1e4 to 1e7 generated rows, and strong scaling; many hours, and 4 GB of files; resumable
	$(BIN)/python -m benchmarks.scale

report: $(INSTALLED)  ## docs/uci, from what is in results/
	$(BIN)/actgp report results/uci.jsonl --html docs/uci/report.html --markdown docs/uci/report.md \
		$(if $(wildcard results/ablation.jsonl),--ablation results/ablation.jsonl) \
		$(if $(wildcard results/uci_splits.jsonl),--splits results/uci_splits.jsonl) \
		--banana results/banana.jsonl --images results/images.jsonl --commentary docs/uci/commentary.txt

docs: $(INSTALLED)  ## the documentation site, in site/: open site/index.html; a warning or a broken link is an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going -q -c docs . site
	@echo site/index.html

check: $(INSTALLED)  ## what CI runs: format, lint, types, tests, the library alone
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(MAKE) test
	$(MAKE) alone

format: $(INSTALLED)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(INSTALLED): pyproject.toml experiments/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]' --editable 'experiments[dask,laplace,vbll]'
	@# These ask for torchvision, use none of it here, and would bring one that does not fit a CPU build of torch.
	$(BIN)/pip install --quiet --constraint constraints.txt --no-compile --no-deps $(LAPLACE)
	touch $@

$(ALONE): pyproject.toml constraints.txt $(shell find src -name '*.py')
	$(PYTHON) -m venv .venv-alone
	.venv-alone/bin/pip install --quiet --no-compile --constraint constraints.txt .
	touch $@

$(ECOSYSTEM): pyproject.toml tests/ecosystem/requirements.txt constraints.txt
	$(PYTHON) -m venv .venv-ecosystem
	.venv-ecosystem/bin/pip install --quiet --no-compile --constraint constraints.txt \
		--requirement tests/ecosystem/requirements.txt --editable .
	touch $@

clean:
	rm -rf .venv .venv-alone .venv-ecosystem .nox site .mypy_cache .ruff_cache .pytest_cache .hypothesis
