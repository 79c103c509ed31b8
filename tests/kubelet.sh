# The real kubelet, for tests in containers. Source it with KUBEBUILDER_ASSETS, CLUSTER_DIR, KUBECONFIG and RUNTIME_ENDPOINT.
# shellcheck shell=bash

# start_kubelet [LINE...]: node1 of the cluster in CLUSTER_DIR, with these further lines of KubeletConfiguration. `address` is the
# node's, for which the API server's certificate is valid. Returns when the node is ready; `cluster.sh down` stops it.
#
# Unlike the kubelet of `cluster.sh up kubelet`, this one never removes images: on a disk that is four fifths full it would remove
# the sandbox's, which no registry could give back. It evicts pods only when less than 100 MiB of disk are free, since
# builds may have filled the rest.
start_kubelet() {
  address=$(ip -4 -o addr show cni0 | awk '{split($4, a, "/"); print a[1]; exit}')
  {
    cat <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $CLUSTER_DIR/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: $RUNTIME_ENDPOINT
evictionHard: {"nodefs.available": "100Mi", "imagefs.available": "100Mi"}
imageGCHighThresholdPercent: 100
YAML
    [ $# -eq 0 ] || printf '%s\n' "$@"
  } >"$CLUSTER_DIR/kubelet.yaml"
  setsid "$KUBEBUILDER_ASSETS/kubelet" --config "$CLUSTER_DIR/kubelet.yaml" --kubeconfig "$KUBECONFIG" \
    --root-dir "$CLUSTER_DIR/kubelet" --hostname-override node1 --node-ip "$address" >"$CLUSTER_DIR/kubelet.log" 2>&1 </dev/null &
  echo $! >"$CLUSTER_DIR/kubelet.pid"
  for _ in $(seq 120); do
    ! "$KUBEBUILDER_ASSETS/kubectl" get nodes --no-headers 2>/dev/null | grep -qw Ready || return 0
    sleep 0.5
  done
  tail -n 5 "$CLUSTER_DIR/kubelet.log" >&2
  echo "no node is ready after a minute" >&2
  return 1
}
