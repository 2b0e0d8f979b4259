.PHONY: help demo test quick chaos docs fleet-test install-test arm-test bench setup-flower check clean setup-demo setup-test setup-arm setup-fleet
BIN := .venv/bin

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16

demo: setup-demo  ## a federation of four boards on this machine, from nothing to a trained model
	$(BIN)/fl-server lab examples/demo.toml --boards 4

test: check  ## every check and every test
	$(BIN)/pytest

quick: setup-test  ## the fast tests
	$(BIN)/pytest -m "not slow"

bench: setup-test setup-flower  ## how close to the hardware, bare MQTT and Flower; at most 20 minutes on a quiet machine
	$(BIN)/python -m bench

chaos: setup-test  ## 200 faults of all kinds over several runs; every run must end with the same bits
	$(BIN)/python -m tests.chaos

fleet-test: setup-fleet  ## the playbooks on four machines made for it (root, up to 15 minutes)
	timeout 900 $(BIN)/python -m tests.fleet

install-test: setup-fleet  ## install.sh on machines made for it (root, about 5 minutes)
	timeout 900 $(BIN)/python -m tests.fleet.installer

arm-test: setup-arm  ## emulated Raspberry Pi 4 and Jetson Nano: installer, doctor, runs (root, up to an hour)
	timeout 3600 $(BIN)/python -m tests.arm

docs: setup-test  ## write the tables of settings, options and studies in docs/ anew
	$(BIN)/python -m common.experiment.option_tables docs/experiment.md docs/algorithms.md
	$(BIN)/python -m fl_server.studies.pages docs

check: setup-test  ## format, lint, types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

clean:  ## remove the environment and all caches; runs/ stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Flower wants other versions than ours, so it gets a folder of its own; without it what is compared with it is left out.
setup-flower: setup-test
	@test -d .venv/flower/ray || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--target .venv/flower -r bench/flower.txt || echo "bench: flwr could not be installed; what is compared with Flower is left out" >&2

setup-demo:
	@scripts/setup.sh demo

setup-test:
	@scripts/setup.sh test

setup-arm:
	@scripts/setup.sh arm

setup-fleet:
	@scripts/setup.sh fleet
