# `make` alone lists what there is. Every target sets up first what it needs; a second time that costs nothing.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup run test test-long fuzz check format bench soak lab clean

BIN := .venv/bin
STAMP := .venv/.tidings-setup
# Spark takes java from JAVA_HOME or PATH; hand it the one that will do (and install it if it went away since the set-up)
WITH_JAVA = JAVA_HOME=$$(scripts/setup.sh java) && export JAVA_HOME &&
ARGS ?=

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-10s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## virtual environment, packages, Java 17 if missing; leaves .venv/bin/tidings

$(STAMP): pyproject.toml lab/pyproject.toml constraints.txt scripts/setup.sh
	@scripts/setup.sh
	@touch $@

run: $(STAMP)  ## a live demonstration on posts the project makes itself
	@$(WITH_JAVA) $(BIN)/tidings demo $(ARGS)

SHARED := -n 2 --dist loadfile  # much of a test is Spark starting, which takes one core; four took no less time

test: $(STAMP)  ## the tests, without the long ones (ARGS="-k word" to choose)
	@$(WITH_JAVA) $(BIN)/python -m pytest -m "not long" $(SHARED) $(ARGS)

test-long: $(STAMP)  ## all tests, the long ones too
	@$(WITH_JAVA) $(BIN)/python -m pytest $(SHARED) $(ARGS)

fuzz: $(STAMP)  ## the tests of generated input, with examples that were not tried before
	@$(WITH_JAVA) $(BIN)/python -m pytest -m "hypothesis and not long" --hypothesis-profile fresh $(SHARED) $(ARGS)

check: $(STAMP)  ## lint, formatting and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP)  ## mend what can be mended by itself
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP)  ## the benchmarks: raw results and plots
	@$(WITH_JAVA) $(BIN)/python -m tidings_lab.bench $(ARGS)

soak: $(STAMP)  ## the stream for an hour while subscriptions come and go (ARGS="--minutes 5" for less)
	@$(WITH_JAVA) $(BIN)/python -m tidings_lab.bench --only soak $(ARGS)

lab: $(STAMP)  ## the experiments of S³-TM and their report (ARGS=--quick for minutes instead of hours)
	@$(BIN)/tidings-lab run --all $(ARGS)
	@$(BIN)/tidings-lab report --out docs/lab

clean:  ## remove caches and what Spark leaves behind (the virtual environment stays)
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
