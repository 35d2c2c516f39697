# The few commands the README names. Each creates the environment it needs.
PYTHON ?= python3.11
PYTHON := $(shell command -v $(PYTHON) || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Runs a command that takes long and shows that it is alive.
SHOWN = $(PYTHON) tests/support/progress.py

# Tests start hundreds of Python processes: each would compile everything anew where the shell forbids keeping it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: test full check format lint types imports models shape coverage demo bench chaos recovery faults simulate versions fuzz docs requirements mutants security lock audit sbom dist clean

# The gate. Most tests wait for a server, so four wait together.
test: $(VENV)/ready
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

# The gate and all that tests/full.txt leaves out of it; chaos runs alone here.
full: export VERBWORKER_FRAME_EXAMPLES ?= 300
full: $(VENV)/ready
	$(BIN)/pytest --full -n 4 --dist loadfile --no-loadscope-reorder --ignore tests/chaos $(ARGS)
	$(BIN)/pytest --full tests/chaos $(ARGS)
	@$(MAKE) --no-print-directory coverage

# The branches of the pure packages and of the linter; pyproject.toml has the list and the limit.
coverage: $(VENV)/ready
	$(BIN)/coverage run -m pytest -p no:cacheprovider tests/unit tests/lint
	$(BIN)/coverage report

# Two at a time, each part's words in one piece.
check: $(VENV)/ready
	@$(MAKE) --no-print-directory -j 2 --output-sync=target types imports models shape format lint

format: $(VENV)/ready
	$(BIN)/ruff format --check .

lint: $(VENV)/ready
	$(BIN)/ruff check .

types: $(VENV)/ready
	$(BIN)/mypy

imports: $(VENV)/ready
	$(BIN)/lint-imports

models: $(VENV)/ready
	$(BIN)/verbworker verify --app verbs:registry

# Modules per folder, lines per module and function, repeated names, odd words: the limits are in the script.
shape: $(VENV)/ready
	$(BIN)/python -m tests.shape

# One case of the example, on a database of its own; ENGINE=zeebe plays it on a real broker.
ENGINE ?= embedded
BESIDE := $(if $(filter zeebe,$(ENGINE)),$(BIN)/python -m tests.support.with_zeebe)
demo: $(VENV)/ready
	@$(BESIDE) $(BIN)/verbworker demo --engine $(ENGINE)

# Figures, as ratios within one run; BENCH=lint runs one of them.
BENCH ?= canonical lint zeebe_jobs engine
bench: $(VENV)/ready
	@set -e; for name in $(BENCH); do echo "== $$name"; $(BIN)/python -m bench.$$name; done

# The long forms: chaos on real processes, the runtime on the newer engines, and 200,000 conditions against the engine's own FEEL.
chaos: $(VENV)/ready
	$(BIN)/pytest tests/chaos -m long $(ARGS)

# How long a killed worker's jobs wait with default settings, when the engine's own timeout is an hour away.
recovery: $(VENV)/ready
	@$(BIN)/python -m tests.chaos.recovery $(ARGS)

# One fault run of the harness that knows only the promises: ENGINE=embedded|zeebe|cluster. A red one leaves its evidence.
ENTRIES ?= 320
SEED ?= 7
faults: $(VENV)/ready
	@$(BIN)/python -m tests.faults --engine $(ENGINE) --entries $(ENTRIES) --seed $(SEED) $(ARGS)

# Workers on virtual time against an engine that may do anything, one schedule a seed; FIRST=7 SEEDS=1 is one of them.
SEEDS ?= 10000
FIRST ?= 0
simulate: $(VENV)/ready
	@$(BIN)/python -m tests.simulator --seeds $(FIRST):$$(($(FIRST) + $(SEEDS))) --jobs $$(nproc) $(ARGS)

versions: $(VENV)/ready
	$(BIN)/pytest tests/conformance -m long $(ARGS)

fuzz: $(VENV)/ready
	VERBLINT_FUZZ=200000 $(BIN)/pytest tests/lint/test_condition_oracle.py --timeout 3600 $(ARGS)

# The documentation as a site in build/site: every link and anchor leads somewhere, and no page loads anything from elsewhere.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/ready
	$(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m docs.generate.check_site build/site

# The attacks of tests/security/, in groups: tried and held. One that does not hold ends it with an error.
security: $(VENV)/ready
	@$(BIN)/python -m tests.security $(ARGS)

requirements: $(VENV)/ready
	$(BIN)/python -m tests.support.requirements

# Breaks one requirement after the other in copies of the project: its marked test must go red. ARGS="JOB-05 REG" tries some.
mutants: $(VENV)/ready
	@$(BIN)/python -m tests.mutants $(ARGS)

# A half-made environment never counts: the marker is written last, and an older one than the lock is renewed.
$(VENV)/ready: requirements.lock pyproject.toml lint/pyproject.toml
	@$(PYTHON) -m venv $(VENV)
	@$(SHOWN) "installing $$(grep -c == requirements.lock) packages into $(VENV)" \
	  $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes \
	    --requirement requirements.lock
	@$(SHOWN) "installing verbworker into $(VENV)" \
	  $(BIN)/python -m pip install --no-deps --no-build-isolation --editable ./lint --editable .
	@touch $@

# Resolves in an environment of its own and keeps the pins; ARGS=--upgrade renews them. No index address goes into the file.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet pip-tools
	.venv-lock/bin/python .ci/lock $(ARGS)
	rm -rf .venv-lock

# Checks for security: of our code by ruff's S rules (exceptions with their reasons in pyproject.toml), of what we install by
# the advisories for every locked version. Without a way to the advisories that is said; with CI=true it fails.
audit: $(VENV)/ready .venv-audit/ready
	$(BIN)/ruff check --select S --ignore S101 verbworker lint/verblint
	@$(BIN)/python .ci/audit .venv-audit/bin/pip-audit requirements.lock deploy/requirements.lock deploy/build.lock

# What the packages and the image are made of, as CycloneDX: build/sbom.
sbom: .venv-audit/ready
	@mkdir -p build/sbom
	.venv-audit/bin/cyclonedx-py requirements deploy/requirements.lock --pyproject pyproject.toml --mc-type application \
	  --output-reproducible --of JSON -o build/sbom/verbworker.cdx.json
	.venv-audit/bin/cyclonedx-py requirements deploy/build.lock --output-reproducible --of JSON -o build/sbom/build.cdx.json

# The newest tools, as for `lock`: an auditor of last year knows less. Nothing of them is shipped.
.venv-audit/ready:
	@$(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip install --quiet pip-audit cyclonedx-bom
	@touch $@

# Both wheels and sdists, by the pinned builder alone: `pip install --find-links dist 'verbworker[dev]'` installs them.
dist:
	@rm -rf dist .venv-dist
	@$(PYTHON) -m venv .venv-dist
	@.venv-dist/bin/python -m pip install --quiet --require-hashes --requirement deploy/build.lock
	@cd lint && $(CURDIR)/.venv-dist/bin/python -m hatchling build -d $(CURDIR)/dist
	@.venv-dist/bin/python -m hatchling build -d dist
	@rm -rf .venv-dist

clean:
	rm -rf $(VENV) .venv-lock .venv-audit .venv-dist dist build .mypy_cache .ruff_cache .pytest_cache
