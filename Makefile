# Everything starts here. `make` alone says what there is.
SHELL := bash
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m analysis
READY := $(VENV)/.reader
TEST_READY := $(VENV)/.tester
MINUTES ?= 60
SEED ?= 19

.DEFAULT_GOAL := help
.PHONY: help book quick full data measure trials test fuzz faults check bench pdf paper archive clean lock
.DELETE_ON_ERROR:

# Seconds that a target took on a fresh clone; the numbers stand in notebooks/make_costs.csv and nowhere else.
took = $(shell awk -F, '$$1 == "$(1)" {print "(" $$2 " s on 2 cores, fresh clone, environment made)"}' notebooks/make_costs.csv)

help:
	@echo "make book     everything a reader sees: environment, notebooks, pages in _build/html  $(call took,book)"
	@echo "make quick    the kick-the-tyres run: every notebook with small parameters            $(call took,quick)"
	@echo "make test     unit, property, pipeline and page tests; adds test tools to .venv       $(call took,test)"
	@echo "make check    claims, requirements, data, prose and the house against what is there   $(call took,check)"
	@echo "make bench    target speeds, compared with what is measured here                    $(call took,bench)"
	@echo "make fuzz     damaged files for every reader; MINUTES=60 of processor time, goes on   (counts and what breaks one: _build/fuzz)"
	@echo "make faults   a small build killed, on a full disk, read-only, as another user: what is lost  (minutes; root for some)"
	@echo "make full     every notebook with full parameters; freezes results under data/frozen  (hours, 42 CPU-hours of them for NeuroScalar's networks, five minutes with a GPU; may be stopped and resumed)"
	@echo "make data     fetch other people's datasets, pinned and verified, into data/datasets  (network)"
	@echo "make trials   install other tools live and time the way to a first prediction         (network; minutes a tool)"
	@echo "make measure  time operators on this machine's CPU, into _build/measured               (a minute or two)"
	@echo "make paper    article and artifact appendix: PDF by Typst, LaTeX in ACM's form           $(call took,paper)"
	@echo "make pdf      one PDF of the book (needs Chromium)                                    $(call took,pdf)"
	@echo "make archive  sources, results, book, PDFs, lock files and provenance in one file for a deposit"
	@echo "make lock     resolve requirements.in again (needs uv; for maintainers)"
	@echo "make clean    remove what builds wrote; the environment and data/datasets stay"

# pip's own log is kept; the terminal gets a line every twenty packages, and the end of the log when something fails.
PIP := $(VENV)/bin/pip install --disable-pip-version-check --no-input --progress-bar off --require-hashes
install = set -o pipefail; $(PIP) $(1) 2>&1 | tee $(VENV)/install.log | awk '/^(Collecting|Requirement already)/ {if (++n % 20 == 0) print "  " n " packages found"} \
	/^Installing/ {print "  installing (a minute or two)"} {fflush()}' || { tail -n 5 $(VENV)/install.log >&2; echo "error: the whole log is $(VENV)/install.log" >&2; exit 1; }

# The environment: pip alone, hash-locked, renewed when the lock changes. PYTHON=... picks another interpreter (3.11 or newer).
$(READY): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "error: Python 3.11 or newer is needed; found " + sys.version.split()[0] + " (PYTHON=... picks another)")'
	@echo "creating the environment in $(VENV) (about 1.2 GB, needs the network, once)"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(call install,-r requirements.txt)
	@touch $@

$(TEST_READY): $(READY) requirements-dev.txt
	@$(call install,-r requirements.txt -r requirements-dev.txt)
	@touch $@

book: $(READY)
	@$(RUN) book

quick: $(READY)
	@$(RUN) build --tier quick

full: $(READY)
	@$(RUN) build --tier full

data: $(READY)
	@$(RUN) data fetch

trials: $(READY)
	@$(RUN) trials

measure: $(READY)
	@$(RUN) measure --suite quick --out _build/measured

check: $(TEST_READY)
	@$(RUN) claims check --brief
	@PYTHONPATH=. $(VENV)/bin/python -m tests.composition.questions
	@$(VENV)/bin/python -m pytest tests/checks

fuzz: $(TEST_READY)
	@PYTHONPATH=.:tests $(VENV)/bin/python -m tests.fuzz.run --minutes $(MINUTES) --seed $(SEED) --out _build/fuzz/counts.csv

faults: $(TEST_READY)
	@PYTHONPATH=.:tests $(VENV)/bin/python -m tests.faults

bench: $(READY)
	@PYTHONPATH=. $(VENV)/bin/python -m tests.bench

test: $(TEST_READY)
	@$(VENV)/bin/ruff check analysis tests notebooks
	@mkdir -p _build; $(VENV)/bin/mypy analysis >_build/types.txt 2>&1 & $(VENV)/bin/python -m pytest -n 2 --dist loadgroup --ignore=tests/checks; \
	tested=$$?; wait $$!; typed=$$?; cat _build/types.txt; exit $$((tested | typed))

pdf: book
	@$(RUN) pdf

paper: book
	@$(RUN) paper

archive: paper
	@$(RUN) archive

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url requirements.in -o requirements.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url requirements-dev.in -o requirements-dev.txt
	$(VENV)/bin/python -m tests.checks.environment dates
	$(VENV)/bin/python -m tests.checks.environment write

clean:
	@rm -rf _build data/results book/figures book/tables book/notebooks
