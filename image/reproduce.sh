#!/usr/bin/env bash
# Shows that the image is reproducible: builds and packs the current commit twice, from clones in two folders, and compares the
# archives byte by byte.
#
#   image/reproduce.sh [OPTION...]         options of image/pack.sh, but for --output and --binary
#
# Needs what image/pack.sh needs, and twice the time of its build; the environment variable PROFILE works here as well.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
trap 'exit 130' INT TERM
unset CARGO_TARGET_DIR

for clone in first another/second; do
  git clone --quiet "$repository" "$state/$clone"
  "$state/$clone/image/pack.sh" "$@" --output "$state/$(basename "$clone").tar"
  rm -rf "${state:?}/$clone"
done
cmp "$state/first.tar" "$state/second.tar"
echo "both archives are the same"
