# The image of Containerfile, for scripts/package: to be sourced after lib.sh and bare_system.sh.
# system_to_check sets system and notes.
# shellcheck shell=bash disable=SC2154

# Builds the image on a Debian that debootstrap makes, as registries may be out of reach, and runs it. Everything is in
# the directory: images, and the systems that they are made in.
#
# usage: check_image DIRECTORY SUITE MIRROR KEEP
check_image() {
  local directory=$1 suite=$2 mirror=$3 keep=$4 container started=$SECONDS
  command -v buildah >/dev/null || fail 3 "buildah is missing; run apt-get install buildah"
  system_to_check image "$directory" "$suite" "$mirror" "$keep" ca-certificates -source -store -run
  export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
  local source=$system-source storage=(--root "$system-store" --runroot "$system-run")
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
  buildah "${storage[@]}" run "$container" -- tzmark conform | tail -n 1 | tee "$notes/verdict.txt"
  grep -q '^[1-9][0-9]* passed, 0 failed' "$notes/verdict.txt" || fail 1 "tzmark conform did not pass in the image"
  buildah "${storage[@]}" run "$container" -- tzmark bench --list-io
  buildah "${storage[@]}" run "$container" -- python3 -c 'import tzmark; print("import tzmark", tzmark.__version__)'
  [ "$(buildah "${storage[@]}" inspect --format '{{.OCIv1.Config.Entrypoint}}' "$container")" = "[tzmark]" ] ||
    fail 1 "the image does not start tzmark"
  buildah "${storage[@]}" images
  took package-check-image "$started"
}
