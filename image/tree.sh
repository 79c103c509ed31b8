#!/usr/bin/env bash
# Builds the program and lays out the files of its image in a folder: the program, the link under which it is
# kube-controller-manager, its licence, and its software bill of materials. Nothing else is in the image.
#
#   image/tree.sh TARGET FOLDER            builds the program for a target of Rust, such as x86_64-unknown-linux-musl
#   image/tree.sh TARGET FOLDER BINARY     takes a program that was built before
#
# PROFILE is the profile of the build: `dist`, as it is published, which takes some ten minutes; or another. Two builds of
# the same sources by the same compilers are the same, wherever their folders are. Needs Rust with the target, a C compiler for
# it, and jq.
set -euo pipefail
if [ $# -lt 2 ] || [ $# -gt 3 ]; then sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
target=$1 folder=$(realpath -m "$2") binary=${3:+$(realpath "$3")}
cd "$(dirname "$0")/.."
umask 022

fail() { echo "${0##*/}: $*" >&2; exit 1; }

build() {
  local profile=${PROFILE:-dist} sources=${CARGO_HOME:-$HOME/.cargo} compiler underscored=${target//-/_}
  compiler=CC_$underscored
  compiler=${!compiler:-${target%%-*}-linux-musl-gcc}
  [ -n "$(rustc --print target-libdir --target "$target" 2>/dev/null | xargs -r -I{} find {} -name 'libstd-*' 2>/dev/null)" ] ||
    fail "Rust's standard library for $target is absent: rustup target add $target"
  [[ $target == "$(uname -m)"-* ]] || command -v "${compiler%% *}" >/dev/null ||
    fail "$compiler is absent: set CC_$underscored to a C compiler for $target; see image/README.md"
  # The pages of these processors are of up to 64 KiB. jemalloc must know the largest size when it is built.
  case $target in aarch64-* | powerpc64le-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;; esac
  # Paths of this machine are in the program's messages about panics: they are replaced.
  # Symbols stay, for the names of functions in backtraces.
  env "CARGO_PROFILE_${profile^^}_STRIP=debuginfo" "${CARGO:-cargo}" build --config .cargo/dist.toml \
    --config "target.'cfg(target_env = \"musl\")'.rustflags = [
      '--remap-path-prefix=$sources=/cargo', '--remap-path-prefix=$PWD=/steersman']" \
    --locked --profile "$profile" --package steersman --bin steersman --target "$target" >&2
  [ "$profile" != dev ] || profile=debug
  binary=${CARGO_TARGET_DIR:-target}/$target/$profile/steersman
}

# An ELF file's header has the processor in bytes 18 and 19.
check() {
  local machine
  machine=$(od -An -tu1 -j18 -N1 "$binary" | tr -d ' ')
  case $target:$machine in
    x86_64-*:62 | aarch64-*:183 | riscv64*:243 | powerpc64le-*:21) ;;
    *) fail "$binary is not for $target" ;;
  esac
  ! readelf --program-headers --wide "$binary" | grep -q INTERP || fail "$binary is not static: it needs a dynamic linker"
}

[ -n "$binary" ] || build
check
rm -rf "$folder"
mkdir -p "$folder/usr/local/bin" "$folder/usr/share/doc/steersman"
install -m 755 "$binary" "$folder/steersman"
if readelf --section-headers --wide "$binary" | grep -q '\.debug_info'; then
  # Rust's own objcopy is for files of any processor.
  LD_LIBRARY_PATH=$(rustc --print sysroot)/lib "$(rustc --print target-libdir)/../bin/rust-objcopy" --strip-debug \
    "$folder/steersman"
fi
# The static pod that kubeadm writes starts kube-controller-manager by its name.
ln -s /steersman "$folder/usr/local/bin/kube-controller-manager"
install -m 644 LICENSE "$folder/usr/share/doc/steersman/"
# Scanners find the bill of materials by its ending.
image/sbom.sh "$target" >"$folder/usr/share/doc/steersman/steersman.cdx.json"
