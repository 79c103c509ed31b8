#!/usr/bin/env bash
# Measures the whole controller manager beside the real kube-controller-manager, in one run: each with all controllers that
# run by default, without client limits, on a real control plane of API-only nodes that renew their leases every 10 s.
#
#   benches/cluster.sh [PODS [NODES]]      20000 1000
#
# Pods have 4 KB and tolerate a silent node for 5 s. A start counts until the manager needs no more processor time than in the
# minute at rest that follows. A tenth of the nodes falls silent at the end: the times are from a node's last renewal until its
# pod was marked as not ready, and until it was evicted. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
pods=${1:-20000} nodes=${2:-1000}
controllers='*'
grace=50000 toleration=5000 # ms: of --node-monitor-grace-period, and of the pods
flags=()
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"
# With the keys and the range of pods, the controllers that sign and that give ranges to nodes run as well.
flags=(--node-eviction-rate=10 "--node-monitor-grace-period=$((grace / 1000))s" "${keys[@]}" --allocate-node-cidrs
  --cluster-cidr=10.128.0.0/10)

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

# begin NAME: samples the processor time of a manager that has just been started, every 5 s for two minutes.
begin() { for _ in $(seq 24); do sleep 5; processor_time "$manager"; done >"$state/$1.samples"; }

# rested NAME REST: prints the processor time, and the seconds, from a manager's start until three samples in a row grew no
# faster than half as much again as in a minute at rest.
rested() {
  awk -v rest="$2" '{ at[NR] = $1 } END {
    most = rest / 12 * 1.5 + 20 # two ticks of the clock
    for (i = 1; i + 3 <= NR; i++)
      if (at[i + 1] - at[i] <= most && at[i + 2] - at[i + 1] <= most && at[i + 3] - at[i + 2] <= most) { print at[i], i * 5; exit }
    print at[NR], NR * 5 }' "$state/$1.samples"
}

for name in "${managers[@]}"; do
  control_plane "for $name"
  "$load" fleet "$nodes" "$pods" --silent $((nodes / 10)) >"$state/fleet.log" 2>&1 </dev/null &
  fleet=$!
  started+=("$fleet")
  said 'are ready'
  start_manager "$name"
  begin "$name"
  rest=$(minute)
  read -r start took < <(rested "$name" "$rest")
  if [ "$took" -eq 120 ]; then say "$name: was not at rest after two minutes"; fi
  note "$name" start "$start"
  note "$name" start.wall "$took"
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
figure "start until at rest: wall time, to 5 s" s start.wall
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
verdicts 1
asked "peak resident memory" 0.1 peak
asked "a minute at rest: processor time" 0.2 rest
asked "start until at rest: processor time" 0.25 start
asked "silent nodes: half of the pods are marked" 1 marked.median
asked "silent nodes: all pods are marked" 1 marked.last
asked "silent nodes: half of the pods are evicted" 1 evicted.median
asked "silent nodes: all pods are evicted" 1 evicted.last
at_least "silent nodes: the first pod is marked after" "$grace" "$(median <"$state/steersman.marked.first")" ms
at_least "silent nodes: the first pod is evicted after" $((grace + toleration)) "$(median <"$state/steersman.evicted.first")" ms
at_most "pods evicted from other nodes" 0 "$(median <"$state/steersman.others")" pods
