# Every target creates .venv by itself. Override PYTHON to choose the interpreter.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test check format clean

demo: $(INSTALLED)  ## the main job, on generated and bundled data
	$(BIN)/actgp demo

test: $(INSTALLED)  ## all tests
	$(BIN)/pytest -n auto

check: $(INSTALLED)  ## what CI runs: format, lint, types, tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(MAKE) test

format: $(INSTALLED)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
