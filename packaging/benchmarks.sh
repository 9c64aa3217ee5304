#!/usr/bin/env bash
# Makes .venv-benchmarks, which has the libraries that bench_trainers.py and bench_nodes.py of tests/benchmarks compare
# with, and runs benchmarks.
#   benchmarks.sh [NAME ...]      which benchmarks; all of tests/benchmarks without a name
# The libraries stay out of .venv, whose packages .venv-benchmarks sees, and are installed without resolving what they
# depend on, so that torch is never replaced. Where they cannot be had, the table says so for their rows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/environment.sh
source packaging/environment.sh

# install_peers VENV BESIDE: fails where a step of it fails.
install_peers() {
  local venv=$1 beside=$2
  local pip=("$venv/bin/python" -m pip --python "$beside/bin/python" install --no-deps -c packaging/constraints.txt)
  make_beside "$venv" "$beside" &&
    "${pip[@]}" accelerate huggingface_hub lightning lightning-utilities pytorch-lightning PyYAML torchmetrics tqdm &&
    "${pip[@]}" torchrunx fabric cloudpickle decorator deprecated wrapt &&
    "$beside/bin/python" -c 'import accelerate, lightning, torchrunx'
}

install_into .venv gui,train,export,dev
add_beside .venv .venv-benchmarks install_peers "Accelerate, Lightning and torchrunx, to compare with," \
  "Accelerate, Lightning and torchrunx could not be installed here, so they have no rows"
exec .venv/bin/python tests/benchmarks "$@"
