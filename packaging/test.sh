#!/usr/bin/env bash
# Every check: format, lint, strict types, import rules, tests, and a wheel built, installed clean and used.
#   test.sh [--soak] [pytest arguments]      --soak runs every variant where a normal run samples by a fixed seed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/environment.sh
source packaging/environment.sh

# Debian packages that tests need, each with the command that shows it is there
need_packages() {
  local missing=() pair
  for pair in util-linux:mount g++:g++; do
    command -v "${pair#*:}" >/dev/null 2>&1 || missing+=("${pair%%:*}")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing ${missing[*]}"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  else
    echo "The tests need these packages, and only root can install them: ${missing[*]}" >&2
    return 3
  fi
}

step() {
  echo
  echo "== $1"
  shift
  "$@"
}

need_packages
install_into .venv train,export,dev
add_deepspeed .venv .venv-deepspeed
bin=.venv/bin
step "format" $bin/ruff format --check .
step "lint" $bin/ruff check .
step "types" $bin/mypy
step "import rules" $bin/lint-imports
# much of a test is waiting for processes: one worker more than there are cores; a file's tests share what it sets up
step "tests" $bin/python -m pytest --numprocesses "$(($(nproc) + 1))" --dist loadfile "$@"
step "wheel" bash packaging/wheel-check.sh "$PWD/$bin/python"
