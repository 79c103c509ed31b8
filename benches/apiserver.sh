#!/usr/bin/env bash
# Measures the embedded API server beside the real kube-apiserver with its etcd, in one run: each fresh, over HTTPS, with the
# same loads.
#
#   benches/apiserver.sh [PODS [WATCHES]]      20000 100
#
# Ours is `steersman standalone` without controllers: its scheduler, its simulated node and what stands in for controllers
# are measured along, and it has each write on its disk before it answers. Beside it are two processes, measured together,
# and that etcd does not wait for its disk. Loads are those of `peers load` (pods) and of the example `api_load` (config
# maps, with the pods there). Memory is resident; its peak is that since the start.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
pods=${1:-20000} watches=${2:-100}
clients=32 creates=5000 events=500

STEERSMAN=${STEERSMAN:-$(build bin steersman)}
API_LOAD=${API_LOAD:-$(build example api_load)}
build_peers

note() { echo "$3" >"$state/$1.$2"; } # note NAME WHAT VALUE
megabytes() { awk -v kb="$1" 'BEGIN {print kb / 1000}'; }
now() { date +%s%3N; } # in ms

# Of all processes of the server under test.
processes=()
total() { # total FUNCTION [ARGUMENT]: the sum of what it says of each
  local pid sum=0 what=$1
  shift
  for pid in "${processes[@]}"; do sum=$((sum + $("$what" "$pid" "$@"))); done
  echo "$sum"
}

# rest: waits until all come to rest. The real API server is never quite idle.
rest() {
  local pid
  for pid in "${processes[@]}"; do settle "$pid" 8; done
}

# start_server NAME: fresh; KUBECONFIG is its own.
start_server() {
  case $1 in
    steersman)
      "$STEERSMAN" standalone --data-dir "$state/data" --https-address "127.0.0.1:$(free_port)" --controllers= \
        >"$state/$1.log" 2>&1 </dev/null &
      processes=("$!")
      started+=("$!")
      export KUBECONFIG=$state/data/kubeconfig
      local begin
      begin=$(now)
      until "$KUBEBUILDER_ASSETS/kubectl" get --raw /readyz >/dev/null 2>&1; do
        kill -0 "${processes[0]}" 2>/dev/null || { echo "$1 ended" >&2; return 1; }
        [ $(($(now) - begin)) -lt 60000 ] || { echo "$1 is not ready" >&2; return 1; }
        sleep 0.1
      done ;;
    kube-apiserver)
      control_plane "beside ours"
      processes=("$(cat "$state/cluster/etcd.pid")" "$(cat "$state/cluster/kube-apiserver.pid")") ;;
  esac
}

# spread NAME WHAT: notes p50 and p99 of the last line that the load printed.
spread() {
  [[ $(tail -n 1 "$state/out") =~ p50\ ([^,]+),\ p99\ (.+)$ ]]
  note "$1" "$2.p50" "$(milliseconds "${BASH_REMATCH[1]}")"
  note "$1" "$2.p99" "$(milliseconds "${BASH_REMATCH[2]}")"
}

measure() {
  local name=$1 before
  start_server "$name"
  rest
  note "$name" empty "$(megabytes "$(total memory VmRSS)")"
  say "$name: $pods pods"
  before=$(total processor_time)
  timeout 1800 "$state/peers" load "$pods" | tee "$state/out" >&2
  [[ $(tail -n 1 "$state/out") =~ \ in\ (.+)$ ]]
  # Each pod is created, and then its status is written.
  note "$name" pods "$(awk -v n="$pods" -v ms="$(milliseconds "${BASH_REMATCH[1]}")" 'BEGIN {print 2 * n * 1000 / ms}')"
  note "$name" processor $(($(total processor_time) - before))
  rest
  note "$name" full "$(megabytes "$(total memory VmRSS)")"
  note "$name" peak "$(megabytes "$(total memory VmHWM)")"
  say "$name: config maps"
  timeout 600 "$API_LOAD" "$KUBECONFIG" create "$clients" "$creates" | tee "$state/out" >&2
  [[ $(tail -n 1 "$state/out") =~ clients:\ ([0-9]+)\ a\ second ]]
  note "$name" creates "${BASH_REMATCH[1]}"
  spread "$name" create
  rest
  timeout 600 "$API_LOAD" "$KUBECONFIG" watch "$watches" "$events" | tee "$state/out" >&2
  spread "$name" watch
  for pid in "${processes[@]}"; do stop "$pid"; done
}

measure kube-apiserver
measure steersman

figure() { row "$1" "$2" "$(cat "$state/steersman.$3")" "$(cat "$state/kube-apiserver.$3")"; }
heading steersman kube-apiserver
figure "without pods: resident memory" MB empty
figure "$pods pods: resident memory" MB full
figure "$pods pods: peak resident memory" MB peak
figure "$pods pods, 32 at once: writes" 1/s pods
figure "$pods pods: processor time" ms processor
figure "config maps, $clients at once: creates" 1/s creates
figure "config maps, $clients at once: p50" ms create.p50
figure "config maps, $clients at once: p99" ms create.p99
figure "create to event at $watches watches: p50" ms watch.p50
figure "create to event at $watches watches: p99" ms watch.p99
