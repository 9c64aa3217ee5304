#!/usr/bin/env bash
# Builds a wheel, installs it into an environment that has nothing else, and uses it as a person would.
#   wheel-check.sh PYTHON      an interpreter that has hatchling
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources=$PWD

NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --quiet # the wheel carries the documentation
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/dist" .
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --require-hashes -r packaging/hashes/core.txt
"$work/venv/bin/python" -m pip install --quiet --no-deps "$work"/dist/torchdeck-*.whl
"$work/venv/bin/python" -m pip check
cd "$work"
export TORCHDECK_HOME=$work/home
torchdeck=$work/venv/bin/torchdeck

expect() {
  local wanted=$1 code=0
  shift
  "$@" >"$work/output" 2>&1 || code=$?
  if [[ $code != "$wanted" ]]; then
    echo "expected exit code $wanted, got $code from: $*" >&2
    cat "$work/output" >&2
    exit 1
  fi
}

expect 0 "$torchdeck" --version
expect 0 "$torchdeck" --help
expect 0 "$torchdeck" init --preset quickstart quickstart.toml
expect 0 "$torchdeck" schema
expect 2 "$torchdeck" docs no-such-page --no-browser
timeout 120 "$torchdeck" docs trouble/hangs --no-browser >address &
docs=$!
"$python" - address <<'P'
import pathlib, re, sys, time, urllib.request
deadline = time.monotonic() + 30
while not (found := re.search(r"http://\S+", pathlib.Path(sys.argv[1]).read_text())):
    assert time.monotonic() < deadline, "torchdeck docs printed no address within 30 s"
    time.sleep(0.1)
page = urllib.request.urlopen(found[0], timeout=10).read().decode()
assert "A run hangs" in page, page[:500]
P
kill "$docs"
wait "$docs" || true # ended by that signal
expect 0 "$torchdeck" plan quickstart.toml
expect 0 "$torchdeck" runs list --json
# the clean environment has no torch: launching into it is refused with the reason, before anything starts
expect 3 "$torchdeck" --no-gui quickstart.toml
grep -q torch "$work/output"
# and an interpreter that has torch can be driven from it, with nothing of ours installed there but what is sent
echo 'import torchdeck; torchdeck.log({"loss": 1.5}, step=1); print("shipped from", torchdeck.__file__)' >script.py
expect 0 "$torchdeck" --no-gui --trust --script script.py --nproc 1 --set "run.interpreter='$python'"
grep -q "$work/home/shipped" "$work/output"
"$python" - "$work/dist" <<'P'
import sys, zipfile, pathlib
names = zipfile.ZipFile(next(pathlib.Path(sys.argv[1]).glob("*.whl"))).namelist()
assert any(n.endswith("agent/processes/rank_holder.sh") for n in names), "rank_holder.sh is not in the wheel"
assert not any(n.startswith("tests/") for n in names), "tests are in the wheel"
P
cd "$sources"
echo "the wheel works in a clean environment"
