# What the scripts share that measure controller managers beside kube-controller-manager: each manager with the same
# controllers, without client limits (or with `qps` calls a second), on a real control plane. Source it after common.sh, with
# `controllers` set to the list for --controllers, and `flags` to further flags of both managers, if any. STEERSMAN and LOAD
# name other builds.
# shellcheck shell=bash disable=SC2034,SC2154

ours=${STEERSMAN:-$(build bin steersman)}
load=${LOAD:-$(build bin steersman-load steersman-load)}
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS
managers=(kube-controller-manager steersman)

# Flags for the control plane's keys. Without them, the controllers that sign tokens and certificates do not run.
keys=(--service-account-private-key-file "$state/cluster/sa.key" --root-ca-file "$state/cluster/certs/apiserver.crt"
  --cluster-signing-cert-file "$state/cluster/pki/ca.crt" --cluster-signing-key-file "$state/cluster/pki/ca.key")

# start_manager NAME: in the background; `manager` is its process id, its log is in $state/NAME.log, and it serves HTTP at
# `port`: the real one with TLS.
start_manager() {
  local all=(--leader-elect=false "--controllers=$controllers" "--kube-api-qps=${qps:-10000}" "--kube-api-burst=${qps:-10000}"
    --kubeconfig "$KUBECONFIG" "${flags[@]}")
  port=$(free_port)
  read_in "$ours" "$KUBEBUILDER_ASSETS/kube-controller-manager"
  case $1 in
    steersman) "$ours" controller-manager "${all[@]}" --http-address "127.0.0.1:$port" --secure-port 0 \
      >"$state/$1.log" 2>&1 </dev/null & ;;
    *) "$KUBEBUILDER_ASSETS/$1" "${all[@]}" --cert-dir "$state/certificates" --secure-port "$port" \
      >"$state/$1.log" 2>&1 </dev/null & ;;
  esac
  manager=$!
  started+=("$manager")
}

# simulate NODES: nodes and their kubelets, in the background; `nodes` is the process id.
simulate() {
  "$load" nodes "$1" >"$state/nodes.log" 2>&1 </dev/null &
  nodes=$!
  started+=("$nodes")
  for _ in $(seq 600); do grep -q ready "$state/nodes.log" && return; sleep 0.1; done
  echo "no nodes are ready" >&2
  return 1
}

# note NAME WHAT VALUE: keeps a figure, and tells it at once, since a long run may fail later.
note() {
  echo "$3" >>"$state/$1.$2"
  say "$1: $2 $3"
}

megabytes() { awk -v kb="$1" 'BEGIN {print kb / 1000}'; }

# loaded: how long the load's last line says that it took, in ms.
loaded() { milliseconds "$(tail -n 1 "$state/out" | sed 's/.*: //')"; }

# cold NAME: notes memory and processor time of a manager that has just come to rest.
cold() {
  note "$1" cold.peak "$(megabytes "$(memory "$manager" VmHWM)")"
  note "$1" cold.resident "$(megabytes "$(memory "$manager" VmRSS)")"
  note "$1" cold.processor "$(processor_time "$manager")"
}

# cost NAME WHAT COMMAND...: notes how long the load takes, and the manager's processor time until it is at rest.
cost() {
  local name=$1 what=$2 before
  shift 2
  before=$(processor_time "$manager")
  timeout 1800 "$@" | tee "$state/out" >&2
  settle "$manager"
  note "$name" "$what.processor" $(($(processor_time "$manager") - before))
  note "$name" "$what.wall" "$(loaded)"
}

# figure WHAT UNIT NOTE: a row with the medians of what was noted of both managers.
figure() { row "$1" "$2" "$(median <"$state/steersman.$3")" "$(median <"$state/kube-controller-manager.$3")"; }

# asked WHAT LIMIT NOTE: a verdict on the ratio of the medians of what was noted of both managers.
asked() {
  at_most "$1" "$2" "$(ratio "$(median <"$state/steersman.$3")" "$(median <"$state/kube-controller-manager.$3")")"
}
