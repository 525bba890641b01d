# The packages of rpm, for scripts/package: to be sourced after lib.sh and bare_system.sh.
# system_to_check sets system and notes.
# shellcheck shell=bash disable=SC2154

# make_rpm STAGE: builds the packages in that directory, and puts them out.
make_rpm() {
  local stage=$1 tool launcher=()
  for tool in cpack rpmbuild rpmlint; do
    command -v "$tool" >/dev/null || fail 3 "$tool is missing; run apt-get install cmake rpm rpmlint"
  done
  rm -rf "$stage"
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  # As the wheel: the C++ library is part of the programs, so that they run on other systems than this one. Kernels for
  # GPUs are left to who asks for them, and so is MPI, of which each system has its own.
  step package-rpm-configure cmake -S . -B "$stage/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_SKIP_RPATH=ON -DTZMARK_CUDA="${TZMARK_CUDA:-OFF}" -DTZMARK_MPI=OFF -DTZMARK_PYTHON=OFF \
    -DTZMARK_STATIC_CXX=ON -DTZMARK_BUILD_TESTS=OFF -DTZMARK_BUILD_FUZZERS=OFF ${launcher[@]+"${launcher[@]}"}
  step package-rpm-build cmake --build "$stage/build"
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) TZMARK_BUILD_DIR=$stage/build TZMARK_VERSION=$(project_version) \
    step package-rpm cpack --config packaging/rpm/CPackConfig.cmake -B "$stage/packages"
  step package-rpmlint rpmlint --strict --config packaging/rpm/rpmlint.toml "$stage"/packages/*.rpm
  put_out "$stage"/packages/*.rpm
}

# The packages in a bare system of Debian, for want of another one: they need no library that is not named, they work,
# and nothing stays when they are removed.
#
# usage: check_rpm PACKAGES DIRECTORY SUITE MIRROR KEEP
check_rpm() {
  local out=$1 directory=$2 suite=$3 mirror=$4 keep=$5 files=() library libraries
  files=("$out"/tzmark-[0-9]*.x86_64.rpm "$out"/tzmark-corpus-*.noarch.rpm)
  [[ -f ${files[0]} && -f ${files[-1]} ]] || fail 2 "there are no packages of rpm; run scripts/package rpm"
  # Which of several would be judged?
  library=${files[0]##*/tzmark-}
  [[ ${#files[@]} -eq 2 && ${files[1]} == *"/tzmark-corpus-${library%.x86_64.rpm}.noarch.rpm" ]] ||
    fail 2 "$out has packages of several builds"
  case $suite in
    bookworm) libraries=libtinyxml2-9,libssl3,libcurl4 ;;
    trixie) libraries=libtinyxml2-11,libssl3t64,libcurl4t64 ;;
    *) fail 2 "the libraries of $suite are not known here" ;;
  esac
  system_to_check rpm "$directory" "$suite" "$mirror" "$keep" \
    "rpm,libsodium23,libisal2,liburing2,zlib1g,$libraries"
  if [ -e "$system/usr/bin/c++" ]; then fail 1 "the bare system has a compiler"; fi
  rm -rf "$system/srv/packages"
  mkdir -p "$system/srv/packages"
  cp "${files[@]}" "$system/srv/packages"
  # A system that was kept has them.
  inside sh -c 'rpm --erase tzmark tzmark-corpus 2>/dev/null || true'
  note_files

  inside sh -c 'rpm --query --package --requires /srv/packages/tzmark-[0-9]*.rpm' >"$notes/requires.txt"
  # Such as libsodium.so.23()(64bit) or libc.so.6(GLIBC_2.34)(64bit).
  grep -o '^lib[^(]*\.so\.[0-9]*' "$notes/requires.txt" | sort -u >"$notes/libraries.txt"
  [ "$(wc -l <"$notes/libraries.txt")" -ge 5 ] || fail 1 "the package names hardly a library that it needs"
  while IFS= read -r library; do
    [ -n "$(find "$system/lib" "$system/usr/lib" -name "$library" -print -quit)" ] ||
      fail 1 "the package needs $library, which is not among those that docs/installing.md names"
  done <"$notes/libraries.txt"
  printf 'needs: %s\n' "$(tr '\n' ' ' <"$notes/libraries.txt")"

  # The system's own packages are not those of rpm.
  inside sh -c 'rpm --install --nodeps /srv/packages/*.rpm'
  inside tzmark --version
  inside tzmark conform | tail -n 1 | tee "$notes/verdict.txt"
  grep -q '^[1-9][0-9]* passed, 0 failed' "$notes/verdict.txt" || fail 1 "tzmark conform did not pass"
  inside tzmark bench --list-io
  inside sh -c 'rpm --verify --nodeps tzmark tzmark-corpus' || fail 1 "installed files are not those of the packages"
  inside rpm --erase tzmark-corpus tzmark
  check_nothing_is_left
}
