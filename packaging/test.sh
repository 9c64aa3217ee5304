#!/usr/bin/env bash
# Every check: format, lint, strict types, import rules, tests, and a wheel built, installed clean and used.
#   test.sh [--fast | --soak [doctor]] [--all-tiers] [pytest arguments]
#     --fast         lint, types, import rules and the tests that need nothing of the machine: about two minutes
#     --soak         every variant where a normal run samples by a fixed seed
#     --soak doctor  only the doctor's fault table: every fault in every program, and its rates
#     --all-tiers    fail where a test cannot run on this machine, instead of skipping it; default if CI is set
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/environment.sh
source packaging/environment.sh
# shellcheck source=packaging/pytest_arguments.sh
source packaging/pytest_arguments.sh
set -- "${pytest_arguments[@]}"

# given WORD ARGUMENTS: whether WORD is among them
given() {
  local word=$1
  shift
  [[ " $* " == *" $word "* ]]
}

# Debian packages that tests need, each with what shows that it is there: a command, or a library
need_packages() {
  local missing=() pair libraries PATH=$PATH:/usr/sbin:/sbin # where sshd is, and ip on some
  libraries=$(ldconfig -p)
  for pair in util-linux:mount g++:g++ xvfb:Xvfb xauth:xauth openbox:openbox xdotool:xdotool scrot:scrot fontconfig:fc-list \
    openssh-server:sshd openssh-client:ssh iproute2:ip nftables:nft faketime:faketime openssl:openssl \
    tcsh:tcsh zsh:zsh fish:fish \
    munge:munged slurmctld:slurmctld slurmd:slurmd slurm-client:sbatch \
    libegl1:libEGL.so.1 libgl1:libGL.so.1 libglib2.0-0:libglib-2.0.so.0 libxkbcommon0:libxkbcommon.so.0 \
    libfontconfig1:libfontconfig.so.1 libdbus-1-3:libdbus-1.so.3 libxcb-cursor0:libxcb-cursor.so.0 \
    libxcb-icccm4:libxcb-icccm.so.4 libxcb-keysyms1:libxcb-keysyms.so.1 libxcb-shape0:libxcb-shape.so.0 \
    libxkbcommon-x11-0:libxkbcommon-x11.so.0; do
    command -v "${pair#*:}" >/dev/null 2>&1 || grep -qF "${pair#*:} " <<<"$libraries" || missing+=("${pair%%:*}")
  done
  [[ -n $(fc-list "DejaVu Sans Mono" 2>/dev/null) ]] || missing+=(fonts-dejavu-core)
  [[ -n $(fc-list Inter 2>/dev/null) ]] || missing+=(fonts-inter)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing ${missing[*]}"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  elif [[ -n ${CI:-} ]] || given --all-tiers "$@"; then
    echo "All tests must run. They need these packages, and only root can install them: ${missing[*]}" >&2
    return 3
  else
    echo "Only root can install these packages, so the tests that need them are skipped: ${missing[*]}"
  fi
}

step() {
  echo
  echo "== $1"
  shift
  "$@"
}

checks() {
  step "format" $bin/ruff format --check .
  step "lint" $bin/ruff check .
  step "types" $bin/mypy
  step "import rules" $bin/lint-imports
  [[ $fast == 1 ]] || step "tests are found" collect "$@"
}

# Compiles them, too: workers that begin at once with nothing compiled would each do it for themselves.
collect() {
  local code=0
  $bin/python -m pytest --collect-only -qq --numprocesses 0 "$@" >"$said/collected" 2>&1 || code=$?
  [[ $code == 0 ]] || cat "$said/collected"
  return $code
}

fast=0
! given --fast "$@" || fast=1
[[ $fast == 1 ]] || need_packages "$@"
install_into .venv gui,train,export,dev,docs
collect_seldom .venv
bin=.venv/bin
# each of these keeps one core busy for a minute: side by side, what each says in one piece
said=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$said"' EXIT # Ctrl-C does not reach what runs beside
checks "$@" >"$said/checks" 2>&1 &
checks=$!
if [[ $fast == 1 ]]; then
  tested=0 checked=0
  step "tests" $bin/python -m pytest -q --numprocesses "$(nproc)" --dist loadfile "$@" || tested=$?
  wait $checks || checked=$?
  cat "$said/checks"
  [[ $tested == 0 && $checked == 0 ]] || exit 1
  exit 0
fi
step "wheel" bash packaging/wheel-check.sh "$PWD/$bin/python" >"$said/wheel" 2>&1 &
wheel=$!
deepspeed=0
add_deepspeed .venv .venv-deepspeed || deepspeed=$?
trainers=0
add_trainers .venv .venv-trainers || trainers=$?
checked=0 built=0
wait $checks || checked=$?
wait $wheel || built=$?
cat "$said/checks" "$said/wheel"
[[ $checked == 0 && $built == 0 && $deepspeed == 0 && $trainers == 0 ]] || exit 1
# much of a test is waiting for processes: four workers more than there are cores; a file's tests share what it sets up
step "tests" $bin/python -m pytest --numprocesses "$(($(nproc) + 4))" --dist loadfile "$@"
