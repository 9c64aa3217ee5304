#!/usr/bin/env bash
# From nothing to a trained model: makes .venv, installs Torchdeck and runs the built-in quickstart on two ranks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/environment.sh
source packaging/environment.sh

install_into .venv gui,train
# Ctrl-C is for the run: this script only waits for its end
trap : INT
code=0
.venv/bin/torchdeck --no-gui resources/torchdeck_resources/presets/quickstart.toml "$@" || code=$?
echo "The same in a window: $PWD/.venv/bin/torchdeck" >&2
if [[ $(command -v torchdeck) != "$PWD/.venv/bin/torchdeck" ]]; then
  echo "Before you type torchdeck: source $PWD/.venv/bin/activate" >&2
fi
exit "$code"
