# The image of Containerfile, for scripts/package: to be sourced after lib.sh and bare_system.sh.
# shellcheck shell=bash

# Builds the image on a Debian that debootstrap makes, as registries may be out of reach, and runs it. Everything is in
# the directory: images, and the systems that they are made in.
#
# usage: check_image DIRECTORY SUITE MIRROR KEEP
check_image() {
  local directory=$1 suite=$2 mirror=$3 keep=$4 temporary='' container started=$SECONDS
  require_debootstrap
  command -v buildah >/dev/null || fail 3 "buildah is missing; run apt-get install buildah"
  [ -n "$mirror" ] || mirror=$(default_mirror "$suite")
  if [ -z "$directory" ]; then
    directory=$(mktemp -d)
    temporary=$directory
  fi
  mkdir -p "$directory"
  system=$directory/$suite-image
  export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
  local source=$system-source storage=(--root "$system-store" --runroot "$system-run")
  if [ "$keep" = no ]; then
    # shellcheck disable=SC2064 # expanded now: the variables are local
    trap "rm -rf --one-file-system $(printf '%q ' "$system" "$system-store" "$system-run" "$system-source" \
      ${temporary:+"$temporary"})" EXIT
  fi
  bare_system "$system" "$suite" "$mirror" main ca-certificates
  inside update-ca-certificates >/dev/null 2>&1
  # What the caches of the package manager hold is fetched anew.
  rm -rf "$system"/var/cache/apt/archives/*.deb
  container=$(buildah "${storage[@]}" from scratch)
  buildah "${storage[@]}" add --quiet "$container" "$system" / >/dev/null
  buildah "${storage[@]}" commit --quiet "$container" localhost/debian-bare >/dev/null
  buildah "${storage[@]}" rm "$container" >/dev/null
  # The build takes what is committed, as a clone has it.
  rm -rf "$source"
  git -c safe.directory='*' clone --quiet --no-hardlinks . "$source"
  step package-image buildah "${storage[@]}" build --pull-never --network host \
    --build-arg DEBIAN=localhost/debian-bare --tag localhost/tzmark --file "$source/Containerfile" "$source"
  rm -rf "$source"
  container=$(buildah "${storage[@]}" from --pull-never localhost/tzmark)
  buildah "${storage[@]}" run "$container" -- tzmark --version
  buildah "${storage[@]}" run "$container" -- tzmark conform | tail -n 1 | tee "$directory/verdict.txt"
  grep -q '^[1-9][0-9]* passed, 0 failed' "$directory/verdict.txt" || fail 1 "tzmark conform did not pass in the image"
  buildah "${storage[@]}" run "$container" -- tzmark bench --list-io
  buildah "${storage[@]}" run "$container" -- python3 -c 'import tzmark; print("import tzmark", tzmark.__version__)'
  [ "$(buildah "${storage[@]}" inspect --format '{{.OCIv1.Config.Entrypoint}}' "$container")" = "[tzmark]" ] ||
    fail 1 "the image does not start tzmark"
  buildah "${storage[@]}" images
  took package-check-image "$started"
}
