# Everything a user or a developer runs. Needs git, make and Python 3.11 or newer; each target sets up what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
TARGET ?= demo

.PHONY: setup demo console test check bench soak test-engine record screenshots docs clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "eagle3-console needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "setting up $(VENV) with $(PYTHON); once, a minute or two"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/eagle3-console demo

console: setup
	@$(BIN)/eagle3-console $(TARGET)

test: setup
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not soak and not realengine' $(PYTEST_ARGS)

check: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: setup
	@$(BIN)/python -m tests.bench $(BENCH_ARGS)

soak: setup
	@$(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

test-engine: setup
	@tests/engine/real/run $(ENGINE_ARGS)

record: setup
	@$(BIN)/python -m tests.ui.record

screenshots: setup
	@$(BIN)/python -m tests.ui.pictures
	@$(BIN)/python -m tests.link.serve_picture

docs: setup
	@$(BIN)/python -m console.reference

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
