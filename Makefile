# Everything runs inside .venv, which the first target to need it creates.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: test test-slow lint types docs parts demo benchmarks fuzz audit clean

test: lint types
	$(BIN)/pytest

test-slow: $(READY)
	$(BIN)/pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/pyright

# The site, in build/site; a broken link or reference is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The page that lists every part with its options.
parts: $(READY)
	$(BIN)/python -c 'from saccade.cli.part_help import write_page; print(write_page(), end="")' > docs/parts.md

# Patch selection against a CNN on the low-resolution view, on generated street scenes; resumes where it was stopped.
demo: $(READY)
	$(BIN)/saccade train signs/perturbed
	$(BIN)/saccade train signs/cnn
	$(BIN)/saccade report runs/signs-perturbed runs/signs-cnn

benchmarks: $(READY)
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done
	$(BIN)/saccade reproduce speed

# Damaged images through every reader and command; wrong recipes, damaged models, runs and checkpoints; then, where
# atheris is installed, readers by coverage: hours. The default tests do a few hundred.
SEED ?= 1
fuzz: $(READY)
	$(BIN)/python -W ignore tests/hostile/fuzz.py --count 20000 --seed $(SEED)
	$(BIN)/python -W ignore tests/hostile/fuzz_configurations.py --seed $(SEED)
	$(BIN)/python -W ignore tests/hostile/fuzz_readers.py --seconds 1800

# Known-vulnerable dependencies. Without access to pypi.org it says that nobody could be asked, and fails.
audit: $(READY)
	$(BIN)/python tests/audit.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv
