# make demo   install what is missing, run a small study on real containers, write its HTML report
# make test   install what tests need, and pass them all
SHELL := /bin/sh
.ONESHELL:
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help

# What a study on native, runc and docker needs; and what the tests of every other platform need besides.
PACKAGES := apparmor ca-certificates debian-archive-keyring docker.io ethtool gpg iperf3 iproute2 iptables iputils-ping make mmdebstrap nftables python3-venv runc stress-ng
TEST_PACKAGES := btrfs-progs busybox-static cpio crun curl default-jre-headless fish fuse-overlayfs gcc libc6-dev libgmp-dev lxc lxd man-db maven openssh-server openvswitch-switch podman qemu-system-x86 qemu-utils systemd-container zsh
VENV := .venv
SIDE_BY_SIDE := --numprocesses auto --dist loadfile
DEMO := campaigns/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: help install platforms demo test test-fast test-xen lint docs bench shell-files clean

help:  ## Show what can be made
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 14

install: $(VENV)/.installed  ## Install Debian packages and the virtual environment with lastro

$(VENV)/.installed: pyproject.toml constraints.txt tools/install-packages
	tools/install-packages $(PACKAGES)
	tools/make-venv $(VENV)
	touch $@

platforms: $(VENV)/.platforms  ## Install what every other part needs: Debian packages, JMeter, and by Go gVisor, vegeta

$(VENV)/.platforms: $(VENV)/.installed tools/install-packages tools/build-gvisor tools/build-vegeta tools/fetch-jmeter
	tools/install-packages $(TEST_PACKAGES)
	tools/build-gvisor
	tools/build-vegeta
	tools/fetch-jmeter
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

shell-files: install  ## Write the completion scripts and the manual page from the commands' help
	$(VENV)/bin/python tools/shell_files.py

clean: install  ## Remove what a crash of lastro left on this host (root)
	$(VENV)/bin/lastro clean
