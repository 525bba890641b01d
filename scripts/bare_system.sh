# Functions that make a bare Debian or Ubuntu in a directory, for scripts that verify something there. To be sourced
# after lib.sh. They need root and debootstrap.
# shellcheck shell=bash

require_debootstrap() {
  [ "$(id -u)" -eq 0 ] || fail 3 "must run as root, to create a system and change root into it"
  command -v debootstrap >/dev/null || fail 3 "debootstrap is missing; run apt-get install debootstrap"
}

# default_mirror SUITE: prints the address of this machine's mirror with the packages of the suite.
default_mirror() {
  local mirror
  # shellcheck disable=SC2016 # apt expands these
  # One mirror has all releases of Debian, and none of another system.
  mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' |
    awk -v suite="$1" 'function debian(name) { return name ~ /^(bookworm|trixie)$/ }
      $2 == "main" && ($1 == suite || (debian($1) && debian(suite))) { print $3; exit }')
  [ -n "$mirror" ] || fail 3 "this machine has no apt source for $1; specify one with --mirror"
  printf '%s\n' "$mirror"
}

# mirror_answers SYSTEM: whether its package lists can be fetched anew.
mirror_answers() { chroot "$1" apt-get -o APT::Update::Error-Mode=any update >/dev/null 2>&1; }

# bare_system SYSTEM SUITE MIRROR COMPONENTS [PACKAGES]: makes the system, if it is not there complete, with further
# packages, separated by commas.
bare_system() {
  # This mark is created last: a system without it is incomplete.
  local system=$1 mark=$1/.made-by-debootstrap
  if [ -f "$mark" ]; then return; fi
  rm -rf --one-file-system "${system:?}"
  # Everything that it does comes from the mirror.
  (step "debootstrap" debootstrap --variant=minbase --components="$4" ${5:+--include="$5"} "$2" "$system" "$3") ||
    fail 3 "cannot make a bare $2 from $3"
  # The new system uses the name servers and trusted certificates of this machine.
  cp -L /etc/resolv.conf "$system/etc/resolv.conf"
  mkdir -p "$system/usr/local/share/ca-certificates"
  find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$system/usr/local/share/ca-certificates/" \;
  touch "$mark"
}

# system_to_check NAME DIRECTORY SUITE MIRROR KEEP PACKAGES [SUFFIX...]: begins a check: makes a bare system with those
# packages and sets system to its directory, and notes to a new one for what the check writes down. MIRROR and DIRECTORY
# may be empty, for this machine's mirror and a temporary directory. Unless KEEP is yes, both go when the script ends,
# and so does what has the system's name with such a suffix.
system_to_check() {
  local directory=$2 mirror=$4 made=() suffix
  require_debootstrap
  [ -n "$mirror" ] || mirror=$(default_mirror "$3")
  if [ -z "$directory" ]; then
    directory=$(mktemp -d)
    made=("$directory")
  fi
  system=$directory/$3-$1 notes=$directory/$3-$1-notes
  made+=("$system" "$notes")
  for suffix in "${@:7}"; do made+=("$system$suffix"); done
  if [ "$5" = no ]; then
    # Quoted, because a name with a space would be those of two other files.
    # shellcheck disable=SC2064 # expanded now: the variables are local
    trap "rm -rf --one-file-system $(printf '%q ' "${made[@]}")" EXIT
  fi
  rm -rf --one-file-system "${notes:?}"
  mkdir -p "$notes"
  bare_system "$system" "$3" "$mirror" main "$6"
}

# installed_files SYSTEM: prints its files, but for those of the package manager and caches.
installed_files() {
  (
    cd "$1" || exit
    find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./srv -o -path ./tmp -o -path ./var/cache \
      -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/log \) -prune -o -print | LC_ALL=C sort
  )
}

# note_files: notes which files the system to check has before packages are installed.
note_files() {
  installed_files "$system" >"$notes/before.txt"
  if grep tzmark "$notes/before.txt" >&2; then fail 1 "the system has files of tzmark before"; fi
}

# check_nothing_is_left: ends the script if files of the packages stay; packages of others may leave caches.
check_nothing_is_left() {
  installed_files "$system" >"$notes/after.txt"
  diff "$notes/before.txt" "$notes/after.txt" | grep '^> .*tzmark' >"$notes/left.txt" || true
  if [ -s "$notes/left.txt" ]; then
    cat "$notes/left.txt" >&2
    fail 1 "files of the packages stay"
  fi
  echo "removed: nothing is left"
}
