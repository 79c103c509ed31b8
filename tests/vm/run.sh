#!/usr/bin/env bash
# The node agent on a machine of its own: a virtual one with systemd, version 2 of control groups and containerd, with either
# cgroup driver, and beside the kubelet.
#
#   tests/vm/run.sh [systemd|cgroupfs]...   by default both; what is checked is in guest.sh
#
# Needs root on Debian; cargo, strip, qemu-system-x86_64, debootstrap and mke2fs; and KUBEBUILDER_ASSETS, a folder with kubectl,
# kubelet, etcd and kube-apiserver. Where the processor virtualizes it takes some minutes; else the machine is imitated by a
# program, and it takes an hour.
#
# Settings: VM_CACHE, where the image is kept that is made once from Debian's packages, some 3 GB (default ~/.cache/steersman-vm);
# VM_TESTS, which of the tests in tests/node run there: part of a name, by default all of them, `none` for none.
set -euo pipefail
cd "$(dirname "$0")/../.."
drivers=${*:-systemd cgroupfs}
cache=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/steersman-vm}
packages=systemd,systemd-sysv,dbus,udev,kmod,procps,iproute2,iptables,containerd,runc,containernetworking-plugins,busybox-static
packages+=,openssl,curl,conntrack,ca-certificates,initramfs-tools,linux-image-cloud-amd64

missing=()
[ "$(id -u)" = 0 ] || missing+=(root)
for program in cargo strip qemu-system-x86_64 debootstrap mke2fs apt-get; do
  command -v "$program" >/dev/null || missing+=("$program")
done
for program in kubectl kubelet etcd kube-apiserver; do
  [ -x "${KUBEBUILDER_ASSETS:-/nowhere}/$program" ] || missing+=("$program in KUBEBUILDER_ASSETS")
done
if [ "${#missing[@]}" -gt 0 ]; then
  printf 'needs %s\n' "${missing[@]}" >&2
  exit 2
fi
for driver in $drivers; do
  case $driver in systemd | cgroupfs) ;; *) echo "no such driver: $driver" >&2; exit 2 ;; esac
done

# Of the release that this machine has, from where this machine has its packages: what is compiled here runs there.
image=$cache/$(sha256sum <<<"$packages" | cut -c1-12)
if [ ! -e "$image/done" ]; then
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $suite" "Created-By: Packages" | sort -u | head -n 1)
  rm -rf "$image" && mkdir -p "$image"
  echo "Making a machine of $suite from $mirror"
  debootstrap --variant=minbase --include="$packages" "$suite" "$image/root" "$mirror" >"$image/debootstrap.log"
  cat >"$image/root/etc/systemd/system/guest.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mount -o ro /dev/vdb /mnt && exec /mnt/guest.sh'
ExecStopPost=/bin/systemctl poweroff --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
UNIT
  ln -s /etc/systemd/system/guest.service "$image/root/etc/systemd/system/multi-user.target.wants/"
  # Two get in the way of the console; containerd starts when it is configured.
  chroot "$image/root" systemctl mask --quiet serial-getty@ttyS0.service containerd.service systemd-timesyncd.service
  printf 'vm\n' >"$image/root/etc/hostname"
  printf '127.0.0.1 localhost vm\n' >"$image/root/etc/hosts"
  cp "$image"/root/boot/vmlinuz-* "$image/kernel"
  cp "$image"/root/boot/initrd.img-* "$image/initrd"
  mke2fs -q -t ext4 -d "$image/root" "$image/disk" 8G
  rm -rf "$image/root"
  touch "$image/done"
fi

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
cargo build --locked
cargo test --locked --test node --no-run 2>&1 | tee "$state/build"
test=$(sed -n 's/.*Executable.*(\(.*\))/\1/p' "$state/build")
mkdir "$state/payload"
cp tests/vm/guest.sh tests/vm/groups.sh examples/job.yaml "$state/payload"
cp -L "$KUBEBUILDER_ASSETS"/{kubectl,kubelet,etcd,kube-apiserver} "$state/payload"
strip -o "$state/payload/steersman" "target/debug/steersman"
strip -o "$state/payload/node-tests" "$test"
patience=1 accelerator=kvm
if [ ! -w /dev/kvm ] || ! grep -qwE 'vmx|svm' /proc/cpuinfo; then
  patience=10 accelerator=tcg
  echo "This machine does not virtualize: imitating one"
fi
cat >"$state/payload/settings" <<SETTINGS
drivers="$drivers" tests="${VM_TESTS:-}" program=$PWD/target/debug/steersman
export TEST_PATIENCE=$patience
SETTINGS
mke2fs -q -t ext4 -d "$state/payload" "$state/payload.disk" 3G

timeout 3h qemu-system-x86_64 -accel "$accelerator" -cpu max -smp 2 -m 4096 -nodefaults -no-reboot -display none -serial stdio \
  -kernel "$image/kernel" -initrd "$image/initrd" \
  -append "root=/dev/vda rw console=ttyS0 quiet loglevel=0 systemd.unified_cgroup_hierarchy=1 systemd.show_status=false" \
  -drive "file=$image/disk,format=raw,if=virtio,snapshot=on" -drive "file=$state/payload.disk,format=raw,if=virtio,readonly=on" \
  -device virtio-rng-pci </dev/null | sed -u 's|\r$||' | tee "$state/console"
grep -qx 'all passed' "$state/console"
