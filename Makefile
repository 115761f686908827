# Everything lives in .venv, which is brought up to date only when what it is made from has changed.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Two workers fill two cores: more threads would only get into each other's way. Memory that was
# freed is kept, since tensors of the same sizes come and go.
TESTING := OMP_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=2147483648

.PHONY: help lab quick test torture check house types findings docs notebooks dashboard screens bench

help:
	@echo "make lab        train four languages and look inside each network"
	@echo "make dashboard  look at the runs in the browser"
	@echo "make quick      tests of every room, in a minute or so"
	@echo "make test       all tests; of many like cases one in two"
	@echo "make torture    kill, fill the disk, feed nonsense: every case, for an hour"
	@echo "make check      lint, format, types, no import circle, no broken link in the pages"
	@echo "make docs       the pages as a site, in docs/site"
	@echo "make notebooks  run the notebooks anew and keep their output"
	@echo "make screens    pictures of the dashboard for the pages, from the runs of make lab"
	@echo "make bench      how fast, against named peers, and what got slower"
	@echo
	@echo "PYTHON=python3.12 make ... chooses the interpreter (3.11 or newer)"

lab: $(INSTALLED)
	$(BIN)/lab demo

quick: $(INSTALLED)  # a break in any room shows here; what is slow is left to `make test`
	$(TESTING) $(BIN)/pytest --quick -n 2 --dist worksteal

test: $(INSTALLED)
	$(TESTING) $(BIN)/pytest -n 2 --dist worksteal

torture: $(INSTALLED)  # `make test` runs a small part of it
	$(TESTING) $(BIN)/pytest tests/torture tests/analyses/test_eight_corpora.py --full -n 2 --dist worksteal
	$(TESTING) $(BIN)/pytest -m "torture or sampled" --full -n 2 --dist worksteal

check: $(INSTALLED)  # lint, format, types, floors of the house, figures and links of the pages
	$(MAKE) -j2 --output-sync=target types findings docs house

house: $(INSTALLED)  # it needs no model; and it says how much code there is
	$(BIN)/pytest -qs --noconftest -o addopts= tests/house/test_floors.py tests/house/test_size.py

types: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

findings: $(INSTALLED)
	$(BIN)/lab report --check

docs: $(INSTALLED)  # a broken link or anchor fails; nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/mkdocs.yml

notebooks: $(INSTALLED)  # the tests compare what they keep with what they say now
	OMP_NUM_THREADS=1 $(BIN)/python docs/notebooks/run.py

dashboard: $(INSTALLED)
	$(BIN)/lab dashboard

screens: $(INSTALLED)  # the pictures of docs/pages/screens, from the runs of `lab demo`
	$(BIN)/python docs/screenshots.py runs

bench: $(INSTALLED)
	$(BIN)/python -m tests.benchmarks

# The stamp is written last: an installation that broke off is done again. uv installs in a third of
# pip's time. torch is left to pip, which also finds builds that lie on the disk, and so is all else
# where uv does not reach the index. Python is compiled now, as pip does too: the first command would
# wait for it.
export UV_COMPILE_BYTECODE ?= 1
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/pip install torch uv -c constraints.txt
	$(BIN)/uv pip install --python $(BIN)/python -e ".[dev]" -c constraints.txt \
		|| $(BIN)/pip install -e ".[dev]" -c constraints.txt
	touch $@
