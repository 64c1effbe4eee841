# make demo   install what is missing, run a small study on real containers, write its HTML report
# make test   install what tests need, and pass them all
SHELL := /bin/sh
.ONESHELL:
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help

VENV := .venv
SIDE_BY_SIDE := --numprocesses auto --dist loadfile
DEMO := campaigns/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: help install platforms demo test test-fast test-xen lint docs bench clean

help:  ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 14

install: $(VENV)/.installed  ## Install lastro into a virtual environment, and what a first study requires

$(VENV)/.installed: pyproject.toml constraints.txt tools/make-venv
	tools/make-venv $(VENV)
	$(VENV)/bin/lastro setup
	touch $@

platforms: $(VENV)/.platforms  ## Install what every part and the tests require: Debian packages, gVisor, vegeta, JMeter

$(VENV)/.platforms: $(VENV)/.installed
	$(VENV)/bin/lastro setup --all
	touch $@

demo: install  ## Run a small chain study on real containers (root; about four minutes)
	$(VENV)/bin/lastro run examples/demo.toml --wait --output $(DEMO)

test: platforms lint  ## Run every test (root; about an hour): those of real components one at a time, since they measure
	$(VENV)/bin/python -m pytest -m "not root" $(SIDE_BY_SIDE)
	$(VENV)/bin/python -m pytest -m root --durations 25

test-fast: install  ## Run the tests that need neither root nor minutes
	$(VENV)/bin/python -m pytest -m "not root and not slow" $(SIDE_BY_SIDE)

test-xen: platforms  ## Run guests on a Xen that runs inside QEMU (root; about five minutes)
	$(VENV)/bin/python tests/system/xen_in_qemu.py

lint: install  ## Check format, style, types
	$(VENV)/bin/ruff format --check src tests benches tools
	$(VENV)/bin/ruff check src tests benches tools
	$(VENV)/bin/mypy
# Not --quiet: it hides the warnings that --strict counts.
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --site-dir build/site

docs: install  ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

bench: platforms  ## How fast Lastro itself is, as ratios against the raw tools (root)
	$(VENV)/bin/python benches/run.py

clean: install  ## Remove what a crash of lastro left on this host (root)
	$(VENV)/bin/lastro clean
