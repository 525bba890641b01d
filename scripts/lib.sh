# What the scripts beside this file share: where the checkout is, and how a step runs quietly with its whole output
# kept. To be sourced by bash. Moves the caller into the root of the checkout.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

# The compiler cache must not care where the checkout lies, so that clones share it.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

# Debian's own Python: it is the one that sees the packages which scripts/setup installs.
python=/usr/bin/python3
# What renders the pages, for the same reason.
export TZMARK_PYTHON=$python

# fail STATUS TEXT: one line on stderr, and out. The statuses are those of tzmark: 2 wrong usage, 3 the environment.
fail() {
  printf '%s: %s\n' "${0##*/}" "$2" >&2
  exit "$1"
}

# require_release_number TEXT: ends the script unless the text is how PyPI writes the number of a release.
require_release_number() {
  [[ $1 =~ ^[0-9]+(\.[0-9]+)+((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?$ ]] ||
    fail 2 "$(printf %q "$1") is not the number of a release, such as 2.12.1"
}

# build_dir PRESET: where CMakePresets.json puts that preset's build.
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
    tail -n 40 "$root/build/logs/$name.log" >&2
    fail 1 "$name failed with status $status; the whole output is in $root/build/logs/$name.log"
  fi
  took "$name" "$started"
}

# logged NAME COMMAND...: runs the command with its output in build/logs/NAME.log and shows how far it is. Ends as it does.
logged() {
  local log=$root/build/logs/$1.log
  mkdir -p "${log%/*}"
  "${@:2}" 2>&1 </dev/null | "$python" -B scripts/progress.py "$1" "$log"
  return "${PIPESTATUS[0]}"
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
