# make demo   install what is missing, run a small study on real containers, write its HTML report
# make test   install what tests need, and pass them all
SHELL := /bin/sh
.ONESHELL:
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help

# What is imported is compiled once, even where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
# More workers than processors: tests wait for daemons and machines as often as they compute.
WORKERS := $(shell expr $$(nproc) + 2)
PYTEST := $(VENV)/bin/python -m pytest
SIDE_BY_SIDE := --tx '$(WORKERS)*popen//python=tests/own-machine' --dist loadscope --no-loadscope-reorder --durations 50
# Exit code 10: at most five failed that others may have disturbed (tests/conftest.py). Each must pass alone.
AGAIN := { [ $$? -eq 10 ] || exit 1; $(PYTEST) --last-failed --last-failed-no-failures none; }
DEMO := campaigns/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: help install host platforms images demo test measuring computing compiled side-by-side test-fast test-all lint docs bench manual clean

help:  ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 14

install: $(VENV)/.installed  ## Install lastro into a virtual environment, and what a first study requires

# If this host's Python is new enough, the host's packages and image are made while libraries are installed. The image
# needs only what the platform native does: it is built while Docker is installed.
$(VENV)/.installed: pyproject.toml requirements/run.txt requirements/build.txt
	+@$(MAKE) --no-print-directory --jobs 2 $(VENV)/.run host
	touch $@

PYTHON := $(shell python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo python3)
host: $(if $(PYTHON),,$(VENV)/.run)
	@export PYTHONPATH=src
	python=$(or $(PYTHON),$(VENV)/bin/python)
	$$python -m lastro setup native
	image=
	if [ "$$(id -u)" -eq 0 ]; then
		tools/timed "root filesystem" $$python -m lastro image --wait >/dev/null &
		image=$$!
	fi
	code=0
	$$python -m lastro setup || code=$$?
	[ -z "$$image" ] || wait $$image
	exit $$code

$(VENV)/.python: pyproject.toml requirements/run.txt requirements/build.txt tools/make-venv
	@tools/timed "virtual environment" tools/make-venv $(VENV)
	touch $@

# pip need not compile what nobody imports.
$(VENV)/.run: export PIP_NO_COMPILE := 1
$(VENV)/.run: $(VENV)/.python tools/install-locked
	@tools/timed "Lastro and its libraries" tools/install-locked $(VENV) run --editable
	touch $@

$(VENV)/.made: export PIP_NO_COMPILE := 1
$(VENV)/.made: $(VENV)/.run requirements/dev.txt
	@tools/timed "libraries of the tests" tools/install-locked $(VENV) dev
	touch $@

platforms: $(VENV)/.platforms  ## Install what every part and the tests require: Debian packages, gVisor, vegeta, JMeter

# `lastro setup` needs Python alone, so Debian packages come while pip installs libraries.
$(VENV)/.packages: export PYTHONPATH := src
$(VENV)/.packages: $(VENV)/.python
	$(VENV)/bin/python -m lastro setup --all --packages
	touch $@

$(VENV)/.platforms: $(VENV)/.packages $(VENV)/.made
	$(VENV)/bin/lastro setup --all
	touch $(VENV)/.installed $@

images: $(VENV)/.packages $(VENV)/.made  ## Build the images that tests need (root; about two minutes, once)
	$(VENV)/bin/python -m tests.support.images

demo: install  ## Run a small study of a noisy neighbour on real containers (root; under four minutes)
	$(VENV)/bin/lastro run demo --wait --output $(DEMO)

# The processors are busy with other tests: threads of linear algebra would mostly wait for each other.
test test-fast test-all: export OPENBLAS_NUM_THREADS := 1

test:  ## Run the tests: every kind of check, with a real case of each (root; about 16 minutes)
	+$(MAKE) --no-print-directory --jobs 4 side-by-side lint computing
	$(MAKE) --no-print-directory measuring

MEASURING := $(shell grep -l 'mark\.measures' tests/*/*.py)

measuring: $(VENV)/.made
	$(PYTEST) $(MEASURING) -m "measures and not slow" --durations 10

# Each worker reads every module that it is given, so modules whose tests only compute are not for them.
WAITING := tests/cli tests/contract tests/crash tests/system \
	$(shell grep -lE 'mark\.(root|processes|measures)' tests/known/*.py tests/unit/*.py tests/unit/*/*.py)

# What needs Python alone is tested while packages are fetched, images are built, and other tests wait: with the least
# priority, since what waits for a processor ends last, and may miss its time.
computing: lint compiled
	nice -n 19 $(PYTEST) tests/unit tests/known -m "computes and not slow" -p no:cacheprovider --numprocesses $$(nproc) --dist loadfile --durations 20

# What pytest compiles of each module, one process compiles for all workers, beside the checks of types.
compiled: $(VENV)/.made
	@$(PYTEST) --collect-only -qq -p no:cacheprovider >$(VENV)/collected 2>&1 || { cat $(VENV)/collected; exit 1; }

side-by-side: platforms images compiled
	$(PYTEST) $(WAITING) -m "not computes and not slow and not measures" $(SIDE_BY_SIDE) || $(AGAIN)

test-fast: install  ## Run the tests of single modules and of the statistics (no root; under 90 seconds)
	$(PYTEST) tests/unit tests/known -m "not root and not slow" --numprocesses auto --dist loadfile

test-all: platforms  ## Run all tests, those too that are long by nature (root; more than an hour)
	+$(MAKE) --no-print-directory --jobs 3 --output-sync lint platforms images
	$(VENV)/bin/python -m tests.support.images --slow
	$(PYTEST) -m "not measures" $(SIDE_BY_SIDE) || $(AGAIN)
	$(PYTEST) $(MEASURING) -m measures --durations 10
	$(VENV)/bin/python tests/system/xen_in_qemu.py

lint: $(VENV)/.made  ## Check format, style, types
	$(VENV)/bin/ruff format --check src tests benches tools
	$(VENV)/bin/ruff check src tests benches tools
	$(VENV)/bin/mypy
# Not --quiet: it hides the warnings that --strict counts.
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --site-dir build/site

docs: install  ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

bench: platforms  ## How fast Lastro itself is, as ratios against the raw tools (root)
	$(VENV)/bin/python benches/run.py

manual: install  ## Write the manual page from the commands' help
	$(VENV)/bin/python tools/manual_page.py

clean: install  ## Remove what a crash of lastro left on this host (root)
	$(VENV)/bin/lastro clean
