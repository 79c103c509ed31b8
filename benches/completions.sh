#!/usr/bin/env bash
# Runs one large Job on the embedded API server with simulated nodes, and prints what it cost the controller manager: processor
# time, memory, and how long its syncs took.
#
#   benches/completions.sh [COMPLETIONS [PARALLELISM]]      100000 2000
#
# Terminated pods are not collected, so that all pods are cached at the end. The manager has the first processor for itself, so that the
# time of a sync's polls is processor time; the others have the rest, so there must be two. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
completions=${1:-100000} parallelism=${2:-2000} settle_for=300

ours=${STEERSMAN:-$(build bin steersman)}
load=${LOAD:-$(build bin steersman-load steersman-load)}
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
kubectl() { "$KUBEBUILDER_ASSETS/kubectl" "$@"; }
port=$(free_port) http=$(free_port)

taskset --cpu-list 1-1023 "$ours" standalone --controllers= --node-name idle --data-dir "$state/data" \
  --https-address "127.0.0.1:$port" --quota-backend-bytes 8589934592 >"$state/server.log" 2>&1 </dev/null &
started+=("$!")
export KUBECONFIG=$state/data/kubeconfig
timeout 60 bash -c "until '$KUBEBUILDER_ASSETS/kubectl' get --raw /readyz; do sleep 0.2; done" >"$state/out" 2>&1
kubectl wait --for=create node/idle --timeout=60s >&2
kubectl cordon idle >&2
taskset --cpu-list 1-1023 "$load" nodes 20 >"$state/nodes.log" 2>&1 </dev/null &
started+=("$!")
timeout 60 bash -c "until grep -q ready '$state/nodes.log'; do sleep 0.1; done"
taskset --cpu-list 0 "$ours" controller-manager --leader-elect=false --controllers=job-controller --kube-api-qps=10000 \
  --kube-api-burst=10000 --http-address "127.0.0.1:$http" --secure-port 0 --kubeconfig "$KUBECONFIG" >"$state/manager.log" 2>&1 </dev/null &
manager=$!
started+=("$manager")
settle "$manager"
rest=$(memory "$manager" VmRSS)

say "a job of $completions completions"
timeout 3600 taskset --cpu-list 1-1023 "$load" jobs 1 "$completions" "$parallelism" | tee "$state/out" >&2
settle "$manager"
peak=$(memory "$manager" VmHWM)
curl --silent "http://127.0.0.1:$http/metrics" >"$state/metrics"
processor=$(processor_time "$manager")
busy=steersman_controller_sync_busy_seconds
syncs=$(awk "/^${busy}_count/ { sum += \$NF } END { print sum + 0 }" "$state/metrics")
# longer LIMIT: how many syncs kept their thread for longer than a bucket's limit in seconds.
longer() {
  awk -v limit="le=\"$1\"" "/^${busy}_bucket/ && index(\$0, limit) { within += \$NF; found = 1 }
      END { if (found) print $syncs - within }" \
    "$state/metrics"
}
mean=$(awk "/^${busy}_sum/ { sum += \$NF } END { if ($syncs > 0) printf \"%.1f\", sum * 1000 / $syncs }" "$state/metrics")

printf '\n'
printf '%-46s %14s\n' "wall time (ms)" "$(milliseconds "$(sed 's/.*: //' "$state/out")")"
printf '%-46s %14s\n' "processor time (ms)" "$processor"
printf '%-46s %14s\n' "resident memory before (KB)" "$rest"
printf '%-46s %14s\n' "peak resident memory (KB)" "$peak"
printf '%-46s %14s\n' "growth for each pod (bytes)" $(((peak - rest) * 1024 / completions))
printf '%-46s %14s\n' "syncs" "$syncs"
printf '%-46s %14s\n' "a sync kept its thread, mean (ms)" "$mean"
for limit in 0.02 0.05 0.1; do
  printf '%-46s %14s\n' "syncs that kept their thread for over $limit s" "$(longer "$limit")"
done

verdicts 1
at_most "growth for each pod" 1000 $(((peak - rest) * 1024 / completions)) bytes
at_most "syncs that kept their thread for over 100 ms" 0 "$(longer 0.1)" syncs
