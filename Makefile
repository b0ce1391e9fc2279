# On a machine with git, make and a Python, `make test` sets up everything else, once: until
# pyproject.toml changes, further runs need no network.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --disable-pip-version-check --quiet
# 25.1 is the first with dependency groups; the pip that comes with a Python may be older.
PIP := pip>=25.1,<27

# Depends on what was installed, and where, because a moved clone must be installed again.
STAMP := $(VENV)/.installed-$(firstword $(shell { pwd; cat pyproject.toml challenge/pyproject.toml; } | cksum))

# Tests that need nothing but Python, not even a server: they run on every Python of this machine.
CORE := tests/core tests/input tests/backends/memory tests/backends/sqlite \
	tests/interrupts/test_places.py tests/interrupts/test_with_statement.py
# Slow tests that say little about the interpreter: they count leaks, explore a model of messages,
# and try random lines at a door.
NOT_EVERYWHERE := --deselect tests/backends/sqlite/test_leaks.py \
	--deselect tests/core/test_quorum_tokens.py \
	--deselect tests/backends/sqlite/test_partial_doors.py
# What runs on Linux with the code of another platform: the embedded default with its faults, the
# decisions, the connections to Redis, FencedFile. Only Linux tells which mode a new file gets.
DISGUISED := tests/core tests/input tests/backends/memory tests/backends/sqlite \
	tests/backends/redis/contract tests/backends/redis/test_wire.py \
	tests/fencing/test_file.py --deselect tests/backends/sqlite/test_leaks.py \
	--deselect tests/fencing/test_file.py::test_its_mode_is_kept_and_a_new_file_has_the_usual_one
# The part of these that `make test` has time for.
DISGUISED_SOON := tests/backends/sqlite/test_contract.py tests/backends/sqlite/test_waiting.py \
	tests/backends/sqlite/test_killed_and_frozen.py tests/backends/sqlite/test_boots.py
# Tests of the tree and of the documentation, which belong to `make check`.
CHECKED := tests/architecture tests/docs
# Tests with a longer form than the one in `make test` (tests/shared/lengths.py).
LONG_FORMS := tests/interrupts/test_interrupts.py tests/backends/test_stock.py \
	tests/backends/test_hostile_servers.py tests/fencing/test_stock.py \
	tests/sql_rows/test_one_stock.py tests/backends/sqlite/test_leaks.py \
	tests/backends/etcd/faults/test_deposed.py tests/backends/zookeeper/faults/test_deposed.py
# What does not exist on Windows; `cli/app.py` tells users so there.
NOT_WINDOWS := lockfast/(platforms/(linux|macos|posix)\.py|cli/(demo/|run(_process|_supervision)?\.py))

# The first Python that is new enough; set PYTHON=... to choose another.
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON = $(shell for each in $(CANDIDATES); do \
	if "$$each" -c '$(NEW_ENOUGH)' 2>/dev/null; then echo "$$each"; break; fi; done)

# If it were set, every worker and every process started by a test would compile all its imports.
unexport PYTHONDONTWRITEBYTECODE

# Otherwise pyright checks the network for a newer version on every run.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' Makefile

.PHONY: test
test: $(STAMP)-compiled ## Set up everything needed, and run the tests
	$(RUN) tools/system_packages.py
	$(RUN) tools/newer_servers.py
	$(RUN) -m pytest -n auto --durations=10 $(addprefix --ignore=,$(CHECKED))
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-disguised test-elsewhere

# In parallel, since they mostly wait; the output of each is shown when it is done.
.PHONY: test-disguised test-elsewhere
test-disguised:
	LOCKFAST_TEST_PLATFORM=windows $(RUN) -m pytest -n 4 -k 'not fork' $(DISGUISED_SOON)

test-elsewhere:
	$(RUN) tools/other_pythons.py -n 4 $(CORE) $(NOT_EVERYWHERE)

.PHONY: soak
soak: $(STAMP)-compiled ## Run the long forms of the tests that have one; at most an hour
	$(RUN) tools/system_packages.py
	$(RUN) tools/newer_servers.py
	LOCKFAST_TEST_LENGTH=long $(RUN) -m pytest -n auto --durations=10 -m soak
	LOCKFAST_TEST_LENGTH=long LOCKFAST_TRIALS=5 $(RUN) -m pytest -n auto --durations=10 $(LONG_FORMS)

# The part of `make soak` that runs for every submission: a few minutes.
.PHONY: soak-part
soak-part: $(STAMP)-compiled
	$(RUN) tools/system_packages.py
	$(RUN) tools/newer_servers.py
	LOCKFAST_TEST_LENGTH=long $(RUN) -m pytest -n auto --durations=10 -m soak

.PHONY: portable
portable: $(STAMP) ## Run only the tests that need neither a server nor Linux
	$(RUN) -m pytest -n auto --durations=10 @tests/portable.txt

.PHONY: disguised
disguised: $(STAMP) ## Run tests on Linux with the code for macOS and Windows
	$(RUN) tools/system_packages.py
	LOCKFAST_TEST_PLATFORM=macos $(RUN) -m pytest -n auto $(DISGUISED)
	LOCKFAST_TEST_PLATFORM=windows $(RUN) -m pytest -n auto -k 'not fork and not posix' $(DISGUISED)

.PHONY: check
check: $(STAMP) ## Format, lint, types, generated files, import direction, docs
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) tools/generate_sync.py --check
	$(RUN) tools/generate_docs.py --check
	$(RUN) -m mypy
	$(RUN) -m mypy --platform win32 --cache-dir .mypy_cache/win32 --exclude '$(NOT_WINDOWS)' \
		src/lockfast src/lockfast/platforms/windows.py
	$(RUN) -m pyright tests/typing/api_types.py
	PYTHONPATH='$(CURDIR)/src' $(RUN) -m pyright --pythonpath $(RUN) --ignoreexternal \
		--verifytypes lockfast > $(VENV)/types.txt || { cat $(VENV)/types.txt; exit 1; }
	$(RUN) -m pytest -q $(wildcard $(CHECKED))

# If everything is set up, install nothing more; otherwise only what the command line needs, which
# takes seconds, while the tools for the tests take half a minute.
.PHONY: demo
demo: $(firstword $(wildcard $(STAMP)) $(STAMP)-demo) ## Show what a lock does
	PYTHONPATH=src $(RUN) -m lockfast demo

$(STAMP)-demo:
	$(make_venv)
	$(RUN) -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*project["optional-dependencies"]["cli"], sep="\n")' > $(VENV)/demo.txt
	$(INSTALL) --no-compile --requirement $(VENV)/demo.txt
	touch $@

.PHONY: bench
bench: $(STAMP)-bench ## Measure against the competitors, side by side
	$(RUN) tools/system_packages.py
	$(RUN) tools/newer_servers.py
	$(RUN) -m bench

# There are many competitors, and nothing else needs them.
$(STAMP)-bench: $(STAMP)
	$(INSTALL) --editable '.[all]' --editable ./challenge --group dev --group bench
	touch $@

.PHONY: challenge
challenge: $(STAMP) ## Let the challenge catch broken locks; half an hour
	$(RUN) tools/system_packages.py
	$(RUN) -m lockfast_challenge.broken

# Otherwise, in the first run, every worker compiles all tests at the same time. Errors are ignored
# here, because the run itself reports them.
$(STAMP)-compiled: $(STAMP)
	$(RUN) -m pytest --collect-only -qq >/dev/null || true
	touch $@

# Neither belongs to `make test`: the first takes up to 20 minutes, the second hours. Both go on where
# an earlier run ended.
.PHONY: mutants
mutants: $(STAMP)-compiled ## Let the tests catch defects put into copies; 20 minutes
	$(RUN) tools/system_packages.py
	$(RUN) tools/newer_servers.py
	$(RUN) tools/mutants.py

.PHONY: mutants-challenge
mutants-challenge: $(STAMP) ## Let the challenge catch these defects; hours
	$(RUN) tools/system_packages.py
	$(RUN) tools/newer_servers.py
	$(RUN) tools/mutants.py --challenge

.PHONY: format
format: $(STAMP) ## Format the code and sort its imports
	$(RUN) -m ruff check --select I --fix --quiet .
	$(RUN) -m ruff format .

.PHONY: generate
generate: $(STAMP) ## Write the sync flavour and the generated parts of the docs
	$(RUN) tools/generate_sync.py
	$(RUN) tools/generate_docs.py

.PHONY: docs
docs: $(STAMP) ## Build the documentation site into build/site
	$(RUN) tools/build_site.py

.PHONY: wheel
wheel: $(STAMP) ## Build both wheels into dist/, without a network
	$(RUN) -m build --no-isolation --wheel
	$(RUN) -m build --no-isolation --wheel --outdir dist challenge

.PHONY: clean
clean: ## Delete everything that was built here, and the environment
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define make_venv
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(NEW_ENOUGH)' || { \
		echo "Lockfast needs Python 3.11 or newer, and found none: install one, or say PYTHON=..." >&2; \
		exit 1; }
	"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || "$(PYTHON)" tools/system_packages.py \
		--install "$$("$(PYTHON)" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
	$(RUN) -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)
endef

$(STAMP):
	$(make_venv)
	$(INSTALL) --upgrade '$(PIP)'
	$(INSTALL) --editable '.[all]' --editable ./challenge --group dev
	rm -f $(VENV)/.installed-*
	touch $@
