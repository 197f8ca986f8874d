# Everything below sets up what it needs: a .venv beside this file, versions pinned by constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
EXTRAS := bench,drive,export,parquet,track,race,docs,dev

.PHONY: demo test slow coverage docs tutorials race cost tables mutants lint setup format wheel sbom audit clean
.DELETE_ON_ERROR:

demo: .venv/.base  ## train on irregularly sampled spirals and draw aleatoric and epistemic uncertainty
	$(BIN)/nsac demo
	@echo 'The command nsac is in $(BIN): call $(BIN)/nsac, or first type: source $(BIN)/activate'
	@echo 'Then try it on a table: nsac example tables'

# Two workers for two cores, one thread each: threads that compete for cores only wait for each other.
test slow coverage docs tutorials race cost tables mutants: export OMP_NUM_THREADS = 1

test: lint docs  ## lint, types, site, fast tests
	$(BIN)/pytest -n 2 tests src

slow: .venv/.all  ## statistical and long tests
	$(BIN)/pytest -n 2 --dist worksteal -m slow tests

coverage: .venv/.all  ## all tests, and the lines of the sources that none of them runs
	$(BIN)/pytest -n 2 --dist worksteal -m 'slow or not slow' --cov --cov-report term-missing:skip-covered tests src

docs: .venv/.all  ## the site, in `site/`; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

tutorials: .venv/.all  ## run the tutorials, and write their pages and pictures
	$(BIN)/python docs/scripts/tutorials.py

race: .venv/.all  ## speed against torch-nac
	$(BIN)/python benchmarks/race.py

cost: .venv/.all  ## what methods and draws cost
	$(BIN)/python benchmarks/methods.py

tables: .venv/.peers  ## regressors on 27 tables, beside their peers
	$(BIN)/python benchmarks/tables.py

mutants: .venv/.all  ## changes of the sources that no test notices, of a random sample
	$(BIN)/python benchmarks/mutants.py

lint: .venv/.all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell src tests docs README.md CHANGELOG.md CONTRIBUTING.md
	$(BIN)/pyright

setup: .venv/.all  ## the whole environment, every extra but the large `peers`

format: .venv/.all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Equal sources and an equal hatchling (constraints.txt) give equal bytes: times in the wheel are that of the last commit.
wheel: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
wheel: export PIP_CONSTRAINT = constraints.txt
wheel: .venv/.venv  ## dist/nsac-VERSION-py3-none-any.whl
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

sbom: .venv/.base  ## dist/sbom.json and dist/licences.csv: what an installation consists of
	$(BIN)/python tools/sbom.py dist

audit: .venv/.base  ## known vulnerabilities of the installed packages; needs the network
	$(PIP) pip-audit
	$(BIN)/pip-audit --skip-editable

clean:
	rm -rf .venv dist

.venv/.venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nsac needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	touch $@

.venv/.base: .venv/.venv pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

.venv/.all: .venv/.base
	$(PIP) -e '.[$(EXTRAS)]'
	touch $@

.venv/.peers: .venv/.all
	$(PIP) -e '.[peers]'
	touch $@
