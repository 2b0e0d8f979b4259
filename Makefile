.PHONY: help demo test quick chaos fleet-test check clean setup-demo setup-test
BIN := .venv/bin

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16

demo: setup-demo  ## a federation of four boards on this machine, from nothing to a trained model
	$(BIN)/fl-server lab examples/demo.toml --boards 4

test: check  ## every check and every test
	$(BIN)/pytest

quick: setup-test  ## the tests that take less than a minute together
	$(BIN)/pytest -m "not slow"

chaos: setup-test  ## 200 faults of all kinds over several runs; every run must end with the same bits
	$(BIN)/python -m tests.chaos

fleet-test: setup-test  ## the playbooks on four machines made for it (root, up to 15 minutes)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[fleet]"
	timeout 900 $(BIN)/python -m tests.fleet

check: setup-test  ## format, lint, types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

clean:  ## remove the environment and all caches; runs/ stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup-demo:
	@scripts/setup.sh demo

setup-test:
	@scripts/setup.sh test
