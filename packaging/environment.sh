# Sourced by quickstart.sh and test.sh: finds a Python, makes .venv beside the sources, installs into it once.
# shellcheck shell=bash

# Prints the first Python on this machine that is new enough; says what is missing and fails otherwise.
find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  echo "Torchdeck needs Python 3.11 or newer, and found none. Install one, or name it: PYTHON=/path/to/python bash $0" >&2
  return 3
}

# install_into VENV EXTRAS: an editable install with the tested versions; skipped when nothing changed since the last one.
install_into() {
  local venv=$1 extras=$2 stamp wanted python
  stamp=$venv/.torchdeck-installed
  wanted="$extras $(cat pyproject.toml packaging/constraints.txt | cksum) $PWD"
  if [[ -f $stamp && $(cat "$stamp") == "$wanted" ]]; then
    return
  fi
  python=$(find_python)
  if [[ ! -x $venv/bin/python ]]; then
    echo "Making $venv with $("$python" --version)"
    "$python" -m venv "$venv" || {
      echo "Python could not make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2
      return 3
    }
  fi
  echo "Installing Torchdeck with ${extras//,/, } (PyTorch is large; the first time takes a few minutes)"
  # torch by its exact version first: a range would take whatever is newest, and its gigabytes
  "$venv/bin/python" -m pip install --quiet "$(grep '^torch==' packaging/constraints.txt)"
  "$venv/bin/python" -m pip install --quiet -c packaging/constraints.txt --editable ".[$extras]"
  echo "$wanted" >"$stamp"
}
