#!/usr/bin/env bash
# Measures the node agent beside the real kubelet, in one run: in turns, on one containerd and one real control plane,
# with the same configuration, each round of each beginning when nothing of the one before is left.
#
#   benches/node.sh [ROUNDS [PODS]]      2 50
#
# Figures are the medians of the rounds. Memory is resident once the agent has come to rest; its peak is that since the
# start. Times of pods are those of `peers pods`: created to Running, and deleted with a second of grace to gone.
# Absolute figures depend on what else the machine does: ratios count. Needs root.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=benches/runtime.sh
. "$(dirname "$0")/runtime.sh"
rounds=${1:-2} pods=${2:-50}
idle_seconds=30 alone=5 # how long idle processor time is counted; how many pods are timed one after another

STEERSMAN=${STEERSMAN:-$(build bin steersman)}
build_peers

start_runtime
control_plane "without pods"
kubectl() { "$KUBEBUILDER_ASSETS/kubectl" "$@"; }
server=$(sed -n 's/.*server: "\([^"]*\)".*/\1/p' "$KUBECONFIG")

note() { echo "$3" >>"$state/$1.$2"; } # note NAME WHAT VALUE
megabytes() { awk -v kb="$1" 'BEGIN {print kb / 1000}'; }
now() { date +%s%3N; } # in ms

ready() {
  curl -fsk -H 'Authorization: Bearer admin-token' "$server/api/v1/nodes/node1" 2>/dev/null |
    tr -d ' \n' | grep -q '"type":"Ready","status":"True"'
}

# start_agent NAME: in the background; `agent` is its process id. Returns once its node, not known before, is Ready.
start_agent() {
  local command begin
  case $1 in
    steersman) command=("$STEERSMAN" node) ;;
    kubelet) command=("$KUBEBUILDER_ASSETS/kubelet") ;;
  esac
  agent_arguments "$1"
  kubectl delete node node1 --ignore-not-found >/dev/null
  begin=$(now)
  "${command[@]}" "${agent_arguments[@]}" >>"$state/$1.log" 2>&1 </dev/null &
  agent=$!
  started+=("$agent")
  until ready; do
    kill -0 "$agent" 2>/dev/null || { echo "$1 ended" >&2; return 1; }
    [ $(($(now) - begin)) -lt 120000 ] || { echo "$1's node does not become Ready" >&2; return 1; }
    sleep 0.02
  done
  note "$1" ready $(($(now) - begin))
}

# idle NAME WHAT: notes the processor time that the agent takes while nothing is asked of it.
idle() {
  local before
  settle "$agent" 10 # looking after many pods is work, every second
  note "$1" "$2.resident" "$(megabytes "$(memory "$agent" VmRSS)")"
  before=$(processor_time "$agent")
  sleep "$idle_seconds"
  note "$1" "$2.processor" $(($(processor_time "$agent") - before))
}

# timed NAME WHAT N: notes how long N pods take at once.
timed() {
  timeout 300 "$state/peers" pods "$3" node1 | tee "$state/out" >&2
  local line what
  while read -r line; do
    case $line in *"to Running"*) what=running ;; *) what=gone ;; esac
    [[ $line =~ p50\ ([^,]+),.*\ max\ (.+)$ ]]
    note "$1" "$2.$what.p50" "$(milliseconds "${BASH_REMATCH[1]}")"
    note "$1" "$2.$what.max" "$(milliseconds "${BASH_REMATCH[2]}")"
  done <"$state/out"
}

# kept_pods: as those of `peers pods`, but they stay until they are deleted.
kept_pods() {
  local i
  for i in $(seq "$pods"); do
    cat <<YAML
---
apiVersion: v1
kind: Pod
metadata: {name: kept-$i}
spec:
  nodeName: node1
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers:
  - {name: main, image: docker.io/library/busybox:1.36, imagePullPolicy: Never, command: [sleep, "1000000"]}
YAML
  done
}

# Both agents keep the sandboxes of pods that are gone for up to a minute.
nothing_left() {
  local left
  for _ in $(seq 150); do
    left=$(ctr -a "${runtime#unix://}" -n k8s.io containers ls -q | wc -l)
    [ "$left" -gt 0 ] || return 0
    sleep 1
  done
  echo "$left containers are left" >&2
  return 1
}

measure() {
  local name=$1
  say "$name: start"
  start_agent "$name"
  idle "$name" idle
  say "$name: pods one after another"
  for _ in $(seq "$alone"); do timed "$name" alone 1; done
  say "$name: $pods pods that stay"
  kept_pods | kubectl create -f - >/dev/null
  kubectl wait --for=condition=Ready --timeout=300s pods --all >/dev/null
  idle "$name" full
  kubectl delete pods --all --wait --timeout=300s >/dev/null
  say "$name: $pods pods at once"
  timed "$name" many "$pods"
  note "$name" peak "$(megabytes "$(memory "$agent" VmHWM)")"
  nothing_left
  stop "$agent"
}

for _ in $(seq "$rounds"); do
  measure kubelet
  measure steersman
done

figure() { row "$1" "$2" "$(median <"$state/steersman.$3")" "$(median <"$state/kubelet.$3")"; }
heading steersman kubelet
figure "start until the node is Ready" ms ready
figure "resident memory idle" MB idle.resident
figure "resident memory with $pods pods" MB full.resident
figure "peak resident memory" MB peak
figure "processor time of $idle_seconds idle seconds" ms idle.processor
figure "the same with $pods pods" ms full.processor
figure "one pod created to Running: median" ms alone.running.p50
figure "one pod deleted to gone: median" ms alone.gone.p50
figure "$pods pods created to Running: p50" ms many.running.p50
figure "$pods pods created to Running: slowest" ms many.running.max
figure "$pods pods deleted to gone: p50" ms many.gone.p50
figure "$pods pods deleted to gone: slowest" ms many.gone.max
