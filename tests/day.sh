#!/usr/bin/env bash
# Walks through what people do with a cluster in a day, and says of each step whether that came of it which comes of it with
# kube-controller-manager.
#
#   tests/day.sh MANAGER [CHAPTER...]
#
# MANAGER is a program: `steersman`, or the real `kube-controller-manager`; it is the only controller manager of the cluster.
# CHAPTER is the name of a file in tests/day, without its ending; without any, all are walked through, in order.
#
# The cluster is made by ../shared/cluster: etcd, kube-apiserver, kube-scheduler, and a kubelet with a container runtime. Where
# NODE names a program `steersman`, its `steersman node` is in the kubelet's place.
# KUBEBUILDER_ASSETS names the folder of Kubernetes' programs, RUNTIME_ENDPOINT the runtime. Every step is a line on the
# standard output, "ok" or "FAILED"; two runs are compared with `diff`. The code is 1 if a step failed.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
shared=$here/../../shared
if [ $# -lt 1 ]; then sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
manager=$1
shift
[ -x "$manager" ] || { echo "no such program: $manager" >&2; exit 2; }
chapters=("$@")
if [ ${#chapters[@]} -eq 0 ]; then
  for file in "$here"/day/[0-9]*.sh; do chapters+=("$(basename "$file" .sh)"); done
fi
for chapter in "${chapters[@]}"; do
  [ -f "$here/day/$chapter.sh" ] || { echo "no such chapter: $chapter" >&2; exit 2; }
done
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS

state=$(mktemp -d)
export CLUSTER_DIR=$state/cluster KUBECONFIG=$state/cluster/kubeconfig
finish() {
  local code=$?
  trap - EXIT
  if [ -n "${agent:-}" ]; then
    kill "$agent" 2>/dev/null || true
    wait "$agent" 2>/dev/null || true
    cp "$state/node.log" "${NODE_LOG:-/dev/null}" || true
  fi
  if [ -n "${running:-}" ]; then
    kill "$running" 2>/dev/null || true
    wait "$running" 2>/dev/null || true
    if [ "$code" -ne 0 ]; then
      tail -n 10 "$state/manager.log" >&2
      if [ -n "${agent:-}" ]; then tail -n 20 "$state/node.log" >&2; else grep -E '^[EW]' "$cluster/kubelet.log" | tail -n 20 >&2 || true; fi
    fi
    cp "$state/manager.log" "${MANAGER_LOG:-/dev/null}" || true
  fi
  "$shared/cluster/cluster.sh" down || true
  rm -rf "$state"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# shellcheck source=tests/day/steps.sh
. "$here/day/steps.sh"
# shellcheck source=tests/kubelet.sh
. "$here/kubelet.sh"

# Starts `steersman node` as node1, with that node's certificate.
start_node() {
  local address
  address=$(ip -4 -o addr show cni0 | awk '{split($4, a, "/"); print a[1]; exit}')
  cat >"$cluster/node.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $cluster/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: $RUNTIME_ENDPOINT
evictionHard: {"nodefs.available": "100Mi", "imagefs.available": "100Mi"}
YAML
  cat >"$cluster/node.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "$(grep -o 'https://[0-9.:]*' "$KUBECONFIG")", insecure-skip-tls-verify: true}}]
users: [{name: node1, user: {client-certificate: $cluster/pki/node1.crt, client-key: $cluster/pki/node1.key}}]
contexts: [{name: local, context: {cluster: local, user: node1}}]
current-context: local
YAML
  "$NODE" node --config "$cluster/node.yaml" --kubeconfig "$cluster/node.kubeconfig" --root-dir "$cluster/kubelet" \
    --cert-dir "$cluster/node-pki" --hostname-override node1 --node-ip "$address" >"$state/node.log" 2>&1 </dev/null &
  agent=$!
}

cluster=$CLUSTER_DIR
API_FLAGS=--enable-bootstrap-token-auth "$shared/cluster/cluster.sh" up scheduler >&2
# shellcheck disable=SC2119 # it needs no more configuration
if [ -n "${NODE:-}" ]; then start_node; else start_kubelet; fi
flags=(--kubeconfig "$KUBECONFIG" --leader-elect=false --use-service-account-credentials
  '--controllers=*,bootstrap-signer-controller,token-cleaner-controller'
  --root-ca-file "$cluster/certs/apiserver.crt" --service-account-private-key-file "$cluster/sa.key"
  --cluster-signing-cert-file "$cluster/pki/ca.crt" --cluster-signing-key-file "$cluster/pki/ca.key"
  --allocate-node-cidrs --cluster-cidr 10.96.0.0/16 --node-cidr-mask-size 24 --service-cluster-ip-range 10.0.0.0/24
  --node-monitor-grace-period 12s --node-eviction-rate 10 --pvclaimbinder-sync-period 5s
  --terminated-pod-gc-threshold 200 --kube-api-qps 200 --kube-api-burst 400)
case $(basename "$manager") in
  kube-controller-manager) command=("$manager" "${flags[@]}" --secure-port 0 --cert-dir "$state") ;;
  *) command=("$manager" controller-manager "${flags[@]}" --secure-port 0) ;;
esac
"${command[@]}" >"$state/manager.log" 2>&1 </dev/null &
running=$!

for chapter in "${chapters[@]}"; do
  chapter "$chapter"
  # shellcheck source=/dev/null
  . "$here/day/$chapter.sh"
  kill -0 "$running" || { echo "the manager ended" >&2; exit 1; }
done
summary
