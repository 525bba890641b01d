# Debian's packages, for scripts/package: to be sourced after lib.sh and bare_system.sh.
# system_to_check sets system and notes.
# shellcheck shell=bash disable=SC2154

readonly deb_packages=(tzmark tzmark-mpi tzmark-corpus libtzmark-dev python3-tzmark)

# debian_source SOURCE: puts the files of this checkout there, and what Debian's tools need of them at the top.
debian_source() {
  local source=$1 version committed
  version=$(project_version)
  committed=$(git log -1 --format=%ct)
  rm -rf "$source"
  mkdir -p "$source"
  git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - --ignore-failed-read |
    tar --extract --directory "$source"
  cp -R packaging/debian "$source/debian"
  git describe --always --dirty --abbrev=12 >"$source/debian/commit"
  {
    printf 'tzmark (%s) unstable; urgency=medium\n\n' "$version"
    printf '  * What is new is in CHANGELOG.md of the source.\n\n'
    printf ' -- The tzmark authors <tzmark@users.noreply.github.com>  %s\n' \
      "$(date --utc --rfc-email --date="@$committed")"
  } >"$source/debian/changelog"
}

# make_deb STAGE: builds the packages in that directory, and puts them out.
make_deb() {
  local stage=$1 tool
  for tool in dpkg-buildpackage dh lintian; do
    command -v "$tool" >/dev/null || fail 3 "$tool is missing; run apt-get install dpkg-dev debhelper dh-python lintian"
  done
  rm -rf "$stage"
  debian_source "$stage/tzmark"
  (
    cd "$stage/tzmark" || exit
    dpkg-checkbuilddeps 2>&1 || exit 3
  ) || fail 3 "the packages above are missing; run apt-get build-dep '$stage/tzmark'"
  if command -v ccache >/dev/null; then
    # The helper gives the build a home directory of its own.
    CCACHE_DIR=$(ccache --get-config cache_dir) CCACHE_BASEDIR=$stage/tzmark
    export CCACHE_DIR CCACHE_BASEDIR PATH=/usr/lib/ccache:$PATH
  fi
  (
    cd "$stage/tzmark" || exit
    # Without the packages of symbols, which are four times as large as the others.
    export DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS-}"
    step package-deb dpkg-buildpackage --build=binary --no-sign
  )
  step package-lintian lintian --fail-on error,warning --info --allow-root "$stage"/tzmark_*.changes
  put_out "$stage"/*.deb
}

# The packages in a bare system where nothing else is installed: they work, nothing stays when they are removed, and the
# tests that they bring pass.
#
# usage: check_deb PACKAGES STAGE DIRECTORY SUITE MIRROR KEEP
check_deb() {
  local out=$1 stage=$2 directory=$3 suite=$4 mirror=$5 keep=$6 name files=()
  for name in "${deb_packages[@]}"; do
    files+=("$out/${name}"_*.deb)
    [ -f "${files[-1]}" ] || fail 2 "there is no package $name; run scripts/package deb"
  done
  # Which of several would be judged?
  [ ${#files[@]} -eq ${#deb_packages[@]} ] || fail 2 "$out has packages of several builds"
  command -v autopkgtest >/dev/null || fail 3 "autopkgtest is missing; run apt-get install autopkgtest"
  system_to_check deb "$directory" "$suite" "$mirror" "$keep" ca-certificates
  inside update-ca-certificates >/dev/null 2>&1
  inside apt-get -o APT::Update::Error-Mode=any update >/dev/null
  rm -rf "$system/srv/packages"
  mkdir -p "$system/srv/packages"
  cp "${files[@]}" "$system/srv/packages"
  # A system that was kept has them.
  inside sh -c 'apt-get purge -y --autoremove "*tzmark*" >/dev/null 2>&1 || true'
  note_files

  # shellcheck disable=SC2016 # the inner shell expands these
  step package-install inside sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y /srv/packages/*.deb'
  inside tzmark --version
  inside tzmark conform | tail -n 1 | tee "$notes/verdict.txt"
  grep -q '[1-9][0-9]* passed, 0 failed' "$notes/verdict.txt" || fail 1 "tzmark conform did not pass"
  inside tzmark bench --list-io
  inside python3 -c 'import tzmark; print("import tzmark", tzmark.__version__)'

  step package-remove inside sh -c 'DEBIAN_FRONTEND=noninteractive apt-get purge -y --autoremove "*tzmark*"'
  check_nothing_is_left

  debian_source "$stage/tzmark"
  # It mounts nothing in the system itself.
  # shellcheck disable=SC2016 # the inner shell expands these
  step package-autopkgtest unshare --mount --propagation private bash -euc '
    mount -t proc proc "$1/proc"
    shift
    exec autopkgtest "$@"
  ' autopkgtest "$system" --apt-upgrade "${files[@]}" "$stage/tzmark/" -- chroot "$system"
  sed -n '/summary$/,$p' "build/logs/package-autopkgtest.log"
}
