#!/usr/bin/env bash
# Runs one large Job on the embedded API server with simulated nodes, and prints what it cost the controller manager: processor
# time, memory, and how long its syncs took.
#
#   benches/completions.sh [COMPLETIONS [PARALLELISM]]      100000 2000
#
# Terminated pods are not collected, so that all pods are cached at the end. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
completions=${1:-100000} parallelism=${2:-2000} settle_for=300

ours=${STEERSMAN:-$(build bin steersman)}
load=${LOAD:-$(build bin steersman-load steersman-load)}
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
kubectl() { "$KUBEBUILDER_ASSETS/kubectl" "$@"; }
port=$(free_port) http=$(free_port)

"$ours" standalone --controllers= --node-name idle --data-dir "$state/data" --https-address "127.0.0.1:$port" \
  --quota-backend-bytes 8589934592 >"$state/server.log" 2>&1 </dev/null &
started+=("$!")
export KUBECONFIG=$state/data/kubeconfig
timeout 60 bash -c "until '$KUBEBUILDER_ASSETS/kubectl' get --raw /readyz; do sleep 0.2; done" >"$state/out" 2>&1
kubectl wait --for=create node/idle --timeout=60s >&2
kubectl cordon idle >&2
"$load" nodes 20 >"$state/nodes.log" 2>&1 </dev/null &
started+=("$!")
timeout 60 bash -c "until grep -q ready '$state/nodes.log'; do sleep 0.1; done"
"$ours" controller-manager --leader-elect=false --controllers=job-controller --kube-api-qps=10000 --kube-api-burst=10000 \
  --http-address "127.0.0.1:$http" --secure-port 0 --kubeconfig "$KUBECONFIG" >"$state/manager.log" 2>&1 </dev/null &
manager=$!
started+=("$manager")
settle "$manager"
rest=$(memory "$manager" VmRSS)

say "a job of $completions completions"
timeout 3600 "$load" jobs 1 "$completions" "$parallelism" | tee "$state/out" >&2
settle "$manager"
peak=$(memory "$manager" VmHWM)
curl --silent "http://127.0.0.1:$http/metrics" >"$state/metrics"
syncs=$(awk '/^job_controller_job_sync_duration_seconds_count/ { sum += $NF } END { print sum + 0 }' "$state/metrics")
processor=$(processor_time "$manager")
# longer LIMIT: how many syncs took longer than a bucket's limit in seconds. slowest: the limit in ms that none exceeded.
longer() {
  awk -v limit="le=\"$1\"" '/^job_controller_job_sync_duration_seconds_bucket/ && index($0, limit) { within += $NF }
    END { print '"$syncs"' - within }' "$state/metrics"
}
slowest() {
  awk -v syncs="$syncs" '/^job_controller_job_sync_duration_seconds_bucket/ && match($0, /le="[0-9.]+"/) {
      within[substr($0, RSTART + 4, RLENGTH - 5)] += $NF }
    END { least = ""
      for (limit in within) if (within[limit] == syncs && (least == "" || limit + 0 < least + 0)) least = limit
      if (least != "") print least * 1000 }' "$state/metrics"
}

printf '\n'
printf '%-46s %14s\n' "wall time (ms)" "$(milliseconds "$(sed 's/.*: //' "$state/out")")"
printf '%-46s %14s\n' "processor time (ms)" "$processor"
printf '%-46s %14s\n' "resident memory before (KB)" "$rest"
printf '%-46s %14s\n' "peak resident memory (KB)" "$peak"
printf '%-46s %14s\n' "growth for each pod (bytes)" $(((peak - rest) * 1024 / completions))
printf '%-46s %14s\n' "syncs" "$syncs"
printf '%-46s %14s\n' "processor time for each sync, mean (ms)" \
  "$(awk -v processor="$processor" -v syncs="$syncs" 'BEGIN { if (syncs > 0) printf "%.1f", processor / syncs }')"
printf '%-46s %14s\n' "syncs of over 64 ms, with waiting for calls" "$(longer 0.064)"
printf '%-46s %14s\n' "syncs of over 128 ms, with waiting for calls" "$(longer 0.128)"
printf '%-46s %14s\n' "slowest sync, with waiting: at most (ms)" "$(slowest)"

verdicts 1
at_most "growth for each pod" 1000 $(((peak - rest) * 1024 / completions)) bytes
# The manager does not export the processor time of a sync. The histogram has the time from a sync's begin to its end, which
# includes that of its calls: it shows that the limit holds, but not that it is missed.
if awk -v slowest="$(slowest)" 'BEGIN { exit !(slowest != "" && slowest <= 100) }'; then
  at_most "processor time of the slowest sync" 100 "$(slowest)" ms
else
  printf '%-52s asked: at most 100 ms; cannot be told from outside: ' "processor time of the slowest sync"
  printf 'with their calls, %s of %s syncs took longer than 64 ms\n' "$(longer 0.064)" "$syncs"
fi
