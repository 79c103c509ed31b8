# shellcheck shell=bash
# What the scripts that run a node agent share, beside common.sh: they source it. Needs root.

# The control group for all that agents make, in each hierarchy there is.
cgroup=steersman-bench-$$
groups() {
  local hierarchies=(/sys/fs/cgroup)
  [ -e /sys/fs/cgroup/cgroup.controllers ] || hierarchies=(/sys/fs/cgroup/*/)
  readlink -f "${hierarchies[@]}" | sort -u | sed "s|\$|/$cgroup|"
}

trap finish EXIT
finish() {
  local status=$? pid
  for pid in "${started[@]}"; do stop "$pid"; done # or it would start again what is killed here
  RUNTIME_DIR=$state/containerd "$shared/cluster/containerd.sh" down
  for group in $(groups); do find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
  awk -v at="$state/" 'index($2, at) == 1 {print $2}' /proc/mounts | sort -r | xargs -r -n1 umount -l || true
  (exit "$status") || true
  [ "$status" -eq 0 ] || tail -n 5 "$state/containerd/containerd.log" >&2 || true
  clean_up
}

# start_runtime: a fresh containerd; `runtime` is its socket, `address` the machine's on the pods' network.
start_runtime() {
  local group file
  say "starting containerd"
  runtime=$(RUNTIME_DIR=$state/containerd "$shared/cluster/containerd.sh" up | sed -n 's/^export RUNTIME_ENDPOINT=//p')
  address=$(ip -4 -o addr show cni0 | awk '{split($4, a, "/"); print a[1]; exit}')
  for group in $(groups); do
    mkdir -p "$group"
    # A group of processors is empty until somebody fills it in.
    for file in cpuset.cpus cpuset.mems; do
      [ -e "$group/cgroup.controllers" ] || [ ! -e "$group/$file" ] || cat "$group/../$file" >"$group/$file"
    done
  done
}

# agent_arguments NAME: writes what an agent is told, the same for all, and fills in `agent_arguments`. NAME's files are its own.
# The port is another than the kubelet's own, and so are the folder of logs and the control groups: an agent of this machine's
# may have those.
agent_arguments() {
  cat >"$state/agent.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $state/cluster/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupRoot: /$cgroup
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: $runtime
evictionHard: {"nodefs.available": "100Mi", "imagefs.available": "100Mi"}
port: $(free_port)
healthzPort: 0
podLogsDir: $state/pod-logs
YAML
  # shellcheck disable=SC2034 # the scripts use it
  agent_arguments=(--config "$state/agent.yaml" --kubeconfig "$KUBECONFIG" --root-dir "$state/cluster/$1"
    --cert-dir "$state/cluster/$1-pki" --hostname-override node1 --node-ip "$address")
}
