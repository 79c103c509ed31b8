#!/usr/bin/env bash
# Measures the garbage collector beside the real kube-controller-manager's, in one run: each manager with that controller
# alone and without client limits, on a real control plane without nodes.
#
#   benches/garbage.sh [SCALE]      1
#
# - memory: cold start on 2,000 ReplicaSets of 10 pods, 10,000 config maps, and 200 custom kinds of 20 objects;
# - collect: a Deployment of 2,000 pods goes, in the background and in the foreground;
# - sick: 1,000 custom kinds, of which 20 can't be listed; a Deployment of 20 pods goes.
# SCALE divides these numbers, for a quick look. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
scale=${1:-1}
controllers=garbage-collector-controller flags=()
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"

# collect NAME: a Deployment of many pods, first in the background, then in the foreground.
collect() {
  local policy flag
  for policy in background foreground; do
    flag=()
    if [ "$policy" = foreground ]; then flag=(--foreground); fi
    timeout 900 "$load" family $((2000 / scale)) >&2
    settle "$manager"
    cost "$1" "$policy" "$load" collect "${flag[@]}"
  done
}

control_plane "with objects that own one another"
timeout 1500 "$load" graph --sets $((2000 / scale)) --pods 10 --maps $((10000 / scale)) --kinds $((200 / scale)) >&2
for name in "${managers[@]}"; do
  say "$name: cold start"
  start_manager "$name"
  settle "$manager"
  cold "$name"
  if [ "$name" = steersman ]; then curl -s "127.0.0.1:$port/metrics" | grep '^garbage_collector_graph' >"$state/graph"; fi
  say "$name: a Deployment goes"
  collect "$name"
  stop "$manager"
done

control_plane "with many custom kinds"
timeout 1500 "$load" definitions $((1000 / scale)) $((20 / scale)) >&2
for name in "${managers[@]}"; do
  say "$name: kinds that can't be listed"
  start_manager "$name"
  sleep 35 # The real manager begins 30 s after its start if a kind can't be listed.
  note "$name" sick.resident "$(megabytes "$(memory "$manager" VmRSS)")"
  "$load" family 20 >&2
  sleep 5
  before=$(processor_time "$manager")
  timeout 300 "$load" collect | tee "$state/out" >&2
  note "$name" sick.wall "$(loaded)"
  note "$name" sick.processor $(($(processor_time "$manager") - before))
  stop "$manager"
done

heading steersman kube-c-m
figure "$((20000 / scale)) pods and others: peak memory" MB cold.peak
figure "$((20000 / scale)) pods and others: memory at rest" MB cold.resident
figure "start until at rest: processor time" ms cold.processor
for policy in background foreground; do
  figure "$((2000 / scale)) pods in the $policy: wall time" ms "$policy.wall"
  figure "$((2000 / scale)) pods in the $policy: processor time" ms "$policy.processor"
done
figure "$((1000 / scale)) kinds: memory at rest" MB sick.resident
figure "$((1000 / scale)) kinds, $((20 / scale)) sick: a Deployment goes" ms sick.wall
printf '\nThe graph:\n'
cat "$state/graph"
