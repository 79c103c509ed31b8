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
settle_for=300
controllers=namespace-controller,garbage-collector-controller,resourcequota-controller,replicaset-controller
controllers+=,job-controller,endpoints-controller,pod-garbage-collector-controller
flags=()
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"

for round in $(seq "$rounds"); do
  for name in "${managers[@]}"; do
    control_plane "for $name, round $round"
    simulate 5
    timeout 900 "$load" fill "$objects" >&2
    start_manager "$name"
    settle "$manager"
    cost "$name" empty "$load" empty
    note "$name" peak "$(megabytes "$(memory "$manager" VmHWM)")"
    stop "$manager"
    stop "$nodes"
  done
done

heading steersman kube-c-m
figure "namespace of $objects objects: wall time" ms empty.wall
figure "namespace of $objects objects: processor time" ms empty.processor
figure "peak memory" MB peak
verdicts 1
asked "namespace of $objects objects: wall time" 1 empty.wall
asked "namespace of $objects objects: processor time" 0.333 empty.processor
