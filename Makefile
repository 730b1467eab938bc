# The two commands: `make demo` and `make test`. Both do all set-up first; `make help` lists the rest.
#
# Steps that need the network leave a stamp in .stamps and run again only when their list changes.
# The build runs each time: ninja knows in well under a second that there is nothing to do.
PYTHON ?= python3
VENV   := .venv/bin
BUILD  := build/release
STAMPS := .stamps

.PHONY: help demo test test-long test-matrix test-collections test-wheel fuzz-smoke bench bench-quick bench-spliter bench-io build setup tidy format wheel clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: build ## a stock client on rask-scheduler, each call compared with stock Dask beside it
	@$(VENV)/python -m rask.demo

test: build ## everything CI runs: tidy, Catch2, simulator seeds, fuzz smoke, client suite
	@tools/run_tests.sh

test-matrix: build ## the client suite over releases of Dask and all pairings; no time limit
	@$(VENV)/python tools/test_matrix.py

test-collections: build ## the tests inside the installed dask, on rask and on stock; no time limit
	@$(VENV)/python tools/test_collections.py

test-long: build ## sanitizers, long fuzzing, 20 000 seeds, leaks, a soak; no time limit
	@tools/test_long.sh

fuzz-smoke: setup ## every fuzz target for ten seconds
	@tests/fuzz/smoke.sh 10

bench-quick: build ## W1 and W1z beside stock Dask and their floors, about three minutes
	@$(VENV)/python bench/run.py --quick

bench: build ## every row, beside stock Dask and the floors
	@$(VENV)/python bench/run.py

bench-spliter: build ## partitions, blocks and rechunk in four applications: tables and plots, 20 minutes
	@$(VENV)/python bench/spliter/run.py

bench-io: build ## clustered I/O: seeks counted, split and merge on a slow and a fast device, 20 minutes
	@$(VENV)/python bench/io/run.py

build: setup $(BUILD)/build.ninja ## compile (optimised) into python/rask/_native
	@echo "== build"
	@cmake --build --preset release
	@$(VENV)/python -m compileall -q python/rask

setup: $(STAMPS)/system $(STAMPS)/venv ## system packages and .venv

$(STAMPS)/system: tools/system_packages.txt tools/setup_system.sh
	@tools/setup_system.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/venv: tools/requirements.txt tools/setup_venv.sh | $(STAMPS)/system
	@PYTHON="$(PYTHON)" tools/setup_venv.sh
	@mkdir -p $(STAMPS) && touch $@

$(BUILD)/build.ninja: $(STAMPS)/system $(STAMPS)/venv CMakePresets.json
	@echo "== configure"
	@cmake --preset release -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/python
	@touch $@

tidy: setup ## style, include directions, registered tests, tables in docs
	@$(VENV)/python tests/tidy/tidy.py

format: setup ## clang-format over our C++ files
	@git ls-files '*.cc' '*.h' | xargs clang-format-16 -i

wheel: setup ## a wheel in dist/
	@CMAKE_CXX_COMPILER_LAUNCHER=ccache $(VENV)/python -m pip wheel --no-deps -w dist .

test-wheel: setup ## a wheel installed in a fresh environment computes something
	@tools/test_wheel.sh

clean: ## remove what the build made; keeps .venv
	rm -rf build dist wheels python/rask/_native
