# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
UV_VERSION := 0.13.8
BIN := .venv/bin
PORT ?= 8000
# Installers keep nothing outside the project.
export PIP_NO_CACHE_DIR := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export UV_NO_CACHE := 1
export UV_LINK_MODE := copy
# Compiled modules are kept, out of sight, whatever the environment says: without them every process that starts takes three times as long.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

.PHONY: setup install demo serve test contracts journeys isolation test-all on-other-database on-other-store check audit fuzz lint style types imports size migrations \
	bench constraints messages clean

setup: .venv/dev

.venv/uv: Makefile
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; none was found."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	@touch $@

.venv/runtime: .venv/uv pyproject.toml constraints.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r pyproject.toml -c constraints.txt
	@touch $@

.venv/dev: .venv/uv pyproject.toml constraints.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r pyproject.toml --extra dev -c constraints.txt
	@touch $@ .venv/runtime

# A server's own: no development tools.
install: .venv/runtime

demo: .venv/runtime
	$(BIN)/python manage.py demo --port $(PORT)

serve: .venv/runtime
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py serve --port $(PORT)

# Much of each part is waiting, for a browser, a server or a database: two parts run side by side, each says its output at its end.
BESIDE := $(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync)

# One worker a core; a class or a module of functions stays on one worker.
PYTEST := $(BIN)/python -m pytest -n logical --dist loadscope --no-loadscope-reorder --durations=15

# Units and integration, on SQLite and the fakes: no process, no browser.
test: .venv/dev
	$(PYTEST) tests/integration tests/unit

# One suite per protocol over every backend, with real servers and killed processes.
contracts: .venv/dev
	$(PYTEST) tests/contracts

# Seed 002's scripts/test-isolation.sh: no message of another conversation reaches a model, a page or a thread; types hold.
isolation: types
	$(PYTEST) tests/integration/chat -k "another_conversation or foreign_session"

# Browser journeys in a process of their own: the browser's driver keeps an event loop running.
journeys: .venv/dev
	$(PYTEST) tests/e2e

test-all: .venv/dev
	@$(BESIDE) test contracts journeys on-other-database on-other-store

on-other-database: .venv/dev
	$(BIN)/python -m tests.matrix database

on-other-store: .venv/dev
	$(BIN)/python -m tests.matrix store

lint: .venv/dev
	@$(BESIDE) style imports size types migrations

style: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev
	$(BIN)/mypy

imports: .venv/dev
	$(BIN)/lint-imports

# How large each room is, against its number in CONTRIBUTING.
size: .venv/dev
	$(BIN)/python -m tests.size

# The command runs Django's checks first.
migrations: .venv/dev
	$(BIN)/python manage.py makemigrations --check --dry-run

# The longest first, after what fails at once.
check: .venv/dev
	@$(BESIDE) style imports size contracts test journeys types migrations on-other-database on-other-store

# Anything at all, so many times, to every door of readers, sockets and the admin.
CASES ?= 1000
fuzz: .venv/dev
	FUZZ_CASES=$(CASES) $(BIN)/python -m pytest -n logical --dist loadscope --timeout 0 tests/integration/fuzz

# Known vulnerabilities and licences of what is pinned; both programs are fetched by uv.
audit: .venv/dev
	$(BIN)/uv tool run pip-audit --disable-pip --requirement constraints.txt
	$(BIN)/uv tool run pip-licenses --python $(BIN)/python --partial-match --fail-on "GNU General Public;Affero;AGPL"

# Every benchmark, or some: make bench BENCHMARKS="tools idle".
BENCHMARKS := $(patsubst benchmarks/%/run.py,%,$(sort $(wildcard benchmarks/*/run.py)))
bench: .venv/dev
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name.run || exit 1; done

# Pins: resolved for every supported Python and platform, with hashes (which every installation checks) and without addresses.
constraints: .venv/uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate pyproject.toml --extra dev -o constraints.txt

# Needs GNU gettext. The compiled catalogue is committed: a fresh machine has no msgfmt.
messages: .venv/dev
	$(BIN)/python manage.py makemessages --locale en --ignore .venv --ignore tests --ignore benchmarks --no-location
	$(BIN)/python manage.py makemessages --domain djangojs --locale en --ignore .venv --ignore tests --ignore benchmarks --no-location
	$(BIN)/python manage.py compilemessages --locale en --ignore .venv

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
