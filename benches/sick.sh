#!/usr/bin/env bash
# Measures what a sick API server costs the controller manager, beside the real kube-controller-manager, in one run: each
# manager with its default controllers, limits and leader election, on a real control plane with the same pods, behind a
# proxy that makes the API server look sick (benches/faults).
#
#   benches/sick.sh [PODS [FAULT...]]      2000, all faults
#
# FAULT is one of those in benches/faults/src/fault.rs. Each lasts SICK_SECONDS (60), `absent` twice as long. At the beginning
# of each, PODS/50 Deployments of three pods are created behind the manager's back, and one in every second of it. When it is
# over, one more is created. "Recovers" is the time until any pod is created. The backlog of the fault follows, at the manager's
# limit of 20 calls a second: "acts after" is the time until the last Deployment has its pod, "caught up" until all of them have
# theirs. All are given up after RECOVERY_SECONDS (300). A manager that ends is started again at once, as a kubelet would.
#
# The table: requests that reached the proxy, processor time, and lines of the log, all per minute of fault; by how much
# resident memory exceeded, at its peak, what it was before; how often the process ended. For steersman, the counters of its
# metrics that the fault moved and its most frequent lines follow. Needs root, to reset peaks of memory.
# STEERSMAN, FAULTS, and PEERS name builds of the program, the proxy, and ../shared/peers; MANAGERS selects one manager.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
pods=${1:-2000}
shift || true
all=(throttled throttled-blindly slow failing resetting absent server-certificate client-certificate etcd stalled)
if [ $# -gt 0 ]; then all=("$@"); fi
seconds=${SICK_SECONDS:-60} patience=${RECOVERY_SECONDS:-300}
read -ra managers <<<"${MANAGERS:-kube-controller-manager steersman}"

ours=${STEERSMAN:-$(build bin steersman)}
faults=${FAULTS:-$(build bin steersman-faults steersman-faults)}
if [ -n "${PEERS:-}" ]; then ln -s "$PEERS" "$state/peers"; else build_peers; fi
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS

# start_proxy NAME: with its certificates and the manager's kubeconfig in $state/NAME.
start_proxy() {
  local port
  port=$(free_port) control=127.0.0.1:$((port + 1))
  mkdir "$state/$1"
  "$faults" --address "127.0.0.1:$port" --control "$control" --folder "$state/$1" >"$state/proxy.log" 2>&1 </dev/null &
  proxy=$!
  started+=("$proxy")
  for _ in $(seq 100); do grep -q ready "$state/proxy.log" && return; sleep 0.1; done
  echo "the proxy does not start" >&2
  return 1
}

switch() { curl -sf -X PUT "http://$control/fault/$1" >/dev/null; }
count() { curl -sf "http://$control/counts" | awk -v what="$1" '$1 == what {print $2}'; }

# keep_running NAME: the manager, again and again, in the background. `keeper` is the process that starts it, and
# $state/NAME.pid has the process id of the manager of the hour.
keep_running() {
  local name=$1 port command
  local flags=(--kubeconfig "$state/$name/kubeconfig" --node-monitor-grace-period 24h --node-startup-grace-period 24h
    --root-ca-file "$state/cluster/certs/apiserver.crt" --service-account-private-key-file "$state/cluster/sa.key")
  port=$(free_port) metrics=http://127.0.0.1:$port/metrics
  case $name in
    steersman) command=("$ours" controller-manager "${flags[@]}" --http-address "127.0.0.1:$port" --secure-port 0) ;;
    *) command=("$KUBEBUILDER_ASSETS/$name" "${flags[@]}" --cert-dir "$state/certificates" --secure-port "$port") ;;
  esac
  (
    trap 'kill "$pid" 2>/dev/null; wait "$pid"; exit 0' TERM
    while true; do
      "${command[@]}" >>"$state/$name.log" 2>&1 </dev/null &
      pid=$!
      echo "$pid" >"$state/$name.pid"
      wait "$pid" || true
      sleep 0.1
    done
  ) &
  keeper=$!
  started+=("$keeper")
  for _ in $(seq 100); do [ -s "$state/$name.pid" ] && break; sleep 0.1; done
}

# spent NAME: processor time of the manager and of those before it, in ms.
spent() {
  local fields
  fields=$(sed 's/^.*) //' "/proc/$keeper/stat")
  # shellcheck disable=SC2086 # words are wanted
  set -- $fields "$1"
  local past=$(((${14} + ${15}) * 1000 / $(getconf CLK_TCK)))
  echo $((past + $(processor_time "$(<"$state/${!#}.pid")" 2>/dev/null || echo 0)))
}

# api METHOD PATH [BODY]: a call straight to the API server.
server() { sed -n 's/.*server: "\([^"]*\)".*/\1/p' "$KUBECONFIG"; }
api() {
  local data=()
  if [ $# -gt 2 ]; then data=(-H 'Content-Type: application/json' --data-binary "$3"); fi
  curl -sfk -X "$1" -H 'Authorization: Bearer admin-token' "${data[@]}" "$api_server$2"
}

# deployment NAME PODS
deployment() {
  printf '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"%s","namespace":"sick"},"spec":{"replicas":%s,' "$1" "$2"
  printf '"selector":{"matchLabels":{"app":"%s"}},"template":{"metadata":{"labels":{"app":"%s"}},' "$1" "$1"
  printf '"spec":{"containers":[{"name":"main","image":"busybox"}]}}}}\n'
}
create() { api POST /apis/apps/v1/namespaces/sick/deployments "$(deployment "$1" "$2")" >/dev/null; }

# have SELECTOR: how many pods exist in the namespace, with these labels.
have() {
  { api GET "/api/v1/namespaces/sick/pods?labelSelector=$1" || true; } | { grep -o '"pod-template-hash": *"' || true; } | wc -l
}

now() { date +%s%3N; }

# until_pods SINCE WANTED SELECTOR: ms from then until there are so many pods, or `never`.
until_pods() {
  local end=$(($1 + patience * 1000))
  while [ "$(have "$3")" -lt "$2" ]; do
    if [ "$(now)" -ge "$end" ]; then echo never; return; fi
    sleep 0.2
  done
  echo $(($(now) - $1))
}

# counters: the counters of a fault, of steersman's metrics.
counters() {
  curl -sf --max-time 5 "$metrics" | grep -E '^(rest_client_requests_total|steersman_|informer_|workqueue_retries_total|leader_election_)' |
    grep -v -E 'code="2|_bucket|informer_cache_objects|result="synced"' || true
}

# messages FROM: the log's most frequent messages after that line, without what differs from one to the next.
messages() {
  tail -n "+$(($1 + 1))" "$state/steersman.log" | sed -E 's/^[IWEF][0-9]{4} [0-9:.]+ +[0-9]+ ([^ ]+\])/\1/; s/[0-9]+/N/g' |
    cut -c 1-150 | sort | uniq -c | sort -rn | sed -n 1,4p
}

# suffer NAME FAULT: one fault and the recovery. Appends a line to $state/NAME.table.
suffer() {
  local name=$1 fault=$2 lasts=$seconds burst=$((pods / 50)) number=0 wanted before_lines before_requests before_spent
  local before_memory peak lives end over recovers acts caught pid
  if [ "$fault" = absent ]; then lasts=$((seconds * 2)); fi
  say "$name: $fault for $lasts s"
  pid=$(<"$state/$name.pid")
  before_memory=$(memory "$pid" VmRSS)
  echo 5 >"/proc/$pid/clear_refs"
  before_lines=$(wc -l <"$state/$name.log") before_requests=$(count requests) lives=$(<"$state/$name.pid")
  if [ "$name" = steersman ]; then counters | sort >"$state/before"; fi
  before_spent=$(spent "$name")
  switch "$fault"
  end=$(($(now) + lasts * 1000))
  for number in $(seq "$burst"); do create "$fault-many-$number" 3; done
  while [ "$(now)" -lt "$end" ]; do
    number=$((number + 1))
    create "$fault-many-$number" 3
    sleep 1
  done
  wanted=$((number * 3))
  if [ "$name" = steersman ]; then counters | sort >"$state/after"; fi
  local had
  had=$(have "")
  switch none
  over=$(now)
  local spent_now lines requests
  spent_now=$(spent "$name") lines=$(wc -l <"$state/$name.log") requests=$(count requests)
  create "$fault-last" 1
  recovers=$(until_pods "$over" $((had + 1)) "")
  acts=$(until_pods "$over" 1 "app=$fault-last")
  caught=$(until_pods "$over" $((wanted + 1)) "")
  pid=$(<"$state/$name.pid")
  peak=$(memory "$pid" VmHWM)
  if [ "$pid" = "$lives" ]; then lives=lived; else lives=ended; fi
  awk -v fault="$fault" -v s="$lasts" -v requests=$((requests - before_requests)) -v ms=$((spent_now - before_spent)) \
    -v lines=$((lines - before_lines)) -v growth=$((peak - before_memory)) -v recovers="$recovers" -v acts="$acts" -v caught="$caught" \
    -v lives="$lives" 'function seconds(ms) { return ms == "never" ? ms : sprintf("%.1f", ms / 1000) }
    BEGIN { printf "%s\t%.0f\t%.0f\t%.0f\t%.1f\t%s\t%s\t%s\t%s\n", fault, requests * 60 / s, ms * 60 / s, lines * 60 / s,
      growth / 1000, seconds(recovers), seconds(acts), seconds(caught), lives }' | tee -a "$state/$name.table" >&2
  if [ "$name" = steersman ]; then
    { printf '\n%s\n' "$fault"; messages "$before_lines"
      join -j 1 -a 2 -e 0 -o 0,1.2,2.2 "$state/before" "$state/after" | awk '$3 > $2 {print "  " $1, "+" $3 - $2}' |
        sort -t+ -k2 -rn | sed -n 1,8p; } >>"$state/seen"
  fi
  # The next fault begins with an empty namespace and a manager at rest.
  api DELETE /apis/apps/v1/namespaces/sick/deployments >/dev/null
  for _ in $(seq "$patience"); do [ "$(have "")" -gt 0 ] || break; sleep 1; done
  settle "$pid" 8 || true
}

for name in "${managers[@]}"; do
  cluster_with "$pods"
  api_server=$(server)
  api POST /api/v1/namespaces '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"sick"}}' >/dev/null
  start_proxy "$name"
  keep_running "$name"
  settle "$(<"$state/$name.pid")" 8 || true
  for fault in "${all[@]}"; do suffer "$name" "$fault"; done
  stop "$keeper"
  stop "$(<"$state/$name.pid")"
  stop "$proxy"
done

for name in "${managers[@]}"; do
  printf '\n%s\n' "$name"
  printf '%-20s %12s %12s %12s %12s %12s %12s %12s %8s\n' fault requests/min "cpu ms/min" lines/min "growth MB" "recovers s" \
    "acts after s" "caught up s" process
  awk -F '\t' '{printf "%-20s %12s %12s %12s %12s %12s %12s %12s %8s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9}' \
    "$state/$name.table"
done
if [ -f "$state/seen" ]; then printf '\nWhat steersman tells of each fault: its lines, and its counters\n'; cat "$state/seen"; fi
