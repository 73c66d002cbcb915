# make demo   sets everything up and runs the main job: train, serve, request, draw (make demo SEED=3)
# make view   all solutions of an arm in the browser (make view ROBOT=arm.urdf), with the least setup that this needs
# make demo-planar  a planar robot that reaches a line: demonstrate, record, train, sample, execute
# make test   lint and tests
# make report docs/report from the committed result tables of python -m experiments
# make docs   the documentation as a site, build/site/index.html
# make bench  benchmarks (make bench BENCH=refinement)
# make fuzz   malformed calls, then damaged files for every parser (make fuzz FUZZ_SECONDS=600 FUZZ_CALLS=100000 SEED=7)
# make lint   style, types and layers only
# make setup  .venv with everything in it; does nothing when nothing changed (PYTHON=... chooses the interpreter)

.PHONY: demo view demo-planar test report docs bench fuzz lint setup help
.DEFAULT_GOAL := help

BIN := .venv/bin
# A process more than cores, for tests of nodes often wait, and each file of tests in one of them: its servers and models are
# made once. Files begin in the order of test/conftest.py. ARGS="-n 0" for none.
PARALLEL = --numprocesses $(shell echo $$(($$(nproc) < 4 ? $$(nproc) + 1 : 4))) --dist loadfile --no-loadscope-reorder
FUZZ_SECONDS ?= 30
FUZZ_CALLS ?= 10000
BENCHMARKS = $(or $(BENCH),$(sort $(notdir $(basename $(wildcard benchmarks/[!_]*.py)))))

help:
	@sed -n 's/^# make/make/p' Makefile

setup:
	@scripts/setup.sh

demo: setup
	$(BIN)/eim demo $(if $(SEED),--seed $(SEED)) $(ARGS)

view:
	@scripts/setup.sh view
	$(BIN)/eim view --robot $(or $(ROBOT),panda) $(ARGS)

demo-planar: setup
	$(BIN)/eim demo-planar $(if $(SEED),--seed $(SEED)) $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files "*.cpp" "*.hpp" | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	ROS_PYTHON_CHECK_FIELDS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) $(ARGS)

report: setup
	$(BIN)/python -m experiments report $(ARGS)

docs: setup
	$(BIN)/mkdocs build --strict --quiet
	@echo "docs: build/site/index.html"

bench:
	@scripts/setup.sh bench
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

# the calls first: they need no atheris, which has wheels for Linux on x86-64 alone
fuzz: setup
	$(BIN)/python fuzz/fuzz_api.py --count $(FUZZ_CALLS) $(if $(SEED),--seed $(SEED))
	@scripts/setup.sh fuzz
	@for parser in $$($(BIN)/python fuzz/fuzz_parsers.py --list); do \
	  echo "== $$parser"; \
	  $(BIN)/python fuzz/fuzz_parsers.py $$parser --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED)) || exit 1; \
	done
