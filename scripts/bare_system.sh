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
