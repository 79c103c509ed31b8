#!/usr/bin/env bash
# What run.sh has the virtual machine do, as root, with nothing else on it: prints a line for each check, and "all passed".
set -uo pipefail
. /mnt/settings
export PATH=/mnt:$PATH KUBECONFIG=/root/data/kubeconfig HOME=/root
socket=unix:///run/containerd/containerd.sock
failures=0

check() { # check NAME COMMAND...
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "ok      $driver: $name"
  else
    echo "FAILED  $driver: $name"
    tail -n 30 <<<"$said"
    journalctl --no-pager --quiet -n 15 -u agent -o cat
    failures=$((failures + 1))
  fi
}

until_so() { # until_so COMMAND...: for as long as a slow machine may take
  local _
  for _ in $(seq $((TEST_PATIENCE * 120))); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.5
  done
  echo "in vain: $*"
  return 1
}

image() { # image NAME CONFIGURATION: with busybox in it
  local folder
  folder=$(mktemp -d)
  mkdir -p "$folder/root/bin" && cp /bin/busybox "$folder/root/bin"
  for applet in $(busybox --list | grep -vx busybox); do ln -s busybox "$folder/root/bin/$applet"; done
  tar -C "$folder/root" -cf "$folder/layer.tar" .
  printf '{"architecture": "amd64", "os": "linux", "config": %s, "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' \
    "$2" "$(sha256sum <"$folder/layer.tar" | cut -d' ' -f1)" >"$folder/config.json"
  printf '[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]' "$1" >"$folder/manifest.json"
  tar -C "$folder" -cf "$folder/image.tar" manifest.json config.json layer.tar
  ctr -n k8s.io images import "$folder/image.tar" >/dev/null
}

runtime() { # containerd with that driver
  local is_systemd=false
  [ "$driver" = systemd ] && is_systemd=true
  mkdir -p /etc/containerd /etc/cni/net.d
  cat >/etc/containerd/config.toml <<TOML
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = $is_systemd
TOML
  cat >/etc/cni/net.d/10-bridge.conflist <<'JSON'
{"cniVersion": "1.0.0", "name": "bridge", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
  systemctl unmask --quiet containerd && systemctl restart containerd
  image docker.io/library/busybox:1.36 '{"Cmd": ["sh"]}'
  image registry.k8s.io/pause:3.10 '{"Entrypoint": ["/bin/sh", "-c", "trap exit TERM; while :; do /bin/sleep 3600 & wait $!; done"]}'
}

agent() { # agent PROGRAM...: as a service, as node `vm` of the API server in standalone
  cat >/root/config.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: $driver
containerRuntimeEndpoint: $socket
podPidsLimit: 500
kubeReserved: {cpu: 100m, memory: 300Mi}
kubeReservedCgroup: /$([ "$driver" = systemd ] && echo kube || echo kube.slice)
enforceNodeAllocatable: [pods, kube-reserved]
YAML
  systemctl reset-failed agent 2>/dev/null
  systemd-run --quiet --unit=agent -p KillMode=process "$@" --kubeconfig $KUBECONFIG --config /root/config.yaml \
    --hostname-override vm --cert-dir /root/pki
  until_so sh -c 'kubectl get --raw /api/v1/nodes/vm | grep -q "\"KubeletReady\""'
}

pod() { # pod NAME SPECIFICATION CONTAINER
  kubectl apply -f - <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  {nodeName: vm, terminationGracePeriodSeconds: 1, automountServiceAccountToken: false, $2
  containers: [{name: main, image: "docker.io/library/busybox:1.36", command: [sh, -c, "trap exit TERM; while :; do sleep 1; done"], $3}]}
YAML
}

pods_of_each_class() {
  pod guaranteed "" 'resources: {limits: {cpu: 125m, memory: 32Mi}}' &&
    pod burstable "" 'resources: {requests: {cpu: 350m, memory: 16Mi}, limits: {memory: 64M}}' &&
    pod besteffort "" "" &&
    pod whole 'resources: {requests: {cpu: 200m}, limits: {cpu: 400m, memory: 96Mi}},' "" &&
    until_so kubectl wait --for=condition=Ready pods --all --timeout=1s
}

ids() { kubectl get pods -o jsonpath='{range .items[*]}{.metadata.name} {.status.containerStatuses[*].containerID} {end}'; }

group_of() { find /sys/fs/cgroup -type d -path "*kubepods*$(kubectl get pod "$1" -o jsonpath='{.metadata.uid}' | tr - '?')*" | sort | head -n 1; }

a_job_runs_in_standalone() {
  systemd-run --quiet --unit=alone steersman standalone --data-dir /root/data --container-runtime-endpoint $socket \
    --cgroup-driver "$driver"
  until_so kubectl apply -f /mnt/job.yaml && until_so kubectl wait --for=condition=Complete job/four --timeout=1s &&
    kubectl delete job four && until_so nothing_is_left
  local ended=$?
  systemctl stop alone
  rm -rf /root/data
  return $ended
}

nothing_is_left() {
  local pods
  pods=$(kubectl get pods -o name) && [ -z "$pods" ] && [ -z "$(ctr -n k8s.io containers ls -q)" ] &&
    [ -z "$(find /sys/fs/cgroup -type d -path '*kubepods*' -name '*pod????????[-_]*')" ] &&
    [ -z "$(systemctl list-units --all --plain --no-legend 'kubepods*-pod*' 'cri-containerd*')" ] &&
    [ -z "$(find /var/log/pods /var/lib/kubelet/pods -mindepth 1 -maxdepth 1)" ]
}

limits_outlast_a_reload() { # of what the agent makes; containers' scopes are the runtime's, and lose some
  slices >/root/before && systemctl daemon-reload && sleep 2 && slices | diff /root/before -
}

slices() { groups.sh | grep -v '\.scope '; }

a_pod_is_resized() {
  local group
  group=$(group_of guaranteed)
  kubectl patch pod guaranteed --subresource resize \
    --patch '{"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "250m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}}}]}}' &&
    until_so sh -c "[ \"\$(cat $group/memory.max $group/cpu.max)\" = \"\$(printf '67108864\n25000 100000')\" ]" &&
    until_so sh -c "kubectl get pod guaranteed -o jsonpath='{.status.containerStatuses[0].resources.limits}' | grep -q 64Mi"
}

a_container_without_memory_is_killed() {
  pod greedy "restartPolicy: Never," 'resources: {limits: {memory: 16Mi}}' >/dev/null
  until_so kubectl exec greedy -- true
  kubectl exec greedy -- sh -c 'head -c 64m /dev/zero | tail' &
  until_so sh -c "kubectl get pod greedy -o jsonpath='{.status.containerStatuses[0].state.terminated.reason}' | grep -x OOMKilled"
}

containers_outlast_the_agent() {
  local before
  before=$(ids)
  systemctl kill --signal=KILL agent && until_so sh -c '! systemctl is-active agent' && agent steersman node && sleep 5
  [ "$(ids)" = "$before" ] || { printf '%s\n' "$before" "$(ids)"; return 1; }
}

kills_amid_starts_leave_nothing() {
  local round
  for round in 1 2 3 4 5; do
    pod "amid-$round" "" "" && sleep "0.$((round * 17 % 10))" && systemctl kill --signal=KILL agent
    until_so sh -c '! systemctl is-active agent' && agent steersman node || return
  done
  kubectl delete pods --all --wait=false && until_so nothing_is_left
}

a_reserved_group_is_limited() {
  [ "$(cat /sys/fs/cgroup/kube.slice/memory.max /sys/fs/cgroup/kube.slice/cpu.weight)" = "$(printf '314572800\n4')" ]
}

groups_are_the_kubelets() {
  groups.sh >/root/ours || return
  kubectl delete pods --all && until_so nothing_is_left && systemctl stop agent || return
  agent kubelet && pods_of_each_class && sleep 3 && groups.sh >/root/kubelets || return
  kubectl delete pods --all && systemctl stop agent
  # It names all processors, as it found them at its start; without a name one that is added later is among them.
  diff <(grep -v '^/kubepods[.a-z]* cpuset.cpus ' /root/ours) <(grep -v '^/kubepods[.a-z]* cpuset.cpus ' /root/kubelets) &&
    echo "$(wc -l </root/ours) values"
}

tests_of_the_node() {
  KUBEBUILDER_ASSETS=/mnt CONTAINER_RUNTIME_ENDPOINT=$socket CGROUP_DRIVER=$driver node-tests $tests >/root/tests.log 2>&1
  local ended=$?
  grep '^test ' /root/tests.log >/dev/ttyS0
  grep -v '^test .* ok$' /root/tests.log
  return $ended
}

mkdir -p "$(dirname "$program")" && ln -s /mnt/steersman "$program"
ip link set lo up
ip link add cni0 type bridge && ip addr add 10.88.0.1/16 dev cni0 && ip link set cni0 up
# A node's address is the one that leads away.
ip route add default via 10.88.0.254
systemd-run --quiet --unit=kube --slice=kube.slice sleep infinity
for driver in $drivers; do
  runtime
  check "a Job runs in standalone" a_job_runs_in_standalone
  systemd-run --quiet --unit=server steersman standalone --data-dir /root/data --node-name elsewhere
  until_so kubectl get nodes
  check "the node is ready" agent steersman node
  check "pods of each class run" pods_of_each_class
  check "a reserved group is limited" a_reserved_group_is_limited
  check "containers outlast the agent" containers_outlast_the_agent
  check "groups have what the kubelet gives them" groups_are_the_kubelets
  check "the node is ready again" agent steersman node
  check "pods of each class run again" pods_of_each_class
  check "limits outlast systemctl daemon-reload" limits_outlast_a_reload
  check "a pod is resized" a_pod_is_resized
  check "a container that needs too much memory is killed" a_container_without_memory_is_killed
  check "kills of the agent amid starts leave nothing" kills_amid_starts_leave_nothing
  systemctl stop agent server
  rm -rf /root/data
  if [ "$tests" != none ]; then check "tests/node" tests_of_the_node; fi
  systemctl stop kubepods.slice 2>/dev/null
done
[ "$failures" = 0 ] && echo "all passed" || echo "$failures failed"
