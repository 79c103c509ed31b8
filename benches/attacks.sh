#!/usr/bin/env bash
# Attacks each server of steersman on loopback, and prints what the attack costs: how long a bystander waits before, under and
# after it, and the memory and the processor time of the server's process.
#
#   benches/attacks.sh [SECONDS [ATTACK...]]      10 certificates heads body half-requests
#
#   certificates   the node's server: client certificates of one name and distinct keys
#   heads          the node's server: large heads with tokens that must be reviewed
#   body           the API server: a protobuf list of a million empty items, sent where the server expects a review
#   half-requests  the manager's port: more connections than the process may open
#
# STEERSMAN names another build to attack, for instance one from before a change. Each attack lasts SECONDS and has at most
# 1,300 connections open at a time. Needs root.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=benches/runtime.sh
. "$(dirname "$0")/runtime.sh"
seconds=${1:-10}
shift || true
[ $# -gt 0 ] || set -- certificates heads body half-requests

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

# attack NAME PORT PATH ARGUMENTS...: prints the report. A server that ends is a result, too.
attack() {
  local name=$1 port=$2 path=$3
  shift 3
  settle "$server" 8
  printf '\n== %s\n' "$name"
  "$ATTACKS" --address "127.0.0.1:$port" --pid "$server" --path "$path" --seconds "$seconds" "$@" || true
  stop "$server"
}

# control_plane_once: one control plane for all attacks. The caller's KUBECONFIG may name a cluster that others use.
control_plane_once() { [ -e "$state/cluster/kubeconfig" ] || control_plane "for the attacks"; }

node() { # node ATTACK ARGUMENTS...
  local name=$1 port
  shift
  [ -n "${runtime:-}" ] || start_runtime
  control_plane_once
  agent_arguments "$name"
  port=$(sed -n 's/^port: //p' "$state/agent.yaml")
  start "$name" "$STEERSMAN" node "${agent_arguments[@]}"
  answering "https://127.0.0.1:$port/healthz"
  attack "$name" "$port" /healthz "$@"
}

api_server() { # api_server ATTACK ARGUMENTS...
  local name=$1 port token
  shift
  port=$(free_port)
  start "$name" "$STEERSMAN" standalone --data-dir "$state/data" --https-address "127.0.0.1:$port" --controllers=
  answering "https://127.0.0.1:$port/livez"
  token=$("$KUBEBUILDER_ASSETS/kubectl" --kubeconfig "$state/data/kubeconfig" create token default)
  attack "$name" "$port" /livez "$@" --authorization "Bearer $token"
}

manager() { # manager ATTACK ARGUMENTS...
  local name=$1 port
  shift
  control_plane_once
  port=$(free_port)
  # As many descriptors as most services get.
  start "$name" bash -c 'ulimit -n 1024 && exec "$@"' - "$STEERSMAN" controller-manager --kubeconfig "$KUBECONFIG" \
    --http-address "127.0.0.1:$port" --secure-port 0
  answering "http://127.0.0.1:$port/healthz"
  attack "$name" "$port" /healthz --plain "$@"
}

for name in "$@"; do
  case $name in
    certificates | heads) node "$name" "$name" ;;
    body) api_server "$name" "$name" ;;
    half-requests) manager "$name" "$name" ;;
    *) echo "$0: no such attack: $name" >&2; exit 2 ;;
  esac
done
