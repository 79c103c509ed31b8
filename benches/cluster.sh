#!/usr/bin/env bash
# Measures the whole controller manager beside the real kube-controller-manager, in one run: each with all controllers that
# run by default, without client limits, on a real control plane of API-only nodes that renew their leases every 10 s.
#
#   benches/cluster.sh [PODS [NODES]]      20000 1000
#
# Pods have 4 KB and tolerate a silent node for 5 s. A tenth of the nodes falls silent at the end: the times are from a node's
# last renewal until its pod was marked as not ready, and until it was evicted. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
pods=${1:-20000} nodes=${2:-1000}
controllers='*'
flags=(--node-eviction-rate=10)
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"

# said TEXT: waits until the load has printed a line that begins so, for ten minutes at the most.
said() {
  for _ in $(seq 3000); do
    ! grep -q "$1" "$state/fleet.log" || return 0
    kill -0 "$fleet" 2>/dev/null || break
    sleep 0.2
  done
  cat "$state/fleet.log" >&2
  echo "the load did not come to: $1" >&2
  return 1
}

# times NAME WHAT: notes the first, the median and the last time of a line such as "marked 2000 of 2000: 50000 51000 55000".
times() {
  local line
  line=$(grep "^$2 " "$state/fleet.log")
  say "$1: $line"
  # shellcheck disable=SC2086 # words are wanted
  set -- "$1" "$2" ${line#*: }
  note "$1" "$2.first" "$3"
  note "$1" "$2.median" "$4"
  note "$1" "$2.last" "$5"
}

# minute: the processor time that the manager needs in a minute from now.
minute() {
  local before
  before=$(processor_time "$manager")
  sleep 60
  echo $(($(processor_time "$manager") - before))
}

for name in "${managers[@]}"; do
  control_plane "for $name"
  "$load" fleet "$nodes" "$pods" --silent $((nodes / 10)) >"$state/fleet.log" 2>&1 </dev/null &
  fleet=$!
  started+=("$fleet")
  said 'are ready'
  start_manager "$name"
  first=$(minute)
  second=$(minute)
  rest=$(minute)
  note "$name" start $((first + second - 2 * rest))
  note "$name" rest "$rest"
  note "$name" peak "$(megabytes "$(memory "$manager" VmHWM)")"
  note "$name" resident "$(megabytes "$(memory "$manager" VmRSS)")"
  before=$(processor_time "$manager")
  kill -USR1 "$fleet"
  said 'evicted from other nodes'
  note "$name" silence $(($(processor_time "$manager") - before))
  note "$name" silence.peak "$(megabytes "$(memory "$manager" VmHWM)")"
  times "$name" marked
  times "$name" evicted
  note "$name" others "$(sed -n 's/^evicted from other nodes: //p' "$state/fleet.log")"
  stop "$manager"
  stop "$fleet"
done

heading steersman kube-c-m
figure "$pods pods, $nodes nodes: peak resident memory" MB peak
figure "resident memory at rest" MB resident
figure "start until at rest: processor time" ms start
figure "a minute at rest: processor time" ms rest
figure "silent nodes: the first pod is marked after" ms marked.first
figure "silent nodes: half of the pods are marked" ms marked.median
figure "silent nodes: all pods are marked" ms marked.last
figure "silent nodes: the first pod is evicted after" ms evicted.first
figure "silent nodes: half of the pods are evicted" ms evicted.median
figure "silent nodes: all pods are evicted" ms evicted.last
figure "silent nodes: processor time until then" ms silence
figure "silent nodes: peak resident memory" MB silence.peak
figure "pods evicted from other nodes" pods others
