#!/bin/sh
# Prints the path of a Python 3.10-3.12 that can make virtual environments; installs one with apt if it may.
# First choice is 3.11, the version the program is tested with most.
set -eu

usable() {
    # A name on PATH need not run (pyenv's shims for versions that are not selected do not).
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
        >/dev/null 2>&1
}

find_usable() {
    for version in 3.11 3.12 3.10; do
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
            if usable "$candidate"; then
                command -v "$candidate"
                return 0
            fi
        done
    done
    if usable python3; then
        command -v python3
        return 0
    fi
    return 1
}

if [ -n "${PYTHON:-}" ]; then
    if usable "$PYTHON"; then
        command -v "$PYTHON"
        exit 0
    fi
    echo "PYTHON=$PYTHON is not a Python 3.10, 3.11 or 3.12 with venv." >&2
    exit 1
fi

find_usable && exit 0

# Debian and Ubuntu split venv off Python; the version number in its name follows the distribution.
packages="python3 python3-venv"
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" -eq 0 ]; then
        as_root=""
    elif sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        echo "Python 3.10, 3.11 or 3.12 with venv is missing. Install it, then run make again:" >&2
        echo "    sudo apt-get install $packages" >&2
        exit 1
    fi
    echo "Installing Python ($packages) ..." >&2
    # shellcheck disable=SC2086
    output="$({
        $as_root apt-get update -qq
        DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq $packages
    } 2>&1)" || echo "$output" >&2
    find_usable && exit 0
fi

echo "No Python 3.10, 3.11 or 3.12 was found. Install one of them (for example with pyenv), then run make again." >&2
exit 1
