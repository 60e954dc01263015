# Every target works alone, from a clean clone: it makes .venv and installs what it needs, once.
# Needs Python 3.11 or later, make, and for bench a C compiler called cc.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help run test test-all lint bench docs clean

help:
	@echo "make run       simulate a double pendulum beside a wall; picture in out/"
	@echo "make test      the tests, without the slow ones"
	@echo "make test-all  all tests"
	@echo "make lint      ruff, types (of a script that uses carom too) and the layers of the house"
	@echo "make bench     speed against C, SciPy and, where installed, Siconos; work against error"
	@echo "make docs      the documentation as a site: out/docs/index.html"
	@echo "make clean     remove what these made, .venv included"

run: $(VENV)/.with-carom
	@echo "simulating with two schemes (the first run of a system compiles it: some seconds)"
	@$(BIN)/python examples/double_pendulum_wall.py out

test: $(VENV)/.with-test
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(VENV)/.with-test
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.with-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyright tests/house/user_script.py
	MYPYPATH=src $(BIN)/mypy --strict --follow-imports=silent tests/house/user_script.py
	$(BIN)/lint-imports

bench: $(VENV)/.with-bench
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/spheres.py
	$(BIN)/python benchmarks/spheres_dt.py
	$(BIN)/python benchmarks/study.py
	$(BIN)/carom bench --quick
	$(BIN)/python benchmarks/bar.py

# What is generated from the code is made anew; pages of the gallery whose script is the same are kept.
docs: $(VENV)/.with-docs
	rm -rf docs/api/generated
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html docs out/docs
	@echo "the site: out/docs/index.html"

clean:
	rm -rf docs/gallery docs/api/generated docs/_build docs/sg_execution_times.rst
	rm -rf $(VENV) out build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "carom needs Python 3.11 or later: make PYTHON=/path/to/python ..."; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.with-carom: pyproject.toml | $(VENV)/.made
	@echo "installing carom and what it needs (some minutes the first time)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.with-%: pyproject.toml | $(VENV)/.made
	@echo "installing carom[$*] and what it needs (some minutes the first time)"
	@$(INSTALL) -e '.[$*]'
	@touch $@
