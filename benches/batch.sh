#!/usr/bin/env bash
# Measures Jobs and Services beside the real kube-controller-manager's controllers, in one run: each manager with the same
# controllers and without client limits, on a real control plane with simulated nodes.
#
#   benches/batch.sh [SCALE [ROLLS]]      1 5
#
# - jobs: 50 Jobs of 40 completions at once, then one of 2,000, then one of 20,000 of which 2,000 run at a time;
# - services: how long 500 changes of a pod's readiness take to be seen in Endpoints and EndpointSlices, among 500 pods and
#   among 5,000; and how many calls it costs if pods change in ways that Services do not show;
# - roll: a Service of 1,000 pods whose Deployment gets a new image, ROLLS times: how often slices were written.
# SCALE divides these numbers, for a quick look. The table has the medians of ROLLS; all else is measured once. STEERSMAN and
# LOAD name other builds. Terminated pods are not collected.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
scale=${1:-1} rolls=${2:-5} settle_for=300
controllers=job-controller,endpoints-controller,endpointslice-controller,deployment-controller,replicaset-controller
flags=(--terminated-pod-gc-threshold=0)
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"

# fresh NAME WHAT: a control plane with simulated nodes and the manager at rest.
fresh() {
  control_plane "for $2 of $1"
  simulate 20
  start_manager "$1"
  settle "$manager"
}

# slice_writes: how many writes of EndpointSlices the API server has admitted since it started.
slice_writes() {
  "$KUBEBUILDER_ASSETS/kubectl" get --raw /metrics | awk '
    /^apiserver_request_total/ && /resource="endpointslices"/ && /verb="(POST|PUT|PATCH|DELETE)"/ && /code="20/ { sum += $NF }
    END { print sum + 0 }'
}

# idle_calls: how many calls steersman sends while 20 pods of the Service get an annotation.
idle_calls() {
  local before after
  settle "$manager"
  before=$(calls)
  "$KUBEBUILDER_ASSETS/kubectl" annotate pod web-{0..19} --namespace workloads-0 measured=yes >&2
  sleep 5
  after=$(calls)
  echo $((after - before))
}

# calls: how many calls steersman has sent since its start.
calls() { curl -s "127.0.0.1:$port/metrics" | awk '/^rest_client_requests_total/ { sum += $NF } END { printf "%d", sum }'; }

# latency NAME PODS: notes p50 and p99 of what the load printed.
latency() {
  local kind
  timeout 900 "$load" service "$2" "$few" | tee "$state/out" >&2
  for kind in EndpointSlices Endpoints; do
    [[ $(cat "$state/out") =~ readiness\ to\ $kind:\ p50\ ([^,]+),\ p99\ ([^[:space:]]+) ]] || continue
    note "$1" "$kind.$2.p50" "$(milliseconds "${BASH_REMATCH[1]}")"
    note "$1" "$kind.$2.p99" "$(milliseconds "${BASH_REMATCH[2]}")"
  done
}

few=$((500 / scale)) many=$((5000 / scale))
for name in "${managers[@]}"; do
  fresh "$name" jobs
  cost "$name" many "$load" jobs $((50 / scale)) 40 40
  cost "$name" large "$load" jobs 1 $((2000 / scale)) $((2000 / scale))
  cost "$name" long "$load" jobs 1 $((20000 / scale)) $((2000 / scale))
  note "$name" peak "$(megabytes "$(memory "$manager" VmHWM)")"
  stop "$manager"
  stop "$nodes"
  for pods in "$few" "$many"; do
    fresh "$name" "a service of $pods"
    latency "$name" "$pods"
    if [ "$name" = steersman ]; then note "$name" "idle.$pods" "$(idle_calls)"; fi
    stop "$manager"
    stop "$nodes"
  done
  fresh "$name" "a rollout behind a service"
  "$KUBEBUILDER_ASSETS/kubectl" create namespace workloads-0 >&2
  "$KUBEBUILDER_ASSETS/kubectl" create service clusterip deployment-0 --tcp 80:8080 --namespace workloads-0 >&2
  timeout 900 "$load" create --deployments 1 --pods $((1000 / scale)) --namespaces 1 >&2
  settle "$manager"
  for roll in $(seq "$rolls"); do
    before=$(slice_writes)
    cost "$name" roll "$load" roll "registry.k8s.io/pause:roll-$roll"
    note "$name" roll.writes $(($(slice_writes) - before))
  done
  stop "$manager"
  stop "$nodes"
done

heading steersman kube-c-m
figure "$((50 / scale)) jobs of 40: wall time" ms many.wall
figure "$((50 / scale)) jobs of 40: processor time" ms many.processor
figure "one job of $((2000 / scale)): wall time" ms large.wall
figure "one job of $((2000 / scale)): processor time" ms large.processor
figure "$((20000 / scale)) completions: wall time" ms long.wall
figure "$((20000 / scale)) completions: processor time" ms long.processor
figure "peak resident memory after the jobs" MB peak
for pods in "$few" "$many"; do
  for kind in Endpoints EndpointSlices; do
    [[ -e $state/steersman.$kind.$pods.p50 ]] || continue
    figure "readiness to $kind, $pods pods: p50" ms "$kind.$pods.p50"
    figure "readiness to $kind, $pods pods: p99" ms "$kind.$pods.p99"
  done
done
figure "$((1000 / scale)) endpoints rolled: wall time" ms roll.wall
figure "$((1000 / scale)) endpoints rolled: processor time" ms roll.processor
figure "$((1000 / scale)) endpoints rolled: writes of slices" calls roll.writes
verdicts "$scale"
asked "$((50 / scale)) jobs of 40: processor time" 0.25 many.processor
asked "$((50 / scale)) jobs of 40: wall time" 1 many.wall
asked "one job of $((2000 / scale)): processor time" 0.25 large.processor
asked "one job of $((2000 / scale)): wall time" 1 large.wall
asked "$((20000 / scale)) completions: processor time" 0.25 long.processor
for pods in "$few" "$many"; do
  for kind in Endpoints EndpointSlices; do
    [[ -e $state/steersman.$kind.$pods.p50 ]] || continue
    asked "readiness to $kind, $pods pods: p50" 1 "$kind.$pods.p50"
    asked "readiness to $kind, $pods pods: p99" 1 "$kind.$pods.p99"
  done
  at_most "$pods pods: calls for 20 pods that change nothing" 0 "$(median <"$state/steersman.idle.$pods")" calls
done
asked "$((1000 / scale)) endpoints rolled: writes of slices" 1 roll.writes
