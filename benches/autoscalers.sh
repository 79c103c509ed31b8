#!/usr/bin/env bash
# Measures HorizontalPodAutoscalers beside the real kube-controller-manager, in one run: each manager with that controller
# alone and 1,000 calls a second, on a real control plane with a server of resource, custom and external metrics.
#
#   benches/autoscalers.sh [AUTOSCALERS [PERIODS]]      1000 10
#
# Each autoscaler has four metrics and a Deployment of two pods. The values change by 2 % from one sync period to the next, so
# that each status is written in each period, and no number of replicas. STEERSMAN and LOAD name other builds.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
count=${1:-1000} periods=${2:-10} period=15
controllers=horizontal-pod-autoscaler-controller qps=1000
flags=("--horizontal-pod-autoscaler-sync-period=${period}s")
# shellcheck source=benches/managers.sh
. "$(dirname "$0")/managers.sh"

# serve_metrics: the server of metrics, in the background; `metrics` is its process id.
serve_metrics() {
  "$load" metrics >"$state/metrics.log" 2>&1 </dev/null &
  metrics=$!
  started+=("$metrics")
  for _ in $(seq 600); do grep -q ready "$state/metrics.log" && return; sleep 0.1; done
  echo "the API server does not have the metrics" >&2
  return 1
}

# status_writes: the number of statuses of autoscalers that were written since the API server started.
status_writes() {
  "$KUBEBUILDER_ASSETS/kubectl" get --raw /metrics | awk '
    /^apiserver_request_total/ && /resource="horizontalpodautoscalers"/ && /subresource="status"/ && /code="200"/ { sum += $NF }
    END { print sum + 0 }'
}

for name in "${managers[@]}"; do
  control_plane "for autoscalers of $name"
  timeout 900 "$load" autoscalers "$count" >&2
  serve_metrics
  start_manager "$name"
  timeout 300 "$load" autoscalers "$count" --wait >&2
  # The first sync is at the end of a period: now all are well between two.
  sleep $((period / 2))
  before=$(processor_time "$manager") writes=$(status_writes)
  sleep $((period * periods))
  note "$name" processor $(($(processor_time "$manager") - before))
  note "$name" writes $(($(status_writes) - writes))
  note "$name" peak "$(megabytes "$(memory "$manager" VmHWM)")"
  stop "$manager"
  stop "$metrics"
done

heading steersman kube-c-m
figure "$count autoscalers, $periods periods: processor time" ms processor
figure "statuses written meanwhile" calls writes
figure "peak resident memory" MB peak
verdicts 1
asked "$count autoscalers, $periods periods: processor time" 0.2 processor
