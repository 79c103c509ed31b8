#!/usr/bin/env bash
# Attacks each server of steersman on loopback, and then the server of Kubernetes that it stands in for. Prints what the attack
# costs each: how long a bystander waits before, under and after it, and the memory and the processor time of the server's process.
#
#   benches/attacks.sh [SECONDS [ATTACK...]]      10 certificates heads body half-requests
#
#   certificates   the node's server, and the kubelet's: client certificates of one name and distinct keys
#   heads          the node's server, and the kubelet's: large heads with tokens that must be reviewed
#   body           the API server, and kube-apiserver: a protobuf list of a million empty items, sent where a review is expected
#   half-requests  the manager's secure port, and kube-controller-manager's: more connections than the process may open
#
# STEERSMAN names another build to attack, for instance one from before a change; SERVERS selects one of the two ("steersman
# kubernetes"). Each attack lasts SECONDS and has at most 1,300 connections open at a time. Needs root.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=benches/runtime.sh
. "$(dirname "$0")/runtime.sh"
seconds=${1:-10}
shift || true
[ $# -gt 0 ] || set -- certificates heads body half-requests
read -ra servers <<<"${SERVERS:-steersman kubernetes}"
for who in "${servers[@]}"; do
  case $who in steersman | kubernetes) ;; *) echo "$0: SERVERS: neither steersman nor kubernetes: $who" >&2; exit 2 ;; esac
done

STEERSMAN=${STEERSMAN:-$(build bin steersman)}
ATTACKS=${ATTACKS:-$(build bin steersman-attacks steersman-attacks)}
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS
# The attacker needs more descriptors than the attacked.
ulimit -n 4096

# start NAME COMMAND...: in the background; `server` is its process.
start() {
  local name=$1
  shift
  "$@" >"$state/$name.log" 2>&1 </dev/null &
  server=$!
  started+=("$server")
}

# answering URL: waits until there is an answer, whichever.
answering() {
  for _ in $(seq 300); do
    curl -sko /dev/null --max-time 2 "$1" && return
    kill -0 "$server" 2>/dev/null || { echo "the server ended" >&2; return 1; }
    sleep 0.1
  done
  echo "nothing answers at $1" >&2
  return 1
}

# attack WHO NAME PORT PATH ARGUMENTS...: prints the report. A server that ends is a result, too.
attack() {
  local who=$1 name=$2 port=$3 path=$4
  shift 4
  settle "$server" 8 || say "$name: $who is not at rest"
  printf '\n== %s: %s\n' "$name" "$who"
  "$ATTACKS" --address "127.0.0.1:$port" --pid "$server" --path "$path" --seconds "$seconds" "$@" || true
}

# control_plane_once: one control plane for all attacks. The caller's KUBECONFIG may name a cluster that others use.
control_plane_once() { [ -e "$state/cluster/kubeconfig" ] || control_plane "for the attacks"; }

node() { # node WHO ATTACK ARGUMENTS...
  local who=$1 name=$2 port program
  shift 2
  [ -n "${runtime:-}" ] || start_runtime
  control_plane_once
  agent_arguments "$name-$who"
  port=$(sed -n 's/^port: //p' "$state/agent.yaml")
  case $who in steersman) program=("$STEERSMAN" node) ;; *) program=("$KUBEBUILDER_ASSETS/kubelet") ;; esac
  start "$name-$who" "${program[@]}" "${agent_arguments[@]}"
  answering "https://127.0.0.1:$port/healthz"
  attack "$who" "$name" "$port" /healthz "$@"
  stop "$server"
}

api_server() { # api_server WHO ATTACK ARGUMENTS...
  local who=$1 name=$2 port token kubectl=("$KUBEBUILDER_ASSETS/kubectl")
  shift 2
  if [ "$who" = steersman ]; then
    port=$(free_port)
    start "$name" "$STEERSMAN" standalone --data-dir "$state/data" --https-address "127.0.0.1:$port" --controllers=
    answering "https://127.0.0.1:$port/livez"
    kubectl+=(--kubeconfig "$state/data/kubeconfig")
  else
    control_plane "to be attacked"
    server=$(<"$state/cluster/kube-apiserver.pid")
    port=$(sed -n 's|.*server: "https://127.0.0.1:\([0-9]*\)".*|\1|p' "$KUBECONFIG")
  fi
  # No controller makes it here.
  "${kubectl[@]}" create serviceaccount default >/dev/null
  token=$("${kubectl[@]}" create token default)
  attack "$who" "$name" "$port" /livez "$@" --authorization "Bearer $token"
  if [ "$who" = steersman ]; then stop "$server"; else CLUSTER_DIR=$state/cluster "$shared/cluster/cluster.sh" down; fi
}

manager() { # manager WHO ATTACK ARGUMENTS...
  local who=$1 name=$2 port program
  shift 2
  control_plane_once
  port=$(free_port)
  case $who in
    steersman) program=("$STEERSMAN" controller-manager) ;;
    *) program=("$KUBEBUILDER_ASSETS/kube-controller-manager") ;;
  esac
  # As many descriptors as most services get.
  start "$name-$who" bash -c 'ulimit -n 1024 && exec "$@"' - "${program[@]}" --kubeconfig "$KUBECONFIG" --leader-elect=false \
    --authentication-kubeconfig "$KUBECONFIG" --authorization-kubeconfig "$KUBECONFIG" --secure-port "$port" \
    --cert-dir "$state/$name-$who"
  answering "https://127.0.0.1:$port/healthz"
  attack "$who" "$name" "$port" /healthz "$@"
  stop "$server"
}

for name in "$@"; do
  for who in "${servers[@]}"; do
    case $name in
      certificates | heads) node "$who" "$name" "$name" ;;
      body) api_server "$who" "$name" "$name" ;;
      half-requests) manager "$who" "$name" "$name" ;;
      *) echo "$0: no such attack: $name" >&2; exit 2 ;;
    esac
  done
done
