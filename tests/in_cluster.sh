#!/usr/bin/env bash
# Runs the images of an archive in a real cluster, in containers: two replicas from manifests/controller-manager beside the real
# kube-controller-manager, with a failover; then, alone, the static pod that kubeadm writes with only its image changed.
#
# Prometheus scrapes both by the ServiceMonitors of manifests/monitoring, over HTTPS with a token, and evaluates kubernetes-mixin's
# alerts and ours.
#
#   tests/in_cluster.sh ARCHIVE [CHAPTER...]
#
# ARCHIVE is what image/pack.sh makes. CHAPTER is the name of a file in tests/in_cluster, without its ending; without any, all
# run, in order. Every step is a line on the standard output, "ok" or "FAILED"; how long things took is told on the standard
# error. The code is 1 if a step failed.
#
# The cluster is made by ../shared/cluster: etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubelet. It has no
# service proxy: a rule of iptables leads 10.0.0.1:443 to the API server. Needs root, curl, jq, openssl, and a free port 10257
# and no /etc/kubernetes on this machine: kubeadm's manifest names both. Prometheus is Debian's package, unless it is on the PATH;
# where it can't be had, that is said and the rest runs. KUBEBUILDER_ASSETS names the folder of Kubernetes's
# programs, RUNTIME_ENDPOINT the socket of a containerd; without it, one is started. MANIFESTS is the folder with the Deployment,
# by default manifests/controller-manager.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
repository=$(dirname "$here")
shared=$repository/../shared
if [ $# -lt 1 ]; then sed -n '2,21s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
archive=$(realpath "$1")
shift
[ -f "$archive" ] || { echo "no such archive: $archive" >&2; exit 2; }
chapters=("$@")
if [ ${#chapters[@]} -eq 0 ]; then
  for file in "$here"/in_cluster/[0-9]*.sh; do chapters+=("$(basename "$file" .sh)"); done
fi
for chapter in "${chapters[@]}"; do
  [ -f "$here/in_cluster/$chapter.sh" ] || { echo "no such chapter: $chapter" >&2; exit 2; }
done
if [ -e /etc/kubernetes ] || [ -L /etc/kubernetes ]; then echo "/etc/kubernetes exists: this machine is a node" >&2; exit 2; fi
if (exec 3<>/dev/tcp/127.0.0.1/10257) 2>/dev/null; then echo "port 10257 is in use" >&2; exit 2; fi
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS
MANIFESTS=$(realpath "${MANIFESTS:-$repository/manifests/controller-manager}")

# Before the trap, whose clean-up calls their functions.
# shellcheck source=tests/day/steps.sh
. "$here/day/steps.sh"
# shellcheck source=tests/in_cluster/steps.sh
. "$here/in_cluster/steps.sh"
# shellcheck source=tests/kubelet.sh
. "$here/kubelet.sh"
# shellcheck source=tests/monitoring/prometheus.sh
. "$here/monitoring/prometheus.sh"

state=$(mktemp -d)
export CLUSTER_DIR=$state/cluster KUBECONFIG=$state/cluster/kubeconfig
rule=() runtime_dir='' made=()
finish() {
  local code=$?
  trap - EXIT
  if [ "$code" -ne 0 ]; then
    k get pods --all-namespaces --output wide >&2 || true
    tail -n 5 "$CLUSTER_DIR/kubelet.log" >&2 || true
    find "$state/logs" -path '*controller-manager*' -name '*.log' -exec tail -n 15 {} + >&2 || true
  fi
  stop_prometheus
  [ ${#rule[@]} -eq 0 ] || iptables -t nat -D "${rule[@]}" || true
  if [ -d "$CLUSTER_DIR" ]; then "$shared/cluster/cluster.sh" down || true; fi
  if [ -n "$runtime_dir" ]; then
    RUNTIME_DIR=$runtime_dir "$shared/cluster/containerd.sh" down || true
    # A shim whose containerd is gone waits for it.
    pgrep -f "^/usr/bin/containerd-shim.* -address $runtime_dir/" | xargs -r kill || true
  fi
  if [ "$(readlink /etc/kubernetes)" = "$state/kubernetes" ]; then rm /etc/kubernetes; fi
  [ ${#made[@]} -eq 0 ] || rmdir --ignore-fail-on-non-empty "${made[@]}" 2>/dev/null || true
  awk -v at="$state/" 'index($2, at) == 1 {print $2}' /proc/mounts | sort -r | xargs -r -n1 umount -l || true
  rm -rf "$state" || true
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The static pod mounts these folders, and the kubelet makes those that are absent.
for folder in /etc/ca-certificates /usr/local/share/ca-certificates /usr/share/ca-certificates; do
  [ -e "$folder" ] || made+=("$folder")
done

if find_prometheus; then watched=1; else watched=''; fi
if [ -z "${RUNTIME_ENDPOINT:-}" ]; then
  runtime_dir=$state/containerd
  eval "$(RUNTIME_DIR=$runtime_dir "$shared/cluster/containerd.sh" up)"
fi
export RUNTIME_ENDPOINT
import "$archive"

export API_PORT ETCD_PORT KCM_PORT CONTROLLERS
API_PORT=$(free_port) ETCD_PORT=$(free_port) KCM_PORT=$(free_port) CONTROLLERS=$(controllers_beside_ours)
"$shared/cluster/cluster.sh" up controller-manager scheduler >&2
rule=(PREROUTING --destination 10.0.0.1/32 --protocol tcp --dport 443 --jump REDIRECT --to-ports "$API_PORT")
iptables -t nat -I "${rule[@]}"
# The folder that kubeadm gives the kubelet for static pods.
mkdir -p "$state/kubernetes/manifests" "$state/kubernetes/pki"
ln -s "$state/kubernetes" /etc/kubernetes
start_kubelet "podLogsDir: $state/logs" "staticPodPath: /etc/kubernetes/manifests"
if [ -n "$watched" ]; then write_rules; prepare_monitoring; fi

namespaces=()
for chapter in "${chapters[@]}"; do
  chapter "$chapter"
  # shellcheck disable=SC2154 # `chapter` sets it
  namespaces+=("$namespace")
  # shellcheck source=/dev/null
  . "$here/in_cluster/$chapter.sh"
done
summary
