# `make` lists the targets. Every target installs what it needs first; the second time that costs nothing.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup run test test-data test-long test-wheel fuzz coverage check format docs bench soak lab clean

BIN := .venv/bin
STAMP := .venv/.tidings-setup
TESTS_STAMP := .venv/.tidings-tests
# Spark takes Java from JAVA_HOME. setup.sh prints a suitable one and installs it if it is missing.
WITH_JAVA = JAVA_HOME=$$(scripts/setup.sh java) && export JAVA_HOME &&
PYTEST = $(WITH_JAVA) $(BIN)/python -m pytest
# Three processes on two cores: tests often wait, for example for Java to start.
PARALLEL := -n 3 --dist worksteal
ARGS ?=

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-10s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## create .venv with all packages; install Java 17 if it is missing

$(STAMP): pyproject.toml lab/pyproject.toml constraints.txt scripts/setup.sh
	@scripts/setup.sh
	@touch $@

$(TESTS_STAMP): $(STAMP)
	@scripts/setup.sh tests
	@touch $@

run: $(STAMP)  ## run a live demonstration on generated posts
	@$(WITH_JAVA) $(BIN)/tidings demo $(ARGS)

test: $(TESTS_STAMP)  ## run the tests (ARGS="-k word" selects some)
	@$(PYTEST) -m "not long and not wheel" --durations=20 $(PARALLEL) $(ARGS)

test-data: $(TESTS_STAMP)  ## run only the tests that use the real data in ../shared
	@$(PYTEST) -m "real_data and not long" $(PARALLEL) $(ARGS)

test-long: $(TESTS_STAMP)  ## run all tests, including the long ones
	@$(PYTEST) -m "not wheel" --hypothesis-profile full --durations=20 $(PARALLEL) $(ARGS)

test-wheel: $(STAMP)  ## build the wheel, install it into an empty environment and run the commands
	@$(PYTEST) -m wheel $(ARGS)

fuzz: $(TESTS_STAMP)  ## run the generated tests with examples that were never tried before
	@$(PYTEST) -m "hypothesis and not long" --hypothesis-profile fresh $(PARALLEL) $(ARGS)

coverage: $(TESTS_STAMP)  ## measure the code coverage of `make test`
	@$(PYTEST) -m "not long and not wheel" --cov --cov-report=term $(PARALLEL) $(ARGS)

check: $(STAMP)  ## lint, formatting, types, package layers, generated docs
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tidings.cli.reference --check docs/cli.md

format: $(STAMP)  ## apply automatic fixes and formatting
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(STAMP)  ## generate docs/cli.md from the commands
	@$(BIN)/python -m tidings.cli.reference > docs/cli.md

bench: $(STAMP)  ## run the benchmarks; store raw results and draw figures
	@$(WITH_JAVA) $(BIN)/tidings-lab bench $(ARGS)

soak: $(STAMP)  ## run the stream for an hour while subscriptions change (ARGS="--minutes 5" for less)
	@$(WITH_JAVA) $(BIN)/tidings-lab soak $(ARGS)

lab: $(STAMP)  ## run the experiments of the papers and write the report (ARGS=--quick takes minutes)
	@$(WITH_JAVA) $(BIN)/tidings-lab run --all $(ARGS)
	@$(BIN)/tidings-lab report --out docs/lab

clean:  ## delete caches and files that Spark leaves behind (.venv stays)
	@rm -rf build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	@find src lab tests -name __pycache__ -type d -prune -exec rm -rf {} +
