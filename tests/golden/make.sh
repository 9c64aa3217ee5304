#!/usr/bin/env bash
# Writes golden files of every format anew, with the Torchdeck beside this file: make.sh VENV OUT
#   VENV  an environment with Torchdeck, under the path that the files may name
#   OUT   an empty folder, such as tests/golden/v2
# Run it for a new version of a format, into a folder of its own; what is there stays as the older version wrote it.
set -euo pipefail
venv=$1
mkdir -p "$2"
out=$(cd "$2" && pwd) tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TORCHDECK_HOME=$work/home HOME=$work
cd "$work"
"$venv/bin/python" -c 'print("A small text for a small model. " * 40)' >text.txt
cat >run.toml <<'T'
name = "golden"

[run]
recipe = "byte-gpt"

[model]
layers = 1
heads = 1
width = 8
context = 8

[data]
source = "text.txt"
heldout = 0.2

[training]
steps = 6
microbatch = 2
lr = 1e-3
eval_every = 3
eval_batches = 1

[distributed]
strategy = "ddp"
devices = "cpu"
nproc = 2

[checkpoint]
every = 3
keep_last = 1
T
torchdeck() { "$venv/bin/python" -m torchdeck.cli.main "$@"; }
torchdeck --no-gui run.toml
seq 1 40 >lengths.txt
torchdeck batchplan build --lengths lengths.txt --token-budget 64 --epochs 2 -o batch_plan
torchdeck nodes add gpu1 ann@10.0.0.1:2222 --venv '~/torch' --devices 0 1 --tags fast
torchdeck nodes group lab 'tag:fast'
cp -r "$TORCHDECK_HOME/runs" "$out/runs"
rm -rf "$out"/runs/*/code
cp run.toml text.txt "$out"
cp -r batch_plan "$out/batch_plan"
cp "$TORCHDECK_HOME/nodes.toml" "$out/nodes.toml"
"$venv/bin/python" - "$out" <<'P'
import json, sys
from pathlib import Path
from torchdeck.data import CheckpointPosition
from torchdeck_app.window.saved_session import Session

out = Path(sys.argv[1])
CheckpointPosition(epoch=1, microbatch_idx=3, global_step=17).save(out / "position.json")
session = Session("AAAA", "runs", {"runs": {"selected": "golden"}}, ("run.start",))
(out / "window.json").write_text(session.to_text())
P
PYTHONPATH=$tests "$venv/bin/python" -m support.values.golden_values "$out"
PYTHONPATH=$tests "$venv/bin/python" -m support.values.golden_reading "$out"
