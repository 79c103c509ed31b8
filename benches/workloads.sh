#!/usr/bin/env bash
# Measures the controllers of workloads beside the real kube-controller-manager's, in one run: each manager with the same
# controllers and without client limits, on a real control plane with simulated nodes.
#
#   benches/workloads.sh [SCALE]      1
#
# - memory: cold start on 2,000 Deployments of 8 pods, 500 StatefulSets of 4 and 100 DaemonSets on 20 nodes (20,000 pods); of
#   steersman also with the controllers of Jobs, Endpoints and terminated pods alone;
# - label: each of 3,000 Deployments of one namespace gets a label;
# - roll: 200 Deployments of 10 pods get a new image.
# SCALE divides these numbers, for a quick look. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
scale=${1:-1} settle_for=600 # with 3,000 ReplicaSets in a namespace, kube-controller-manager takes minutes
controllers=deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,disruption-controller
controllers+=,replicationcontroller-controller,job-controller,endpoints-controller,pod-garbage-collector-controller
flags=()
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"

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
  cold "$name"
  if [ "$name" = steersman ]; then curl -s "127.0.0.1:$port/metrics" | grep '^informer_cache_bytes' >"$state/caches"; fi
  stop "$manager"
done
say "steersman: cold start of three controllers"
every=$controllers controllers=job-controller,endpoints-controller,pod-garbage-collector-controller
start_manager steersman
settle "$manager"
note steersman three "$(megabytes "$(memory "$manager" VmHWM)")"
stop "$manager"
controllers=$every
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

heading steersman kube-c-m
figure "$((20000 / scale)) pods of workloads: peak memory" MB cold.peak
figure "$((20000 / scale)) pods of workloads: memory at rest" MB cold.resident
figure "start until at rest: processor time" ms cold.processor
figure "label on $((3000 / scale)) Deployments: processor time" ms label.processor
figure "$((200 / scale)) Deployments of 10 rolled: wall time" ms roll.wall
figure "$((200 / scale)) Deployments of 10 rolled: processor time" ms roll.processor
printf '\nThe caches of steersman, in bytes:\n'
sort -k2 -rn "$state/caches" | head -n 8
verdicts "$scale"
at_most "peak memory beyond that of three controllers" 12 \
  "$(awk -v all="$(cat "$state/steersman.cold.peak")" -v three="$(cat "$state/steersman.three")" 'BEGIN { print all - three }')" MB
asked "$((200 / scale)) Deployments of 10 rolled: wall time" 1 roll.wall
asked "$((200 / scale)) Deployments of 10 rolled: processor time" 0.333 roll.processor
