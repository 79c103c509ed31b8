#!/usr/bin/env bash
# Shows that Prometheus sees a controller manager as kubernetes-mixin and manifests/monitoring expect it.
#
#   tests/monitoring.sh MANAGER
#   tests/monitoring.sh rules      only the unit tests of the alerts, without a cluster
#
# MANAGER is a program: `steersman`, or the real `kube-controller-manager`, which shows that the test asks for nothing that
# upstream lacks. It runs on a real control plane from ../shared/cluster (KUBEBUILDER_ASSETS names the folder of Kubernetes's
# programs), in place of kube-controller-manager. Debian's Prometheus scrapes it over HTTPS, with a ServiceAccount's token and the
# rights of manifests/monitoring, and loads kubernetes-mixin's alerts and ours. Alerts wait for as many seconds as they usually
# wait for minutes.
#
# `prometheus` and `promtool` are taken from the PATH, or else from Debian's package, which is unpacked and not installed. Needs
# curl and jq. Every step is a line on the standard output, "ok" or "FAILED". The code is 1 if a step failed, and 77 if
# Prometheus can't be had.
set -euo pipefail
export LC_ALL=C
repository=$(cd "$(dirname "$0")/.." && pwd)
here=$repository/tests/monitoring
shared=$repository/../shared
if [ $# -ne 1 ]; then sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
manager=$1
[ "$manager" = rules ] || [ -x "$manager" ] || { echo "no such program: $manager" >&2; exit 2; }

# Before the trap, whose clean-up calls their functions.
# shellcheck source=tests/monitoring/steps.sh
. "$here/steps.sh"
# shellcheck source=tests/monitoring/prometheus.sh
. "$here/prometheus.sh"

state=$(mktemp -d)
export CLUSTER_DIR=$state/cluster KUBECONFIG=$state/cluster/kubeconfig
manager_id=''

# stop PID: asks it to end, and waits until it has.
stop() {
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

finish() {
  local code=$?
  trap - EXIT
  if [ "$code" -ne 0 ] && [ "$code" -ne 77 ]; then tail -n 20 "$state"/*.log >&2 2>/dev/null || true; fi
  if [ -n "$manager_id" ]; then stop "$manager_id"; fi
  stop_prometheus
  if [ -d "$CLUSTER_DIR" ]; then "$shared/cluster/cluster.sh" down || true; fi
  rm -rf "$state"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# A port that nobody listens on, nor on the next one, below those that the system gives to connections.
free_port() {
  local port
  while true; do
    port=$((20000 + RANDOM % 10000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null &&
      ! (exec 3<>"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

find_prometheus || exit 77
rules=$state/rules
write_rules
mkdir "$state/unit"

does "rules: kubernetes-mixin's are valid" promtool check rules "$rules/mixin.yaml"
does "rules: ours are valid" promtool check rules "$rules/ours.yaml"
# Without annotations, which the expectations would have to repeat.
awk '/^ *annotations:$/ { skip = 1 } /- alert:/ { skip = 0 } !skip' "$rules/ours.yaml" >"$state/unit/rules.yaml"
cp "$here/alerts-test.yaml" "$state/unit"
does "rules: each alert passes its unit tests" promtool test rules "$state/unit/alerts-test.yaml"
if [ "$manager" = rules ]; then summary; exit; fi

# The control plane, with what an administrator applies.
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
export KUBEBUILDER_ASSETS
k() { "$KUBEBUILDER_ASSETS/kubectl" "$@"; }
API_PORT=$(free_port)
ETCD_PORT=$(free_port)
export API_PORT ETCD_PORT
"$shared/cluster/cluster.sh" up >&2
prepare_monitoring
does "manifests: in-place applies" k apply -k "$repository/manifests/monitoring/in-place"
does "manifests: beside applies" k apply -k "$repository/manifests/monitoring/beside"

# The manager, and a pod that stands for it: it has the labels of kubeadm's static pod, or of our Deployment.
pod_address=192.0.2.10
manager_port=$(free_port)
flags=(--kubeconfig "$KUBECONFIG" --authentication-kubeconfig "$KUBECONFIG" --authorization-kubeconfig "$KUBECONFIG"
  --bind-address 127.0.0.1 --secure-port "$manager_port" --cert-dir "$state/certificates"
  --use-service-account-credentials --root-ca-file "$CLUSTER_DIR/certs/apiserver.crt"
  --service-account-private-key-file "$CLUSTER_DIR/sa.key" --horizontal-pod-autoscaler-sync-period 5s)
case $(basename "$manager") in
  kube-controller-manager) ours='' ;;
  *) ours=1 ;;
esac
start_manager() {
  if [ -n "$ours" ]; then set -- "$manager" controller-manager; else set -- "$manager"; fi
  "$@" "${flags[@]}" >>"$state/manager.log" 2>&1 </dev/null &
  manager_id=$!
}
stand_for() { # stand_for NAME LABELS
  local pod=$1
  # The manager makes the service account, without which no pod is admitted.
  for _ in $(seq "$DEADLINE"); do
    if k --namespace kube-system get serviceaccount default >/dev/null 2>&1; then break; fi
    sleep 1
  done
  # Endpoints name the node of each pod.
  k --namespace kube-system run "$pod" --image none --labels "$2" --overrides '{"spec": {"nodeName": "node1"}}' >/dev/null
  k --namespace kube-system patch pod "$pod" --subresource status --patch \
    "{\"status\": {\"phase\": \"Running\", \"podIP\": \"$pod_address\", \"podIPs\": [{\"ip\": \"$pod_address\"}]}}" >/dev/null
}
k create -f - >/dev/null <<<'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}}'
start_manager
stand_for controller-manager component=kube-controller-manager,tier=control-plane

# The pod is asked at the manager's address, since no kubelet gives it one that can be reached.
minutes_to_seconds "$rules"/*.yaml
start_prometheus "$pod_address" "127.0.0.1:$manager_port"

comes "the manager is scraped over HTTPS, with the token, as kube-controller-manager" \
  some 'up{job="kube-controller-manager", namespace="kube-system"} == 1'
# Without it, nothing else can come.
[ "$failures" -eq 0 ] || summary
refused() { [ "$(curl -sk --output /dev/null --write-out '%{http_code}' "$@" "https://127.0.0.1:$manager_port/metrics")" -eq "$status" ]; }
status=403
comes "a client without a token gets no metrics" refused
status=401
does "a client with a wrong token gets no metrics" refused --header 'Authorization: Bearer wrong'

# Work for the controllers, some of which a quota refuses.
k create namespace work >/dev/null
k --namespace work create quota few --hard=pods=4 >/dev/null
k --namespace work create deployment web --image none --replicas 6 >/dev/null
k --namespace work expose deployment web --port 80 >/dev/null
k --namespace work create job once --image none >/dev/null
has_pods() { [ "$(k --namespace work get pods --no-headers 2>/dev/null | wc -l)" -eq 4 ]; }
comes "the manager does its work" has_pods

# match LABEL SELECTOR: the selector matches. `rare` ones need not: what they count did not happen.
rare='steersman_events_dropped_total|code=~"[35][.][.]'
match() {
  if [[ $2 =~ $rare ]]; then return; fi
  DEADLINE=30 comes "$1: $2" some "count($2)"
}

# Each selector of kubernetes-mixin. No manager's requests are ever redirected (3xx); failures (5xx) come later.
while read -r selector; do
  case $selector in
    *'job="kube-apiserver"'*) ;;
    *'job="'*) match "mixin's alerts" "$selector" ;;
    # About all jobs, of which the manager's must be one.
    *) match "mixin's alerts" "${selector/\{/\{job=\"kube-controller-manager\",}" ;;
  esac
done < <(selectors <"$here/mixin/alerts.yaml")
while read -r selector; do
  match "mixin's dashboard" "$selector"
done < <(jq -r '.variables[], .panels[].expressions[]' "$here/mixin/dashboard.json" | selectors)
while read -r expression; do
  if [[ $expression =~ $rare ]]; then continue; fi
  # shellcheck disable=SC2016 # the variables are Grafana's
  expression=$(sed 's/\$cluster//g; s/\$instance/.+/g; s/\$__rate_interval/1m/g' <<<"$expression")
  DEADLINE=30 comes "mixin's dashboard shows: $expression" some "$expression"
done < <(jq -r '.panels[].expressions[]' "$here/mixin/dashboard.json")

# Each of ours. Those of metrics that upstream lacks are asked of steersman only.
own='^(steersman|informer_cache|garbage_collector_graph|running_managed)_'
while read -r selector; do
  if [ -n "$ours" ] || ! [[ $selector =~ $own ]]; then match "our alerts and dashboard" "$selector"; fi
done < <({ cat "$rules/ours.yaml"; jq -r '.panels[].targets[].expr' "$repository/manifests/monitoring/common/steersman.json"; } | selectors)

# Longer than any alert waits.
healthy() {
  [ "$(ask 'min_over_time(up{job="kube-controller-manager"}[20s])' | jq -r '.value[1]')" = 1 ] && some 'count_over_time(up{job="kube-controller-manager"}[20s]) >= 9'
}
comes "the manager is scraped for twenty seconds without a gap" healthy
does "no alert of kubernetes-mixin or of ours has fired" none 'max_over_time(ALERTS{alertstate="firing"}[5m])'

# An API without a server: autoscalers get 503.
k apply -f - >/dev/null <<'YAML'
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: work, name: web}
YAML
k --namespace work autoscale deployment web --min 1 --max 8 --cpu 50% >/dev/null
rare=none
match "mixin's dashboard" 'rest_client_requests_total{job="kube-controller-manager", instance=~".+",code=~"5.."}'
k --namespace work delete horizontalpodautoscaler web >/dev/null
k delete apiservice v1beta1.metrics.k8s.io >/dev/null

# The end of the manager, and of its pod.
stop "$manager_id"
comes "KubeControllerManagerInstanceUnreachable fires when the manager has stopped" fires KubeControllerManagerInstanceUnreachable
comes "ControllerManagerNoLeader fires as well" fires ControllerManagerNoLeader
does "KubeControllerManagerDown does not, while its pod is there" none 'ALERTS{alertname="KubeControllerManagerDown"}'
k --namespace kube-system delete pod controller-manager --grace-period 0 --force >/dev/null 2>&1
k --namespace kube-system delete endpoints,endpointslices --all >/dev/null 2>&1
comes "KubeControllerManagerDown fires when its pod is gone" fires KubeControllerManagerDown

# Beside a manager that is down.
start_manager
stand_for beside app.kubernetes.io/name=steersman,app.kubernetes.io/component=controller-manager
comes "a manager beside it is scraped as steersman-controller-manager" some 'up{job="steersman-controller-manager"} == 1'
does "and does not hide that the cluster's own is down" fires KubeControllerManagerDown
summary
