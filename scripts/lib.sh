# Common functions of the scripts in this directory: the root of the checkout, and steps that run with their output in
# a log. To be sourced by bash. Changes the current directory to the root of the checkout.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

# Makes the compiler cache independent of the checkout's path, so that clones share it.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

# Debian's own Python, which finds the packages that scripts/setup installs.
python=/usr/bin/python3
# The Python that renders the pages, for the same reason.
export TZMARK_PYTHON=$python

# fail STATUS TEXT: prints the text on stderr and exits. The statuses are those of tzmark: 2 wrong usage, 3 the
# environment.
fail() {
  printf '%s: %s\n' "${0##*/}" "$2" >&2
  exit "$1"
}

# require_release_number TEXT: ends the script unless the text is a release number of PyPI.
require_release_number() {
  [[ $1 =~ ^[0-9]+(\.[0-9]+)+((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?$ ]] ||
    fail 2 "$(printf %q "$1") is not a release number such as 2.12.1"
}

# project_version: prints the version that CMakeLists.txt states.
project_version() { sed -n 's/^project(tzmark VERSION \([0-9.]*\) .*/\1/p' "$root/CMakeLists.txt"; }

# build_dir PRESET: prints the build directory of the preset in CMakePresets.json.
build_dir() {
  if [ "$1" = release ]; then printf '%s/build\n' "$root"; else printf '%s/build/%s\n' "$root" "$1"; fi
}

# step NAME COMMAND...: runs the command with its output in build/logs/NAME.log, shows how far a build or a test run is,
# and says on one line how long it took. If the command fails, the end of the log is shown and the script ends.
step() {
  local name=$1 started=$SECONDS status=0
  shift
  logged "$name" "$@" || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$root/build/logs/$name.log" >&2 || true
    fail 1 "$name failed with status $status; the whole output is in $root/build/logs/$name.log"
  fi
  took "$name" "$started"
}

# logged NAME COMMAND...: runs the command with its output in build/logs/NAME.log, shows how far it is, and ends as it
# does. What the command leaves running is not waited for.
logged() {
  local name=$1 log=$root/build/logs/$1.log status=0 running progress
  shift
  mkdir -p "${log%/*}" && : >"$log" || return
  # scripts/setup runs before there is a Python.
  if [ ! -x "$python" ]; then
    "$@" >"$log" 2>&1 </dev/null
    return
  fi
  # It follows the log until this shell closes its stdin.
  exec {running}> >(exec "$python" -B scripts/progress.py "$name" "$log" >&2)
  progress=$!
  "$@" >"$log" 2>&1 </dev/null {running}>&- || status=$?
  exec {running}>&-
  wait "$progress" || true
  return "$status"
}

# took NAME STARTED: one line on stderr that says how long it took since SECONDS was STARTED.
took() { printf '%-20s %4d s\n' "$1" $((SECONDS - $2)) >&2; }

# configure PRESET [CMAKE ARGUMENT...]: a compiler cache is used where there is one, and TZMARK_CUDA of the environment
# says whether CUDA kernels are built (AUTO, ON or OFF).
configure() {
  local preset=$1 launcher=()
  shift
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if [ -n "${TZMARK_CUDA-}" ]; then launcher+=(-DTZMARK_CUDA="$TZMARK_CUDA"); fi
  step "configure-$preset" cmake --preset "$preset" -DPython3_EXECUTABLE="$python" ${launcher[@]+"${launcher[@]}"} "$@"
}
