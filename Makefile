# make install   the three programs for everyday use: a virtual environment of their own, and links to them in PREFIX/bin
# make demo   a small stack with a planted regression, bisected to its culprit
# make lint   style and types
# make docs   the documents as a site, in .site; a dead link ends it
# make test   the tests to wait for: every room, and one run of each main job
# make test-all   the rest: more real builds, workers that are killed, properties asked of more examples
# All works from a clean clone; only Python 3.11+, git, make and a C++ compiler are needed.

ROOT := $(CURDIR)
PYTHON ?= python3
BIN := $(ROOT)/.venv/bin
INSTALLED := $(ROOT)/.venv/installed
DEV_INSTALLED := $(ROOT)/.venv/dev-installed
ALL_INSTALLED := $(ROOT)/.venv/all-installed
ROOMS := $(ROOT)/.venv/rooms/precision_bisect
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(ROOT)/constraints.txt

PYTEST := cd $(ROOT) && $(BIN)/python -m pytest --numprocesses 2 --dist loadgroup

PREFIX ?= $(HOME)/.local
OWN := $(PREFIX)/share/precision-bisect
PROGRAMS := bisect-precision reduce diff-tensors

DEMO := $(ROOT)/.demo
DEMO_HOME = PRECISION_BISECT_HOME=$${PRECISION_BISECT_HOME:-$(DEMO)/home}
SCENARIO ?= rounding
COMMITS ?= 60
SEED ?= 0

export PIP_NO_INPUT = 1
# Or each process of the tests would compile all it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install uninstall demo docs test test-all lint bench-search bench-tensors bench-localize bench-reduce bench-overhead bench-farm bench-site bench-outages bench-scale clean

# torch first and from the constraints: a looser request elsewhere would bring gigabytes of CUDA.
$(INSTALLED): $(ROOT)/pyproject.toml $(ROOT)/constraints.txt
	$(PYTHON) -m venv $(ROOT)/.venv
	$(PIP) torch 'setuptools>=77' wheel
	$(PIP) --no-build-isolation --editable $(ROOT)
	touch $@

$(DEV_INSTALLED): $(INSTALLED)
	$(PIP) --no-build-isolation --editable '$(ROOT)[dev]'
	mkdir -p $(ROOMS)
	for room in bisect configs demo meaning reduce runner store; do ln -sfn $(ROOT)/$$room $(ROOMS)/$$room; done
	touch $@

# Servers that only long tests run.
$(ALL_INSTALLED): $(DEV_INSTALLED)
	$(PIP) --no-build-isolation --editable '$(ROOT)[dev,test-all]'
	touch $@

# A program of another's is not replaced.
install:
	@for program in $(PROGRAMS); do place=$(PREFIX)/bin/$$program; \
	    if [ -e $$place ] && [ "$$(readlink $$place)" != $(OWN)/bin/$$program ]; then \
	        echo "$$place: expected nothing, or a link of an earlier install, found another program; name another PREFIX" >&2; \
	        exit 1; \
	    fi; \
	done
	$(PYTHON) -m venv $(OWN)
	$(OWN)/bin/python -m pip install --disable-pip-version-check --constraint $(ROOT)/constraints.txt torch
	$(OWN)/bin/python -m pip install --disable-pip-version-check --constraint $(ROOT)/constraints.txt $(ROOT)
	mkdir -p $(PREFIX)/bin
	for program in $(PROGRAMS); do ln -sfn $(OWN)/bin/$$program $(PREFIX)/bin/$$program; done
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "put $(PREFIX)/bin into PATH: export PATH=$(PREFIX)/bin:\$$PATH" ;; esac

uninstall:
	@for program in $(PROGRAMS); do place=$(PREFIX)/bin/$$program; \
	    if [ "$$(readlink $$place)" = $(OWN)/bin/$$program ]; then rm $$place; fi; \
	done
	rm -rf $(OWN)

demo: $(INSTALLED)
	rm -rf $(DEMO)/stack $(DEMO)/report
	$(DEMO_HOME) $(BIN)/bisect-precision demo $(DEMO)/stack --scenario $(SCENARIO) --commits $(COMMITS) --seed $(SEED)
	$(DEMO_HOME) sh $(DEMO)/stack/find.sh --output $(DEMO)/report

lint: $(DEV_INSTALLED)
	cd $(ROOT) && $(BIN)/ruff format --check .
	cd $(ROOT) && $(BIN)/ruff check .
	cd $(ROOT) && PATH=$(BIN):$$PATH $(BIN)/pyright

# Needs no network.
docs: $(DEV_INSTALLED)
	cd $(ROOT) && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "to read them, open $(ROOT)/.site/index.html"

# `make test ROOM=reduce/localize` runs the tests of a part.
test: $(DEV_INSTALLED)
	$(PYTEST) -m 'not long' --hypothesis-profile quick $(addprefix tests/,$(ROOM))

# `make test-all UNTIL=SECONDS` begins no test after this time since the epoch, and says how many it left out.
test-all: $(ALL_INSTALLED)
	$(PYTEST) -m 'long or hypothesis' --hypothesis-profile third $(addprefix --until ,$(UNTIL))

bench-search: $(DEV_INSTALLED)
	-$(PIP) git-bayesect==1.2
	cd $(ROOT) && OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.search $(ROOT)/benchmarks/search/results

bench-tensors: $(DEV_INSTALLED)
	cd $(ROOT) && $(BIN)/python -m benchmarks.tensors.compare_2gib
	cd $(ROOT) && $(BIN)/python -m benchmarks.tensors.index_records
	cd $(ROOT) && $(BIN)/python -m benchmarks.tensors.small_pairs
	cd $(ROOT) && $(BIN)/python -m tests.system.fuzz.fuzz args_dump task_graph name_map kernel_config orchestration torch_file

bench-localize: $(DEV_INSTALLED)
	cd $(ROOT) && $(BIN)/python -m benchmarks.localize.large_graphs
	cd $(ROOT) && $(BIN)/python -m benchmarks.localize.planted_faults $(ROOT)/benchmarks/localize/results
	cd $(ROOT) && $(BIN)/python -m benchmarks.localize.faults $(ROOT)/benchmarks/localize/results

bench-reduce: $(DEV_INSTALLED)
	cd $(ROOT) && OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m benchmarks.reduce $(ROOT)/benchmarks/reduce/results

bench-overhead: $(DEV_INSTALLED)
	cd $(ROOT) && OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.overhead.between_runs
	cd $(ROOT) && OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.overhead

bench-farm: $(DEV_INSTALLED)
	cd $(ROOT) && $(BIN)/python -m benchmarks.farm

bench-site: $(DEV_INSTALLED)
	cd $(ROOT) && $(BIN)/python -m benchmarks.site

bench-outages: $(DEV_INSTALLED)
	cd $(ROOT) && $(BIN)/python -m benchmarks.outages

bench-scale: $(DEV_INSTALLED)
	cd $(ROOT) && OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale

clean:
	rm -rf $(ROOT)/.venv $(ROOT)/.site $(DEMO)
