#!/usr/bin/env bash
# Measures the controller manager beside the real kube-controller-manager, in one run: each with the job, endpoints and
# podgc controllers and without client limits, against a fresh real control plane with the same pods.
#
#   benches/manager.sh [PODS]      20000
#
# Memory is that of the process from its cold start. Loads are those of `peers jobs` and `peers endpoints`.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
pods=${1:-20000}

ours=${STEERSMAN:-$(build bin steersman)}
build_peers

# shellcheck disable=SC2054 # a list of names is one word
common=(--leader-elect=false --controllers=job-controller,endpoints-controller,pod-garbage-collector-controller
  --kube-api-qps=10000 --kube-api-burst=10000)

# start_manager NAME: in the background; `manager` is its process id, its log is in $state/NAME.log.
start_manager() {
  read_in "$ours" "$KUBEBUILDER_ASSETS/kube-controller-manager"
  case $1 in
    steersman)
      "$ours" controller-manager "${common[@]}" --kubeconfig "$KUBECONFIG" --secure-port "$(free_port)" \
        >"$state/$1.log" 2>&1 </dev/null & ;;
    kube-controller-manager)
      "$KUBEBUILDER_ASSETS/kube-controller-manager" "${common[@]}" --kubeconfig "$KUBECONFIG" \
        --cert-dir "$state/certificates" --secure-port "$(free_port)" >"$state/$1.log" 2>&1 </dev/null & ;;
  esac
  manager=$!
  started+=("$manager")
}

note() { echo "$3" >"$state/$1.$2"; } # note NAME WHAT VALUE
megabytes() { awk -v kb="$1" 'BEGIN {print kb / 1000}'; }

# jobs NAME LABEL N PODS: notes wall time as the user sees it, and the manager's processor time.
jobs() {
  local name=$1 label=$2 before
  before=$(processor_time "$manager")
  timeout 600 "$state/peers" jobs "$3" "$4" | tee "$state/out" >&2
  settle "$manager"
  note "$name" "$label.processor" $(($(processor_time "$manager") - before))
  [[ $(tail -n 1 "$state/out") =~ ,\ ([^ ]+)\ in\ all ]]
  note "$name" "$label.wall" "$(milliseconds "${BASH_REMATCH[1]}")"
}

measure() {
  local name=$1
  cluster_with "$pods"
  say "$name: cold start"
  start_manager "$name"
  settle "$manager"
  note "$name" cold.peak "$(megabytes "$(memory "$manager" VmHWM)")"
  note "$name" cold.resident "$(megabytes "$(memory "$manager" VmRSS)")"
  note "$name" cold.processor "$(processor_time "$manager")"
  say "$name: jobs"
  jobs "$name" many 50 40
  jobs "$name" large 1 2000
  note "$name" jobs.peak "$(megabytes "$(memory "$manager" VmHWM)")"
  say "$name: endpoints"
  timeout 600 "$state/peers" endpoints 500 | tee "$state/out" >&2
  [[ $(tail -n 1 "$state/out") =~ p50\ ([^,]+),\ p90\ ([^,]+), ]]
  note "$name" p50 "$(milliseconds "${BASH_REMATCH[1]}")"
  note "$name" p90 "$(milliseconds "${BASH_REMATCH[2]}")"
  stop "$manager"
}

measure kube-controller-manager
measure steersman

figure() { row "$1" "$2" "$(cat "$state/steersman.$3")" "$(cat "$state/kube-controller-manager.$3")"; }
heading steersman kube-c-m
figure "$pods pods: peak resident memory" MB cold.peak
figure "$pods pods: resident memory at rest" MB cold.resident
figure "start until at rest: processor time" ms cold.processor
figure "50 jobs of 40 pods: wall time" ms many.wall
figure "50 jobs of 40 pods: processor time" ms many.processor
figure "one job of 2000 pods: wall time" ms large.wall
figure "one job of 2000 pods: processor time" ms large.processor
figure "peak resident memory after the jobs" MB jobs.peak
figure "readiness to Endpoints, 500 pods: p50" ms p50
figure "readiness to Endpoints, 500 pods: p90" ms p90
