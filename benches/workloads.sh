#!/usr/bin/env bash
# Measures the controllers of workloads beside the real kube-controller-manager's, in one run: each manager with the same
# controllers and without client limits, on a real control plane with simulated nodes.
#
#   benches/workloads.sh [SCALE]      1
#
# - memory: cold start on 2,000 Deployments of 8 pods, 500 StatefulSets of 4 and 100 DaemonSets on 20 nodes (20,000 pods);
# - label: each of 3,000 Deployments of one namespace gets a label;
# - roll: 200 Deployments of 10 pods get a new image.
# SCALE divides these numbers, for a quick look. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
scale=${1:-1}

ours=${STEERSMAN:-$(build bin steersman)}
load=${LOAD:-$(build bin steersman-load steersman-load)}
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS
managers=(kube-controller-manager steersman)
controllers=deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,disruption-controller
controllers+=,replicationcontroller-controller,job-controller,endpoints-controller,pod-garbage-collector-controller

# start_manager NAME: in the background; `manager` is its process id, its log is in $state/NAME.log.
start_manager() {
  local flags=(--leader-elect=false "--controllers=$controllers" --kube-api-qps=10000 --kube-api-burst=10000
    --kubeconfig "$KUBECONFIG")
  case $1 in
    steersman) "$ours" controller-manager "${flags[@]}" >"$state/$1.log" 2>&1 </dev/null & ;;
    *) "$KUBEBUILDER_ASSETS/$1" "${flags[@]}" --cert-dir "$state/certificates" --secure-port "$(free_port)" \
      >"$state/$1.log" 2>&1 </dev/null & ;;
  esac
  manager=$!
  started+=("$manager")
}

# simulate NODES: nodes and their kubelets, in the background.
simulate() {
  "$load" nodes "$1" >"$state/nodes.log" 2>&1 </dev/null &
  nodes=$!
  started+=("$nodes")
  for _ in $(seq 100); do grep -q ready "$state/nodes.log" && return; sleep 0.1; done
  echo "no nodes are ready" >&2
  return 1
}

# note NAME WHAT VALUE: also told at once, since a long run may fail later.
note() {
  echo "$3" >"$state/$1.$2"
  say "$1: $2 $3"
}
megabytes() { awk -v kb="$1" 'BEGIN {print kb / 1000}'; }

# cost NAME WHAT COMMAND...: notes how long the command takes, and the manager's processor time until it is at rest.
cost() {
  local name=$1 what=$2 before
  shift 2
  before=$(processor_time "$manager")
  timeout 900 "$@" | tee "$state/out" >&2
  settle "$manager"
  note "$name" "$what.processor" $(($(processor_time "$manager") - before))
  note "$name" "$what.wall" "$(milliseconds "$(tail -n 1 "$state/out" | sed 's/.*: //')")"
}


control_plane "with workloads"
simulate 20
start_manager kube-controller-manager
timeout 1500 "$load" create --deployments $((2000 / scale)) --pods 8 --stateful-sets $((500 / scale)) \
  --daemon-sets $((100 / scale)) >&2
settle "$manager"
stop "$manager"
for name in "${managers[@]}"; do
  say "$name: cold start"
  start_manager "$name"
  settle "$manager"
  note "$name" cold.peak "$(megabytes "$(memory "$manager" VmHWM)")"
  note "$name" cold.resident "$(megabytes "$(memory "$manager" VmRSS)")"
  note "$name" cold.processor "$(processor_time "$manager")"
  stop "$manager"
done
stop "$nodes"

for name in "${managers[@]}"; do
  control_plane "for $name"
  simulate 20
  start_manager "$name"
  say "$name: labels"
  timeout 900 "$load" create --deployments $((3000 / scale)) --pods 1 --namespaces 1 >&2
  settle "$manager"
  cost "$name" label "$load" label "first"
  stop "$manager"
  stop "$nodes"
  control_plane "for $name"
  simulate 20
  start_manager "$name"
  say "$name: rollouts"
  timeout 900 "$load" create --deployments $((200 / scale)) --pods 10 >&2
  settle "$manager"
  cost "$name" roll "$load" roll registry.k8s.io/pause:3.10
  stop "$manager"
  stop "$nodes"
done

figure() { row "$1" "$2" "$(cat "$state/steersman.$3")" "$(cat "$state/kube-controller-manager.$3")"; }
heading steersman kube-c-m
figure "$((20000 / scale)) pods of workloads: peak memory" MB cold.peak
figure "$((20000 / scale)) pods of workloads: memory at rest" MB cold.resident
figure "start until at rest: processor time" ms cold.processor
figure "label on $((3000 / scale)) Deployments: processor time" ms label.processor
figure "$((200 / scale)) Deployments of 10 rolled: wall time" ms roll.wall
figure "$((200 / scale)) Deployments of 10 rolled: processor time" ms roll.processor
