# make demo   set everything up and run the main demo: train, serve, request, draw (make demo SEED=3)
# make view   show all solutions of an arm in the browser, with the smallest setup (make view ROBOT=arm.urdf)
# make demo ARGS=--planar  run the demo of a planar robot: demonstrate, record, train, sample, execute
# make test   lint, then run all tests
# make test-compiled  run the tests of compiled code with the module for any processor (SET=avx2)
# make report write docs/report from the committed result tables of python -m experiments
# make docs   build the documentation, build/site/index.html
# make bench  run the benchmarks (make bench BENCH=ik_peers)
# make fuzz   test malformed calls, then damaged files for each parser (FUZZ_SECONDS=600 FUZZ_CALLS=100000 SEED=7)
# make cuda   compile the kernels for GPUs, without a GPU
# make lint   check style, types, layers, spelling, prose, figures, and promises of the repository
# make setup  create or update a complete .venv (PYTHON=... selects the interpreter)

.PHONY: demo view test test-compiled report docs bench fuzz cuda lint setup help
.DEFAULT_GOAL := help

BIN := .venv/bin
# There is one more process than cores, because tests of nodes often wait. Each test file runs in one process, so its
# servers and models are created only once. test/conftest.py sets the order of the files. ARGS="-n 0" uses one process.
PARALLEL = --numprocesses $(shell echo $$(($$(nproc) < 4 ? $$(nproc) + 1 : 4))) --dist loadfile --no-loadscope-reorder
FUZZ_SECONDS ?= 30
FUZZ_CALLS ?= 10000
NEED_DATA := goal_sets lasa mjcf path_problems recorded_motions robots solver # make bench BENCH=lasa ARGS="--data FOLDER"
BENCHMARKS = $(or $(BENCH),$(filter-out $(NEED_DATA),$(sort $(notdir $(basename $(wildcard benchmarks/[!_]*.py))))))

help:
	@sed -n 's/^# make/make/p' Makefile

setup:
	@scripts/setup.sh

demo: setup
	$(BIN)/eim demo $(if $(SEED),--seed $(SEED)) $(ARGS)

view:
	@scripts/setup.sh view
	$(BIN)/eim view --robot $(or $(ROBOT),panda) $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files "*.cpp" "*.hpp" | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/constants_first.py
	$(BIN)/codespell $$(git ls-files)
	$(BIN)/python scripts/prose.py
	$(BIN)/python -m scripts.check_figures
	$(BIN)/python -m scripts.check_repository

test: lint
	ROS_PYTHON_CHECK_FIELDS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-compiled: setup
	EIM_ROS_INSTRUCTION_SET=$(or $(SET),baseline) OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) -m compiled $(ARGS)

report: setup
	$(BIN)/python -m experiments report $(ARGS)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "docs: build/site/index.html; the search needs a server: python3 -m http.server --directory build/site"

bench:
	@scripts/setup.sh bench
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name $(ARGS) || exit 1; done

cuda:
	@scripts/setup.sh cuda
	$(BIN)/python -m scripts.check_cuda $(ARGS)

# The calls come first, because they do not need atheris, which has wheels only for Linux on x86-64.
fuzz: setup
	$(BIN)/python fuzz/fuzz_api.py --count $(FUZZ_CALLS) $(if $(SEED),--seed $(SEED))
	@scripts/setup.sh fuzz
	@for parser in $$($(BIN)/python fuzz/fuzz_parsers.py --list); do \
	  echo "== $$parser"; \
	  $(BIN)/python fuzz/fuzz_parsers.py $$parser --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED)) || exit 1; \
	done
