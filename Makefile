# make run   set everything up and open the window (without a display: do the main job once)
# make test  set everything up and pass the whole test suite
# Both are all a fresh Debian 12 or Ubuntu 22.04+ machine needs. PYTHON=... chooses the interpreter.

BOOTSTRAP = python="$$(sh packaging/find_python.sh)" && exec "$$python" packaging/bootstrap.py

.PHONY: run demo test lint bench bench-simulator screenshots setup clean

run demo test lint bench bench-simulator screenshots setup:
	@$(BOOTSTRAP) $@ $(ARGS)

clean:
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info build dist
