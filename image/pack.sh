#!/usr/bin/env bash
# Packs the program into an archive of OCI images, without a container engine and without root: an OCI layout in a tar, for
# `ctr images import`, `podman load`, `docker load` or `skopeo copy oci-archive:`.
#
#   image/pack.sh [--target TARGET] [--name NAME[:TAG]] [--output FILE] [--binary PROGRAM]
#
#   --target   a target of Rust whose toolchain is installed; by default musl on this machine's processor
#   --name     by default docker.io/library/steersman, with the program's version for a tag
#   --output   by default target/image/steersman-VERSION-ARCHITECTURE.tar; the bill of materials is written beside it
#   --binary   a static program that was built before; by default it is built, as image/tree.sh tells
#
# The archive has two images of the same files: NAME:TAG, whose user is not root, and NAME:TAG-root, for the static pod that
# kubeadm writes: it names no user, and only root may read the files in /etc/kubernetes.
#
# The same commit and the same compilers give the same digests. All times are SOURCE_DATE_EPOCH, by default the time of the
# commit. Needs GNU tar and gzip, jq, binutils, and what image/tree.sh needs.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
repository=$(dirname "$here")
usage() { sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }

target=$(uname -m)-unknown-linux-musl name=docker.io/library/steersman output='' binary=''
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --target) target=$2 ;;
    --name) name=$2 ;;
    --output) output=$(realpath -m "$2") ;;
    --binary) binary=$(realpath "$2") ;;
    *) usage ;;
  esac
  shift 2
done
case $target in
  x86_64-*) architecture=amd64 ;;
  aarch64-*) architecture=arm64 ;;
  riscv64*) architecture=riscv64 ;;
  powerpc64le-*) architecture=ppc64le ;;
  *) echo "${0##*/}: no architecture of OCI is known for $target" >&2; exit 2 ;;
esac

cd "$repository"
umask 022
program=$(cargo metadata --locked --no-deps --format-version 1 | jq '.packages[] | select(.name == "steersman")')
version=$(jq -r .version <<<"$program")
[[ ${name##*/} == *:* ]] || name=$name:$version
output=${output:-$repository/target/image/steersman-$version-$architecture.tar}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# With "-dirty" where files differ from the commit.
revision=$(git describe --always --dirty --abbrev=40 --exclude='*')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/oci/blobs/sha256"

# archive FOLDER: a tar of all in it that is the same whenever, wherever and by whomever it is made.
archive() {
  (cd "$1" && tar --create --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -- *)
}

sha256() { sha256sum | cut -d' ' -f1; }

# blob: stores the standard input; prints its digest and size as fields of JSON.
blob() {
  local digest
  cat >"$work/blob"
  digest=$(sha256 <"$work/blob")
  mv "$work/blob" "$work/oci/blobs/sha256/$digest"
  jq -cn --arg digest "sha256:$digest" --argjson size "$(stat -c %s "$work/oci/blobs/sha256/$digest")" '{$digest, $size}'
}

# image NAME USER: stores an image of the layer; prints its entry of the index.
image() {
  local config
  config=$(jq -cS --arg user "$2" --arg architecture "$architecture" --arg content "sha256:$content" --arg revision "$revision" '
    (env.SOURCE_DATE_EPOCH | tonumber | todate) as $created
    | {
      $created, $architecture, os: "linux",
      config: {
        User: $user, Env: ["PATH=/usr/local/bin"], WorkingDir: "/", Entrypoint: ["/steersman"],
        Labels: ({
          "org.opencontainers.image.title": .name,
          "org.opencontainers.image.description": .description,
          "org.opencontainers.image.source": .repository,
          "org.opencontainers.image.version": .version,
          "org.opencontainers.image.revision": $revision,
          "org.opencontainers.image.licenses": .license,
          "org.opencontainers.image.created": $created,
        } | with_entries(select(.value))),
      },
      rootfs: {type: "layers", diff_ids: [$content]},
      history: [{$created, created_by: "image/pack.sh"}],
    }' <<<"$program" | blob)
  jq -cnS --argjson config "$config" --argjson layer "$layer" '{
    schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: ($config + {mediaType: "application/vnd.oci.image.config.v1+json"}),
    layers: [$layer + {mediaType: "application/vnd.oci.image.layer.v1.tar+gzip"}],
  }' | blob | jq -c --arg name "$1" --arg architecture "$architecture" '. + {
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    platform: {$architecture, os: "linux"},
    annotations: {
      "io.containerd.image.name": $name,
      "org.opencontainers.image.ref.name": ($name | split(":") | last),
    },
  }'
}

"$here/tree.sh" "$target" "$work/tree" ${binary:+"$binary"}
archive "$work/tree" >"$work/layer"
content=$(sha256 <"$work/layer")
layer=$(gzip --no-name --best <"$work/layer" | blob)
# The user is nobody, as in manifests/, and a number, since the image has no /etc/passwd.
{
  image "$name" 65534:65534
  image "$name-root" 0:0
} | jq -cs '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}' >"$work/oci/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/oci/oci-layout"

mkdir -p "$(dirname "$output")"
archive "$work/oci" >"$output"
cp "$work/tree/usr/share/doc/steersman/steersman.cdx.json" "${output%.tar}.cdx.json"
echo "$output: $(($(stat -c %s "$output") / 1000)) kB, of files of $(($(stat -c %s "$work/layer") / 1000)) kB"
jq -r '.manifests[] | "\(.digest) \(.annotations["io.containerd.image.name"])"' "$work/oci/index.json"
