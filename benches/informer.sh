#!/usr/bin/env bash
# Measures the pod informer beside client-go's and kube-runtime's, in one run against one real API server.
#
#   benches/informer.sh [PODS] [ROUNDS]      20000 pods, 3 rounds of each by turns; medians are printed
#
# Ours keeps of a pod what the job, endpoints and podgc controllers read; client-go and kube-runtime keep the whole pod.
# Memory is that of a whole process from its cold start. POD_INFORMER and KUBE_RUNTIME_INFORMER name other builds of the
# programs.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
pods=${1:-20000} rounds=${2:-3}

ours=${POD_INFORMER:-$(build bin pod_informer steersman-informers)}
kube_runtime=${KUBE_RUNTIME_INFORMER:-$(build bin kube_runtime_informer steersman-informers)}
build_peers
cluster_with "$pods"
read_in "$ours" "$kube_runtime" "$state/peers"

# measure NAME COMMAND...: runs it and appends to files of that name: seconds to sync, kB, seconds of processor time.
measure() {
  local name=$1 line user system
  shift
  TIMEFORMAT='%U %S'
  { time timeout 300 "$@" >"$state/out" 2>"$state/err"; } 2>"$state/time" ||
    { cat "$state/out" "$state/err" >&2; echo "$name failed" >&2; return 1; }
  cat "$state/out" >&2
  line=$(grep -E ' pods synced in ' "$state/out")
  [[ $line =~ ([0-9]+)\ pods\ synced\ in\ ([^,]+),\ VmHWM:\ ([0-9]+)\ kB,\ VmRSS:\ ([0-9]+)\ kB ]] ||
    { echo "$name printed what can't be read: $line" >&2; return 1; }
  [ "${BASH_REMATCH[1]}" = "$pods" ] || { echo "$name has ${BASH_REMATCH[1]} pods of $pods" >&2; return 1; }
  milliseconds "${BASH_REMATCH[2]}" >>"$state/$name.sync"
  echo "${BASH_REMATCH[3]}" >>"$state/$name.peak"
  echo "${BASH_REMATCH[4]}" >>"$state/$name.resident"
  read -r user system <"$state/time"
  awk -v u="$user" -v s="$system" 'BEGIN {print (u + s) * 1000}' >>"$state/$name.processor"
}

for _ in $(seq "$rounds"); do
  measure client-go "$state/peers" informer
  measure kube-runtime "$kube_runtime" "$KUBECONFIG"
  measure steersman "$ours" "$KUBECONFIG"
done

of() { median <"$state/$1"; }
for peer in client-go kube-runtime; do
  heading steersman "$peer"
  row "$pods pods: peak resident memory" MB "$(of steersman.peak | awk '{print $1 / 1000}')" \
    "$(of "$peer.peak" | awk '{print $1 / 1000}')"
  row "$pods pods: resident memory once synced" MB "$(of steersman.resident | awk '{print $1 / 1000}')" \
    "$(of "$peer.resident" | awk '{print $1 / 1000}')"
  row "$pods pods: time to sync" ms "$(of steersman.sync)" "$(of "$peer.sync")"
  row "$pods pods: processor time of the whole run" ms "$(of steersman.processor)" "$(of "$peer.processor")"
done
