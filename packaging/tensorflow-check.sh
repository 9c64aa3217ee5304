#!/usr/bin/env bash
# Runs the tests of torchdeck.integrations with real TensorFlow, in an environment of its own (.venv-tensorflow).
# Where TensorFlow cannot be installed (no wheel for this Python, no network) it says so and exits 0.
#   tensorflow-check.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/environment.sh
source packaging/environment.sh

venv=.venv-tensorflow
stamp=$venv/.installed
install_seconds=300
test_seconds=300
pip() {
  timeout "$install_seconds" "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --retries 2 "$@"
}

wanted=$(cat pyproject.toml packaging/constraints.txt | cksum)
if [[ ! -f $stamp || $(cat "$stamp") != "$wanted" ]]; then
  python=$(find_python)
  [[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
  skip() {
    echo "skipped: TensorFlow cannot be installed for $("$venv/bin/python" --version) here:" \
      "$(grep -m 1 ERROR "$venv/pip.log" || echo "pip was not done after $install_seconds s")"
    exit 0
  }
  pip --dry-run --no-deps --only-binary=:all: "$(grep '^tensorflow_cpu==' packaging/constraints.txt)" 2>"$venv/pip.log" || skip
  if ! pip -c packaging/constraints.txt --editable '.[tensorflow]' pytest pytest-timeout hypothesis 2>"$venv/pip.log"; then
    # a wheel that is there and does not go with the rest is an error; a download that fails is not
    if grep -q ResolutionImpossible "$venv/pip.log"; then
      cat "$venv/pip.log" >&2
      exit 1
    fi
    skip
  fi
  echo "$wanted" >"$stamp"
fi
# without --strict-config: the options of pytest-qt are unknown where there is no Qt
TF_CPP_MIN_LOG_LEVEL=3 timeout "$test_seconds" "$venv/bin/python" -m pytest \
  -o addopts="--import-mode=importlib -ra --strict-markers" -W ignore::pytest.PytestConfigWarning tests/integrations "$@"
