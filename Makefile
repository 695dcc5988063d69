# PYTHON chooses the interpreter: `make test PYTHON=python3.12`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

# Into this environment, whatever pip is set to; where packages come from stays the user's setting.
export PIP_USER := 0
unexport PIP_TARGET PIP_PREFIX PIP_ROOT

# Stamps, so that only what changed is done again. Another interpreter makes the environment anew.
ENVIRONMENT := $(VENV)/made-by-$(subst /,_,$(PYTHON))
INSTALLED := $(VENV)/installed
INSTALLED_DEV := $(VENV)/installed-dev

.PHONY: demo test lint bench engines clean

demo: $(INSTALLED)
	$(BIN)/python -m bubblescope.demo.advised out

test: lint
	$(BIN)/python -m pytest --cov

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; \
	then echo mypy -p bubblescope; $(BIN)/mypy -p bubblescope; \
	else echo "types are checked on Python 3.11 and newer, which have the stubs of pandas 3"; fi

bench: $(INSTALLED)
	@set -e; for script in $(sort $(wildcard benchmarks/*.py)); do \
		echo "== $$script"; $(BIN)/python "$$script"; done

# The engines that tests run, each in a folder of its own. What is there already is left alone.
ENGINES := $(or $(BUBBLESCOPE_ENGINES),$(HOME)/.cache/bubblescope/engines)

engines:
	@set -e; for script in $(sort $(wildcard engines/*.sh)); do \
		"$$script" "$(ENGINES)/$$(basename "$$script" .sh)"; done

clean:
	rm -rf $(VENV) out build dist *.egg-info .coverage htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(ENVIRONMENT):
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 10) and sys.exit("Python 3.10 or newer is needed: make PYTHON=...")'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	touch $@

$(INSTALLED): $(ENVIRONMENT) pyproject.toml constraints.txt
	$(INSTALL) --editable .
	touch $@

$(INSTALLED_DEV): $(ENVIRONMENT) pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	touch $@
