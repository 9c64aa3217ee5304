#!/usr/bin/env bash
# From nothing to a trained model: makes .venv, installs Torchdeck and runs the built-in quickstart on two ranks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/environment.sh
source packaging/environment.sh

install_into .venv train
exec .venv/bin/torchdeck --no-gui --trust resources/torchdeck_resources/presets/quickstart.toml "$@"
