# make book    build the website         make test    everything that CI runs
# make help    the rest

PORT ?= 8000
BIN  := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# The first Python that is new enough; PYTHON=/path/to/python says which.
FIND := for p in python3 python3.13 python3.12 python3.11 python; do \
          $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done
PYTHON ?= $(shell $(FIND))
PAGE := $(CURDIR)/_build/html/index.html
# Images of containers often forbid byte code; then each process would compile all of torch anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help book pdf test check processors matrix gpu serve execute export address clean setup-book setup-all

help:  ## Show this list
	@echo "make ..."
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-12s%s\n", $$1, $$2}' Makefile

book: setup-book  ## Build the website from the executed notebooks and print its address
	@echo "Building the pages ..."
	@$(BIN)/jupyter-book build . -W -n --keep-going --quiet > .venv/book.log 2>&1 \
	  || { tail -n 30 .venv/book.log; echo; echo "The pages could not be built. All that was said: .venv/book.log"; exit 1; }
	@touch _build/built
	@echo "The book is built. Open it in a browser:"
	@echo "  file://$(PAGE)"

serve: book  ## Build the website and serve it on http://localhost:8000 (PORT=8001 for another port)
	@$(BIN)/python tools/serve.py $(PORT)

pdf: setup-all book  ## Print each chapter, and the whole book, as a PDF (_build/html/pdf; needs Chromium)
	@$(BIN)/python tools/pdf.py

# Two workers with one thread each: with two each, four of them would fight for two cores.
test: setup-all  ## Run everything that CI runs
	@echo "Fetching the sentence pairs (once) ..."
	@$(BIN)/python -c "from allyouneed.data import load_pairs; load_pairs()"
	@echo "Checking style ..."
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --check --quiet . \
	  || { echo "Run: .venv/bin/ruff check --fix . && .venv/bin/ruff format ."; exit 1; }
	@echo "Running the tests and the notebooks, every second one as another processor would ..."
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests notebooks --nbval --halves --nbval-cell-timeout 300 --nbval-kernel-startup-timeout 300 -n 2 --dist loadfile --no-loadscope-reorder -q -rs

check: setup-all  ## Check style, modules and links, and test what has changed (two minutes)
	@OMP_NUM_THREADS=1 $(BIN)/python tools/check.py

processors: setup-all  ## Run tests and notebooks as other processors would, in every setting
	@$(BIN)/python tools/processors.py

matrix:  ## Run the package's tests and the notebooks under every set of versions (an hour, 30 GB)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and none was found."; exit 1; }
	@$(PYTHON) tools/matrix.py

# In whatever environment is meant: PYTHON says which; ours, if it says nothing.
gpu:  ## Measure on a GPU what waits for one, in order of worth (MINUTES=40, PARTS=...)
	@$(if $(filter file undefined,$(origin PYTHON)),$(BIN)/python,$(PYTHON)) benchmarks/gpu.py $(PARTS) \
	  --minutes $(or $(MINUTES),40)

execute: setup-all  ## Run all notebooks and write them in their one reproducible form
	@$(BIN)/python tools/execute.py

export: setup-all  ## Write the notebooks' exported cells to src/allyouneed
	@$(BIN)/python tools/export.py

address: setup-all  ## Write the repository's address and the notebooks' set-up cell wherever they stand
	@$(BIN)/python tools/address.py

clean:  ## Remove the built pages and the virtual environment
	@rm -rf _build .venv

setup-book setup-all:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and none was found."; \
	  echo "Install one, or say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) tools/install.py $(@:setup-%=%)
