# One line each; every target works by hand and in CI. Start with `make demo` or `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PLAIN  := $(VENV)/.plain
STAMP  := $(VENV)/.installed
CERTIFICATES := $(VENV)/.keystores
BROKER ?= sandbox
TESTS = $(BIN)/python -m pytest -q -p no:randomly -n $(WORKERS) --dist loadscope
WORKERS ?= 3
# Packages by hash; those without a wheel (pyspark) are built by the build tools of .ci/locks/build.txt.
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation
EXTRAS := http keystores operator proxy spark usage watch
DIST   := build/dist-tools
SITE   := build/site-tools
LOCK   := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --custom-compile-command 'make locks'

# Commands under test are new processes: each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help env demo pipeline test test-all test-repeat unit newest-kopf stories integration e2e check fmt generate coverage dist image python-image locks bench site soak simulate simulate-nightly fuzz small-worlds mutants clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

env: $(STAMP)  ## the virtual environment with everything but the benchmark peers

# The base install alone: what a demo needs, without Spark and the tools of the tests.
$(PLAIN): pyproject.toml constraints.txt $(wildcard .ci/locks/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -d $(VENV) || { echo "making $(VENV) with $$($(PYTHON) -V)"; $(PYTHON) -m venv $(VENV); }
	@$(INSTALL) --requirement .ci/locks/build.txt --requirement .ci/locks/base.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMP): $(PLAIN)
	@echo "installing the tools of the tests (Spark is half a gigabyte; once)"
	@$(INSTALL) --requirement .ci/locks/dev.txt
	@touch $@

# A broker of the demo makes its certificates with cryptography; the other test tools and Spark are not needed.
$(CERTIFICATES): $(PLAIN)
	@$(INSTALL) --requirement .ci/locks/keystores.txt
	@touch $@

demo: $(if $(filter kafka,$(BROKER)),$(CERTIFICATES),$(PLAIN))  ## the main job, seen: plan, apply, nothing to do, drift, resolve (BROKER=kafka for a real broker)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python examples/demo.py --broker $(BROKER)

pipeline: env  ## recorded use, from a recording to the text of a pull request
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python examples/pipeline.py

test: env  ## the main claims, on real servers (needs Java 17, Maven, Go 1.26; Debian's packages by apt-get)
	@mkdir -p build
	HYPOTHESIS_PROFILE=quick $(TESTS) -m 'story or not (integration or thorough)' --junitxml=build/test.xml

test-all: env  ## everything, on five versions of Kafka
	@mkdir -p build
	$(TESTS) --durations=15 --junitxml=build/test-all.xml

test-repeat: env  ## make test several times beside busy processes, with the result of each run (RUNS=…, BUSY=…, TARGET=test-all)
	@$(BIN)/python -m tests.repeat $(or $(TARGET),test) --runs $(or $(RUNS),10) --busy $(or $(BUSY),4)

unit: env  ## what needs neither network nor Java, on all cores
	@mkdir -p build
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m 'not integration' --junitxml=build/unit.xml

newest-kopf: env  ## the assumptions about Kopf against its newest release (needs the package index)
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade kopf
	$(BIN)/python -m pytest -q tests/kube/watch

stories: env  ## of the tests on real servers those that `make test` runs
	@mkdir -p build
	$(TESTS) -m story --junitxml=build/stories.xml

integration: env  ## all tests on real servers: Kafka brokers, Kubernetes, Prometheus, browsers and tools
	@mkdir -p build
	$(TESTS) -m integration --durations=15 --junitxml=build/integration.xml

e2e: env  ## of those only: the operator on a real Kubernetes beside a real broker
	@mkdir -p build
	$(BIN)/python -m pytest -q -p no:randomly tests/kube/e2e --durations=15 --junitxml=build/e2e.xml

check: env  ## format, lint, types, floors, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m tools.unused_names
	$(BIN)/python -m tools.key_schemas --check
	$(BIN)/python -m tools.file_schemas --check
	$(BIN)/python -m tools.command_docs --check
	$(BIN)/python -m tools.reason_docs --check
	$(BIN)/python -m tools.table_docs --check
	$(BIN)/python -m tests.charts.crd_templates --check
	$(BIN)/python -m tests.charts.argocd_patch --check
	$(BIN)/python -m tests.charts.values_table --check
	$(BIN)/python -m tools.library_api

fmt: env  ## write what the formatter and the safe fixes would
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

generate: env  ## keys in CRDs and chart, file schemas, manifest, command and table reference
	$(BIN)/python -m tools.key_schemas --write
	$(BIN)/python -m tools.file_schemas --write
	$(BIN)/python -m tools.command_docs --write
	$(BIN)/python -m tools.reason_docs --write
	$(BIN)/python -m tools.table_docs --write
	$(BIN)/python -m tests.charts.crd_templates --write
	$(BIN)/python -m tests.charts.argocd_patch --write
	@cp examples/github/quotas-*.yml reconciler/cli/workflows/github/ && cp examples/gitlab/.gitlab-ci.yml reconciler/cli/workflows/gitlab/
	$(BIN)/python -m tests.charts.values_table --write
	$(BIN)/python -m tools.library_api --write

# The same commit gives the same bytes: times come from the commit, build tools from their lock.
dist:  ## the wheel and the source distribution in dist/, for `pip install 'dist/….whl[watch]'`
	@test -x $(DIST)/bin/python || $(PYTHON) -I -m venv $(DIST)
	@$(DIST)/bin/python -I -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement .ci/locks/build.txt
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(DIST)/bin/python -I -m hatchling build --directory dist

site:  ## the documentation as a site in build/site: a link or heading that does not exist ends it
	@test -x $(SITE)/bin/python || $(PYTHON) -I -m venv $(SITE)
	@$(SITE)/bin/python -I -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement .ci/locks/site.txt
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -I -m mkdocs build --quiet --strict --clean

image:  ## the image of operator and command line (TAG=…), from the Python image in .ci/python-image
	docker build --build-arg "PYTHON_IMAGE=$$(cat .ci/python-image)" --build-arg "VERSION=$$(sed -nE 's/^__version__ = "(.*)"$$/\1/p' reconciler/__init__.py)" --build-arg "REVISION=$$(git rev-parse HEAD)" --tag $(or $(TAG),kafka-quota-reconciler) .

python-image:  ## write the digest that the tag of the Python image has now into .ci/python-image (needs its registry)
	@name=$$(cut -d@ -f1 .ci/python-image) && digest=$$(docker buildx imagetools inspect "$$name" --format '{{.Manifest.Digest}}') && echo "$$name@$$digest" > .ci/python-image

locks: env  ## the hashed locks of .ci/locks from constraints.txt and pyproject.toml (needs the package index)
	@$(INSTALL) --requirement .ci/locks/lock.txt
	@for extra in $(EXTRAS); do $(LOCK) --constraint constraints.txt --extra $$extra --output-file .ci/locks/$$extra.txt pyproject.toml || exit 1; done
	@$(LOCK) --constraint constraints.txt --output-file .ci/locks/base.txt pyproject.toml
	@# botocore, which AWS's signer needs, refuses the python-dateutil that kubernetes needs.
	@grep -v '^python-dateutil==' constraints.txt | $(LOCK) --constraint - --extra msk --output-file .ci/locks/msk.txt pyproject.toml
	@$(LOCK) --constraint constraints.txt --extra spark --no-emit-package pyspark --no-emit-package py4j --output-file .ci/locks/spark-image.txt pyproject.toml
	@for group in build site; do $(LOCK) --group $$group --output-file .ci/locks/$$group.txt || exit 1; done
	@for group in dev bench lock; do $(LOCK) --constraint constraints.txt --group $$group --output-file .ci/locks/$$group.txt || exit 1; done

coverage: env  ## 100 % of quota/ and wire/ by lines and branches, or a failure that names the lines
	$(BIN)/python -m coverage erase
	HYPOTHESIS_PROFILE=simplest $(BIN)/python -m coverage run --branch --source=reconciler/quota,reconciler/wire -m pytest -q -p no:randomly -n auto --dist worksteal tests/quota tests/wire
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --include='reconciler/quota/*,reconciler/wire/*' --fail-under=100

bench: env  ## the tables of tests/bench/benchmarks.md, measured here and now
	@$(INSTALL) --requirement .ci/locks/bench.txt
	$(BIN)/python -m tests.bench

soak: env  ## random operations and faults on real servers for ten minutes (SEED=…, MINUTES=…)
	$(BIN)/python -m tests.soak --seed $(or $(SEED),1) --minutes $(or $(MINUTES),10)

simulate: env  ## simulated worlds with fresh seeds for a minute, or one seed with its story (SEED=…, WORLD=git or operator, DAYS=…, WITHOUT=…, SECONDS=…)
	@$(BIN)/python -m tests.simulation --world $(or $(WORLD),watch) $(if $(SEED),--seed $(SEED)) --days $(or $(DAYS),0) --without '$(WITHOUT)' --seconds $(or $(SECONDS),60)

simulate-nightly: env  ## a million fresh seeds, or as many as fit (WORLD=git or operator, SECONDS=…)
	@$(BIN)/python -m tests.simulation --world $(or $(WORLD),watch) --seeds 1000000 --seconds $(or $(SECONDS),1000000)

fuzz: env  ## mutated input for every reader of bytes and texts (SECONDS=…)
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60)

small-worlds: env  ## every state of a pair, with temporary limits and without, every plan over two entities
	HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -q -p no:randomly -n auto tests/small_worlds

mutants: env  ## plants faults and shows that the tests see each
	$(BIN)/python -m tests.mutants

clean:  ## everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
