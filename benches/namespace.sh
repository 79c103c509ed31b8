#!/usr/bin/env bash
# Measures the deletion of a namespace beside the real kube-controller-manager's, in one run: each manager with the same
# controllers, on a real control plane of its own with simulated nodes.
#
#   benches/namespace.sh [OBJECTS [ROUNDS]]      5000 3
#
# The namespace has OBJECTS objects of six kinds, of which a tenth are pods that run. Wall time counts from the deletion until
# the namespace is gone; processor time is the manager's, from the deletion until it is at rest. The managers take turns; the
# table has the medians of ROUNDS. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
objects=${1:-5000}
rounds=${2:-3}

ours=${STEERSMAN:-$(build bin steersman)}
load=${LOAD:-$(build bin steersman-load steersman-load)}
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS
managers=(kube-controller-manager steersman)
controllers=namespace-controller,replicaset-controller,job-controller,endpoints-controller,pod-garbage-collector-controller

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

note() { echo "$3" >>"$state/$1.$2"; } # note NAME WHAT VALUE

for round in $(seq "$rounds"); do
  for name in "${managers[@]}"; do
    control_plane "for $name, round $round"
    simulate 5
    timeout 900 "$load" fill "$objects" >&2
    start_manager "$name"
    settle "$manager"
    before=$(processor_time "$manager")
    timeout 900 "$load" empty | tee "$state/out" >&2
    settle "$manager"
    note "$name" processor $(($(processor_time "$manager") - before))
    note "$name" wall "$(milliseconds "$(tail -n 1 "$state/out" | sed 's/.*: //')")"
    note "$name" peak "$(($(memory "$manager" VmHWM) / 1000))"
    stop "$manager"
    stop "$nodes"
  done
done

figure() { row "$1" "$2" "$(median <"$state/steersman.$3")" "$(median <"$state/kube-controller-manager.$3")"; }
heading steersman kube-c-m
figure "namespace of $objects objects: wall time" ms wall
figure "namespace of $objects objects: processor time" ms processor
figure "peak memory" MB peak
