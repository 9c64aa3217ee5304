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

# install_stamp EXTRAS: what an installation depends on; kept in VENV/.torchdeck-installed.
install_stamp() {
  echo "$1 $(cat pyproject.toml packaging/constraints.txt | cksum) $PWD"
}

# install_into VENV EXTRAS: an editable install with the tested versions; skipped when nothing changed since the last one.
install_into() {
  local venv=$1 extras=$2 stamp wanted python
  stamp=$venv/.torchdeck-installed
  wanted=$(install_stamp "$extras")
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

# add_beside VENV BESIDE INSTALL WHAT INSTEAD: what INSTALL VENV BESIDE installs, in BESIDE, an environment of its own
# that sees VENV's packages; skipped when nothing changed since. Where it cannot be had, one sentence says INSTEAD.
add_beside() {
  local venv=$1 beside=$2 install=$3 what=$4 instead=$5 stamp wanted
  stamp=$beside/.torchdeck-installed
  wanted="$(cat packaging/constraints.txt packaging/trainers.txt | cksum) $PWD $("$venv/bin/python" -VV)"
  if [[ -f $stamp && $(cat "$stamp") == "$wanted" ]]; then
    return
  fi
  echo "Adding $what in $beside"
  if "$install" "$venv" "$beside" >"$beside.log" 2>&1; then
    rm -f "$beside.log"
    echo "$wanted" >"$stamp"
  else
    rm -rf "$beside"
    echo "$instead; $beside.log says why" >&2
  fi
}

# add_deepspeed VENV BESIDE: DeepSpeed for the CPU.
# It stays out of VENV because it needs a build and warns when imported; it is installed without resolving what it
# depends on, so that torch is never replaced.
add_deepspeed() {
  add_beside "$1" "$2" install_deepspeed "DeepSpeed, for the tests that compare with it," \
    "DeepSpeed could not be built here, so its tests are skipped"
}

# What DeepSpeed compiles at its first use: minutes on a busy machine, which no test has.
built_at_first_use='
from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder
ShareMemCommBuilder().load(verbose=False)
'

# install_deepspeed VENV BESIDE: fails where a step of it fails.
install_deepspeed() {
  local venv=$1 beside=$2
  local pip=("$venv/bin/python" -m pip --python "$beside/bin/python" install --no-deps -c packaging/constraints.txt)
  make_beside "$venv" "$beside" &&
    "${pip[@]}" wheel setuptools ninja einops hjson msgpack py-cpuinfo tqdm &&
    DS_BUILD_OPS=0 DS_ACCELERATOR=cpu "${pip[@]}" --no-build-isolation deepspeed &&
    PATH=$PWD/$beside/bin:$PATH DS_ACCELERATOR=cpu "$beside/bin/python" -c "$built_at_first_use"
}

# add_trainers VENV BESIDE: the training programs of packaging/trainers.txt, for the tests that launch them unchanged.
add_trainers() {
  add_beside "$1" "$2" install_trainers "Hugging Face, Lightning and torchtitan, for the tests that launch them," \
    "These could not be installed here, so the tests that launch them are skipped"
}

# install_trainers VENV BESIDE: fails where a step of it fails.
install_trainers() {
  local venv=$1 beside=$2
  make_beside "$venv" "$beside" &&
    "$venv/bin/python" -m pip --python "$beside/bin/python" install --no-deps -r packaging/trainers.txt &&
    "$beside/bin/python" -c 'import transformers, accelerate, lightning'
}

# collect_seldom VENV: for tests, which start a thousand processes with torch. Python's garbage collector goes through all
# that is imported again and again, which is a fifth of the time that torch, transformers or Lightning take.
collect_seldom() {
  local sites
  sites=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') &&
    echo 'import gc; gc.set_threshold(20_000, 10, 10)' >"$sites/torchdeck-collect-seldom.pth"
}

# make_beside VENV BESIDE: a new environment in BESIDE that sees VENV's packages, for tests.
make_beside() {
  local venv=$1 beside=$2 sites
  rm -rf "$beside" &&
    "$venv/bin/python" -m venv --without-pip "$beside" &&
    collect_seldom "$beside" &&
    sites=$("$beside/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') &&
    "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$sites/torchdeck-venv.pth"
}
