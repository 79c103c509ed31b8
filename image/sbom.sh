#!/usr/bin/env bash
# Prints the software bill of materials of the program, in CycloneDX 1.6: each crate that is linked into it, with version,
# licence and the checksum from Cargo.lock, and which crate uses which. The same tree prints the same text.
#
#   image/sbom.sh TARGET        such as x86_64-unknown-linux-musl
#
# Needs cargo and jq. SOURCE_DATE_EPOCH is the time of the document, in seconds since 1970; by default there is none.
set -euo pipefail
export LC_ALL=C
if [ $# -ne 1 ]; then sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
target=$1
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Without the crates that are only run at build time: build scripts, macros, and what they depend on. `cargo tree` knows which
# features of this program are on; `cargo metadata` merges those of the whole workspace.
cargo tree --locked --edges normal,no-proc-macro --target "$target" --package steersman --prefix none --no-dedupe \
  --format '{p}' | awk '{print $1 "@" substr($2, 2)}' | sort -u | jq -R . | jq -s . >"$work/linked"
cargo metadata --locked --format-version 1 --filter-platform "$target" >"$work/metadata"
awk -F'"' '/^name = / {name = $2} /^version = / {version = $2} /^checksum = / {print name "@" version "\t" $2}' Cargo.lock |
  jq -R 'split("\t") | {key: .[0], value: .[1]}' | jq -s from_entries >"$work/checksums"

jq --sort-keys --arg rust "$(rustc --version | cut -d' ' -f2)" --arg epoch "${SOURCE_DATE_EPOCH:-}" --arg target "$target" \
  --slurpfile linked "$work/linked" --slurpfile checksums "$work/checksums" '
  def id: "\(.name)@\(.version)";
  def purl: "pkg:cargo/\(.name)@\(.version)";
  def expression: gsub(" */ *"; " OR ");
  def component(type): {
    type: type, "bom-ref": purl, name, version, purl: purl, description: (.description // "" | gsub("\\s+"; " ")),
    licenses: [.license // empty | {expression: expression}],
    hashes: [$checksums[0][id] // empty | {alg: "SHA-256", content: .}],
    externalReferences: [.repository // empty | select(test("^https?://")) | {type: "vcs", url: .}],
  } | with_entries(select(.value | . != [] and . != ""));

  ($linked[0] | map({key: ., value: true}) | from_entries) as $is_linked
  | [.packages[] | select($is_linked[id])] as $packages
  | ($packages | map({key: .id, value: purl}) | from_entries) as $purls
  | ($packages[] | select(.name == "steersman")) as $program
  | "pkg:generic/rust-std@\($rust)" as $std
  | {
    bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
    metadata: ({
      component: ($program | component("application")),
      properties: [{name: "cargo:target", value: $target}],
    } + if $epoch == "" then {} else {timestamp: ($epoch | tonumber | todate)} end),
    components: ([$packages[] | select(.name != "steersman") | component("library")] + [{
      type: "library", "bom-ref": $std, name: "rust-std", version: $rust, purl: $std,
      description: "The standard library of Rust; for musl with the C library musl",
      licenses: [{expression: "MIT OR Apache-2.0"}],
    }] | sort_by(.purl)),
    dependencies: ([.resolve.nodes[] | select($purls[.id]) | {
      ref: $purls[.id],
      dependsOn: ([.deps[] | select(any(.dep_kinds[]; .kind == null)) | $purls[.pkg] // empty] + [$std] | unique),
    }] | sort_by(.ref)),
  }' "$work/metadata"
