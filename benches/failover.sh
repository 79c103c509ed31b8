#!/usr/bin/env bash
# Measures how soon a standby writes after its leader is gone, beside the real kube-controller-manager, in one run: two
# candidates of each, on a real control plane with the same pods.
#
#   benches/failover.sh [ROUNDS [PODS [MANNER...]]]      5 20000 term kill stop cut
#
# In each round the leader goes, in a MANNER: it is asked to end (SIGTERM), killed (SIGKILL), frozen (SIGSTOP) or its network is
# cut. A Deployment of five pods is created in the same moment. Times count from the signal until the API server receives the
# first write of the standby, by the API server's audit log; leases and events do not count. Afterwards a frozen leader thaws, and
# a cut network heals with all that is still in it. Counted are
# - duplicates: ReplicaSets and pods that were created beyond those that the Deployment needs;
# - late writes: what the old leader wrote after the first write of its successor;
# - exits: leaders that ended because they lost the lease.
# At the end it compares steersman's figures with what is asked for, of 50 rounds. PEER_ROUNDS is the number of rounds with
# kube-controller-manager, if that differs. STEERSMAN and LOAD name other builds. Needs jq and curl.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
rounds=${1:-5}
pods=${2:-20000}
manners=("${@:3}")
if [ ${#manners[@]} -eq 0 ]; then manners=(term kill stop cut); fi
replicas=5
lease=15000 # ms: the default of --leader-elect-lease-duration
ours=${STEERSMAN:-$(build bin steersman)}
load=${LOAD:-$(build bin steersman-load steersman-load)}
build_peers
export AUDIT=$state/audit.log API_FLAGS=--audit-log-maxsize=100000 # of one file, which is not rotated
controllers=deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,disruption-controller
controllers+=,replicationcontroller-controller,job-controller,endpoints-controller,pod-garbage-collector-controller
declare -A process relay port # of the two candidates, a and b

# api METHOD PATH [BODY]: a request of the administrator, straight to the API server.
api() {
  curl -fsSk -X "$1" -H 'Authorization: Bearer admin-token' -H 'Content-Type: application/json' \
    "https://$server$2" ${3:+--data "$3"}
}

position() { stat -c %s "$AUDIT"; }
now() { date +%s%6N; } # in microseconds

# logged SINCE FILTER [ARGUMENT...]: what a jq filter says of each request that the audit log has from the byte SINCE on.
# shellcheck disable=SC2016 # jq's variables
logged() {
  local since=$1 filter=$2
  shift 2
  tail -c "+$((since + 1))" "$AUDIT" | jq -rR "$@" '
    def at: .requestReceivedTimestamp | capture("^(?<s>[^.]+)[.](?<us>[0-9]{6})Z$")
      | (.s + "Z" | fromdate) * 1000000 + (.us | tonumber);
    def of($slot): .impersonatedUser.username == "candidate-" + $slot;
    def is_done: .stage == "ResponseComplete" and .responseStatus.code < 300;
    def counts: is_done and (.verb | IN("create", "update", "patch", "delete", "deletecollection"))
      and (.objectRef.resource | IN("leases", "events", "selfsubjectaccessreviews", "subjectaccessreviews") | not);
    fromjson? | '"$filter"
}

# await SECONDS WHAT COMMAND...: until the command prints something, which is then in `found`.
await() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  while [ "$SECONDS" -lt "$until" ]; do
    found=$("$@" | head -n 1) || true # of a pipe that is closed early
    [ -z "$found" ] || return 0
    sleep 0.1
  done
  echo "waited in vain: $what" >&2
  return 1
}

# asks SLOT SINCE, leads SLOT SINCE, writes SLOT SINCE: a line for each time that a candidate has read the lease, has written it,
# and has written something else: the latter with its time.
# shellcheck disable=SC2016
asks() { logged "$2" 'select(of($slot) and .verb == "get" and .objectRef.resource == "leases") | "asks"' --arg slot "$1"; }
# shellcheck disable=SC2016
leads() {
  logged "$2" 'select(of($slot) and is_done and (.verb | IN("create", "update")) and .objectRef.resource == "leases") | "leads"' \
    --arg slot "$1"
}
# shellcheck disable=SC2016
writes() { logged "$2" 'select(of($slot) and counts) | at' --arg slot "$1" | sort -n; }

# created NAMESPACE SINCE: a line for each ReplicaSet and pod that was created.
# shellcheck disable=SC2016
created() {
  logged "$2" 'select(is_done and .verb == "create" and .objectRef.namespace == $namespace
    and (.objectRef.resource | IN("replicasets", "pods")) and (.objectRef.subresource // "") == "")
    | .objectRef.resource' --arg namespace "$1"
}

# complete NAMESPACE SINCE: prints something if all was created.
complete() { [ "$(created "$1" "$2" | wc -l)" -lt $((replicas + 1)) ] || echo complete; }

# ready SLOT: prints something if the caches of a candidate are warm. Those of a kube-controller-manager never are.
ready() {
  [ "$name" = steersman ] || { echo cold; return; }
  curl -fs "http://127.0.0.1:${port[$1]}/readyz" || true
}

# lead_through SLOT: a relay between a candidate and the API server, and a kubeconfig for the candidate, as a user of its own.
lead_through() {
  local at
  at=127.0.0.1:$(free_port)
  "$load" relay "$at" "$server" >"$state/relay-$1.log" 2>&1 </dev/null &
  relay[$1]=$!
  started+=("$!")
  disown "$!"
  await 10 "the relay is ready" cat "$state/relay-$1.log"
  sed -e "s/$server/$at/" \
    -e "s/{token: admin-token}/{token: admin-token, as: candidate-$1, as-groups: [\"system:masters\"]}/" \
    "$KUBECONFIG" >"$state/kubeconfig-$1"
}

# launch SLOT: a candidate, in the background, and waits until it has asked for the lease and its caches are warm.
launch() {
  local slot=$1 since all
  since=$(position)
  port[$slot]=$(free_port)
  all=(--kubeconfig "$state/kubeconfig-$slot" "--controllers=$controllers" --controller-start-interval=0s
    --kube-api-qps=10000 --kube-api-burst=10000)
  case $name in
    steersman) "$ours" controller-manager "${all[@]}" --http-address "127.0.0.1:${port[$slot]}" --secure-port 0 \
      >>"$state/$name-$slot.log" 2>&1 </dev/null & ;;
    *) "$KUBEBUILDER_ASSETS/$name" "${all[@]}" --cert-dir "$state/certificates-$slot" --secure-port "${port[$slot]}" \
      >>"$state/$name-$slot.log" 2>&1 </dev/null & ;;
  esac
  process[$slot]=$!
  started+=("$!")
  disown "$!"
  await 60 "$name asks for the lease" asks "$slot" "$since"
  await 60 "$name is ready" ready "$slot"
}

is_alive() { kill -0 "${process[$1]}" 2>/dev/null; }

note() { echo "$3" >>"$state/$name.$1.$2"; } # note MANNER WHAT VALUE

# round MANNER NUMBER: the leader goes, and comes back as the standby.
round() {
  local manner=$1 namespace=$1-$2 since begun first took surplus late exits=0 label
  label='{"app": "web"}'
  api POST /api/v1/namespaces "{\"metadata\": {\"name\": \"$namespace\"}}" >/dev/null
  since=$(position)
  begun=$(now)
  case $manner in
    term) kill -TERM "${process[$leader]}" ;;
    kill) kill -KILL "${process[$leader]}" ;;
    stop) kill -STOP "${process[$leader]}" ;;
    cut) kill -STOP "${relay[$leader]}" ;;
    *) echo "no such manner: $manner" >&2; exit 2 ;;
  esac
  api POST "/apis/apps/v1/namespaces/$namespace/deployments" "{\"metadata\": {\"name\": \"web\"}, \"spec\": {
    \"replicas\": $replicas, \"selector\": {\"matchLabels\": $label}, \"template\": {\"metadata\": {\"labels\": $label},
    \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"busybox\"}]}}}}" >/dev/null
  await 120 "the standby writes" writes "$standby" "$since"
  first=$found
  await 60 "all pods are created" complete "$namespace" "$since"

  # Nothing is waited for: what must not happen has this time to happen. A frozen kube-controller-manager that thaws may act as
  # the leader for its renew deadline of 10 s, and then ends.
  case $manner in
    term | kill) for _ in $(seq 300); do is_alive "$leader" || break; sleep 0.1; done ;;
    stop) kill -CONT "${process[$leader]}" 2>/dev/null || true; sleep 15 ;;
    cut) kill -CONT "${relay[$leader]}"; sleep 15 ;;
  esac
  late=$(writes "$leader" "$since" | awk -v first="$first" '$1 > first' | wc -l)
  surplus=$(($(created "$namespace" "$since" | wc -l) - replicas - 1))
  case $manner in stop | cut) is_alive "$leader" || exits=1 ;; esac
  took=$(((first - begun) / 1000))
  note "$manner" time "$took"
  note "$manner" duplicates "$surplus"
  note "$manner" late "$late"
  note "$manner" exits "$exits"
  say "$name, $manner, round $2: first write after $took ms, $surplus duplicates, $late late writes, $exits exits"
  if is_alive "$leader"; then await 60 "$name is ready" ready "$leader"; else launch "$leader"; fi
  found=$leader leader=$standby standby=$found
}

# measure NAME ROUNDS: all manners of one manager.
measure() {
  name=$1 leader=a standby=b
  rm -f "$AUDIT"
  cluster_with "$pods"
  server=$(sed -n 's|.*server: "https://\([^"]*\)".*|\1|p' "$KUBECONFIG")
  lead_through a
  lead_through b
  say "$name: two candidates"
  launch a
  await 60 "$name leads" leads a 0
  settle "${process[a]}"
  launch b
  settle "${process[b]}"
  local manner number
  for manner in "${manners[@]}"; do
    for number in $(seq "$2"); do round "$manner" "$number"; done
  done
  local slot
  for slot in a b; do
    stop "${process[$slot]}"
    stop "${relay[$slot]}"
  done
}

measure kube-controller-manager "${PEER_ROUNDS:-$rounds}"
measure steersman "$rounds"

figure() { # figure WHAT UNIT NOTE OF: a row with one number of what was noted of each manager
  row "$1" "$2" "$("$4" <"$state/steersman.$3")" "$("$4" <"$state/kube-controller-manager.$3")"
}
declare -A title=([term]=SIGTERM [kill]=SIGKILL [stop]=SIGSTOP [cut]="network cut")
heading steersman kube-c-m
for manner in "${manners[@]}"; do
  figure "${title[$manner]}: first write, median" ms "$manner.time" median
  figure "${title[$manner]}: first write, worst" ms "$manner.time" worst
  figure "${title[$manner]}: duplicates" objects "$manner.duplicates" total
  figure "${title[$manner]}: late writes" writes "$manner.late" total
  case $manner in stop | cut) figure "${title[$manner]}: exits" processes "$manner.exits" total ;; esac
done

verdicts 1
of() { "$2" <"$state/steersman.$1"; } # of NOTE OF: one number of what was noted of steersman
for manner in "${manners[@]}"; do
  case $manner in
    term) at_most "SIGTERM: first write, worst of $rounds" 1000 "$(of term.time worst)" ms ;;
    kill) at_most "SIGKILL: first write, worst of $rounds" $((lease + 1000)) "$(of kill.time worst)" ms ;;
    stop | cut) at_most "${title[$manner]}: exits for a lost lease" 0 "$(of "$manner.exits" total)" processes ;;
  esac
  at_most "${title[$manner]}: duplicates" 0 "$(of "$manner.duplicates" total)" objects
  at_most "${title[$manner]}: late writes" 0 "$(of "$manner.late" total)" writes
done
