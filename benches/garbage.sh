#!/usr/bin/env bash
# Measures the controllers that keep a cluster clean beside the real kube-controller-manager, in one run: each manager with the
# garbage collector and its neighbours (namespaces, quotas, service accounts, certificates, bootstrap tokens), without client
# limits, on a real control plane without nodes.
#
#   benches/garbage.sh [SCALE [ROUNDS]]      1 3
#
# - memory: cold start on 2,000 ReplicaSets of 10 pods, 10,000 config maps, and 200 custom kinds of 20 objects;
# - collect: a Deployment of 2,000 pods is deleted, in the background and in the foreground;
# - sick: 1,000 custom kinds, of which 20 can't be listed; a Deployment of 20 pods is deleted as soon as the manager serves, and
#   again when it is at rest.
# SCALE divides these numbers, for a quick look. The table has the medians of ROUNDS. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
scale=${1:-1} rounds=${2:-3} settle_for=600
controllers=garbage-collector-controller,namespace-controller,resourcequota-controller,clusterrole-aggregation-controller
controllers+=,serviceaccount-controller,serviceaccount-token-controller,legacy-serviceaccount-token-cleaner-controller
controllers+=,root-ca-certificate-publisher-controller,certificatesigningrequest-signing-controller
controllers+=,certificatesigningrequest-approving-controller,certificatesigningrequest-cleaner-controller
controllers+=,bootstrap-signer-controller,token-cleaner-controller,ttl-controller,service-cidr-controller
flags=()
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"
flags=("${keys[@]}")

# collect NAME: a Deployment of many pods is deleted, first in the background, then in the foreground.
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

# serves NAME: waits until the manager answers requests.
serves() {
  local url=http://127.0.0.1:$port/healthz
  if [ "$1" != steersman ]; then url=https://127.0.0.1:$port/healthz; fi
  for _ in $(seq 600); do
    if curl -sk --max-time 5 -o "$state/health" "$url"; then return; fi
    sleep 0.1
  done
  echo "$1 does not serve" >&2
  return 1
}

# collect_few NAME WHAT: the Deployment of 20 pods is deleted.
collect_few() {
  local before
  before=$(processor_time "$manager")
  timeout 900 "$load" collect | tee "$state/out" >&2
  note "$1" "$2.wall" "$(loaded)"
  note "$1" "$2.processor" $(($(processor_time "$manager") - before))
}

control_plane "with objects that own one another"
timeout 1500 "$load" graph --sets $((2000 / scale)) --pods 10 --maps $((10000 / scale)) --kinds $((200 / scale)) >&2
say "the objects that every manager makes"
start_manager kube-controller-manager
settle "$manager"
stop "$manager"
for name in "${managers[@]}"; do
  for round in $(seq "$rounds"); do
    say "$name: cold start, round $round"
    start_manager "$name"
    settle "$manager"
    cold "$name"
    [ "$round" -eq "$rounds" ] || stop "$manager"
  done
  if [ "$name" = steersman ]; then curl -s "127.0.0.1:$port/metrics" | grep '^garbage_collector_graph' >"$state/graph"; fi
  for round in $(seq "$rounds"); do
    say "$name: a Deployment is deleted, round $round"
    collect "$name"
  done
  stop "$manager"
done

control_plane "with many custom kinds"
timeout 3600 "$load" definitions $((1000 / scale)) $((20 / scale)) >&2
for name in "${managers[@]}"; do
  say "$name: kinds that can't be listed"
  "$load" family 20 >&2
  start_manager "$name"
  serves "$name"
  collect_few "$name" young
  sleep 35 # The real manager begins 30 s after its start if a kind can't be listed.
  note "$name" sick.resident "$(megabytes "$(memory "$manager" VmRSS)")"
  for _ in $(seq "$rounds"); do
    "$load" family 20 >&2
    sleep 5
    collect_few "$name" sick
  done
  stop "$manager"
done

kinds="$((1000 / scale)) kinds, $((20 / scale)) sick"
heading steersman kube-c-m
figure "$((20000 / scale)) pods and others: peak memory" MB cold.peak
figure "$((20000 / scale)) pods and others: memory at rest" MB cold.resident
figure "start until at rest: processor time" ms cold.processor
for policy in background foreground; do
  figure "$((2000 / scale)) pods in the $policy: wall time" ms "$policy.wall"
  figure "$((2000 / scale)) pods in the $policy: processor time" ms "$policy.processor"
done
figure "$kinds: memory at rest" MB sick.resident
figure "$kinds, after the start: deletion" ms young.wall
figure "$kinds, at rest: deletion" ms sick.wall
figure "$kinds, at rest: processor time" ms sick.processor
printf '\nThe graph of steersman:\n'
awk '{ of[substr($1, length("garbage_collector_graph_") + 1)] = $2 } END {
  n = split("nodes edges", parts)
  for (i = 1; i <= n; i++) {
    part = parts[i]; bytes = of["bytes{part=\"" part "\"}"]
    printf "%d %s, %d bytes: %.1f bytes each\n", of[part], part, bytes, (of[part] > 0 ? bytes / of[part] : 0)
  } }' <(grep -v '^#' "$state/graph")
verdicts "$scale"
asked "peak memory" 0.1 cold.peak
asked "memory at rest" 0.1 cold.resident
asked "start until at rest: processor time" 0.25 cold.processor
for policy in background foreground; do
  asked "pods in the $policy: wall time" 1 "$policy.wall"
  asked "pods in the $policy: processor time" 0.333 "$policy.processor"
done
at_most "sick kinds, after the start: deletion" 2000 "$(worst <"$state/steersman.young.wall")" ms
at_most "sick kinds, at rest: the slowest deletion" 2000 "$(worst <"$state/steersman.sick.wall")" ms
