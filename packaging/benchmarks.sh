#!/usr/bin/env bash
# Makes .venv-benchmarks, which has the libraries that tests/benchmarks/bench_trainers.py compares with, and runs it.
#   benchmarks.sh [NAME ...]      which benchmarks; all of tests/benchmarks without a name
# The libraries stay out of .venv, whose packages .venv-benchmarks sees, and are installed without resolving what they
# depend on, so that torch is never replaced. Where they cannot be had, the table says so for their rows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/environment.sh
source packaging/environment.sh

# add_trainers VENV BESIDE: Accelerate and Lightning in BESIDE; one sentence where that fails.
add_trainers() {
  local venv=$1 beside=$2 stamp wanted
  stamp=$beside/.torchdeck-installed
  wanted="$(cksum <packaging/constraints.txt) $PWD $("$venv/bin/python" -VV)"
  if [[ -f $stamp && $(cat "$stamp") == "$wanted" ]]; then
    return
  fi
  echo "Adding Accelerate and Lightning in $beside, to compare with"
  if install_trainers "$venv" "$beside" >"$beside.log" 2>&1; then
    rm -f "$beside.log"
    echo "$wanted" >"$stamp"
  else
    rm -rf "$beside"
    echo "Accelerate and Lightning could not be installed here, so they have no rows; $beside.log says why" >&2
  fi
}

# install_trainers VENV BESIDE: fails where a step of it fails.
install_trainers() {
  local venv=$1 beside=$2
  local pip=("$venv/bin/python" -m pip --python "$beside/bin/python" install --no-deps -c packaging/constraints.txt)
  make_beside "$venv" "$beside" &&
    "${pip[@]}" accelerate huggingface_hub lightning lightning-utilities pytorch-lightning PyYAML torchmetrics tqdm &&
    "$beside/bin/python" -c 'import accelerate, lightning'
}

install_into .venv train,export,dev
add_trainers .venv .venv-benchmarks
exec .venv/bin/python tests/benchmarks "$@"
