# Prometheus on this machine, which scrapes a cluster as Prometheus's operator would by the manifests. Source it with `state`, a
# folder; `repository`; `k`, kubectl; `free_port`; and, from `prepare_monitoring` on, KUBECONFIG and API_PORT of the cluster.
# shellcheck shell=bash disable=SC2154

prometheus_id='' discovery_id=''

# find_prometheus: puts `prometheus` and `promtool` on the PATH, from Debian's package if need be, which is unpacked and not
# installed. Fails, and says why, if they can't be had.
find_prometheus() {
  if command -v prometheus >/dev/null && command -v promtool >/dev/null; then return; fi
  mkdir "$state/package"
  (
    cd "$state/package" &&
      { apt-get download prometheus || { apt-get update -q && apt-get download prometheus; }; } &&
      dpkg-deb --extract prometheus_*.deb .
  ) >"$state/package.log" 2>&1 || {
    echo "Prometheus can't be had: $(tail -n 1 "$state/package.log")" >&2
    return 1
  }
  PATH=$state/package/usr/bin:$PATH
}

# write_rules: kubernetes-mixin's alerts and ours, as files of Prometheus's own in $state/rules.
write_rules() {
  mkdir "$state/rules"
  sed '1,/^spec:$/d; s/^  //' "$repository/manifests/monitoring/common/alerts.yaml" >"$state/rules/ours.yaml"
  cp "$repository/tests/monitoring/mixin/alerts.yaml" "$state/rules/mixin.yaml"
}

# minutes_to_seconds FILE...: alerts that wait for minutes wait for as many seconds, so that a run is short.
minutes_to_seconds() { sed -E -i 's/^( *for: "?)([0-9]+)m("?)$/\1\2s\3/' "$@"; }

# prepare_monitoring: the kinds of Prometheus's operator, and the account that the manifests give the right to the metrics.
prepare_monitoring() {
  k apply -f "$repository/tests/monitoring/operator-crds.yaml" >/dev/null
  k wait --for condition=Established crd/servicemonitors.monitoring.coreos.com crd/prometheusrules.monitoring.coreos.com >/dev/null
  k create namespace monitoring >/dev/null
  k --namespace monitoring create serviceaccount prometheus-k8s >/dev/null
}

# discover: keeps Prometheus's targets up to date, with its token.
discover() {
  local token
  token=$(<"$state/token")
  while sleep 0.5; do
    if curl -sSk --fail --header "Authorization: Bearer $token" \
      "https://127.0.0.1:$API_PORT/api/v1/namespaces/kube-system/{services,endpoints}" |
      jq --null-input --from-file "$repository/tests/monitoring/targets.jq" >"$state/targets.new"; then
      mv "$state/targets.new" "$state/targets.json"
    fi
  done
}

# start_prometheus [POD ADDRESS]: by the ServiceMonitors that the cluster has now, with the rights of the manifests. A pod with
# the address POD is asked at ADDRESS. `stop_prometheus` ends it.
start_prometheus() {
  k --namespace monitoring create token prometheus-k8s --duration 1h >"$state/token"
  k --namespace kube-system get servicemonitors --output json |
    jq --arg api "127.0.0.1:$API_PORT" --arg token "$state/token" --arg targets "$state/targets.json" \
      --arg pod "${1:-none}" --arg address "${2:-}" --from-file "$repository/tests/monitoring/scrape.jq" >"$state/prometheus.yml"
  discover >"$state/discovery.log" 2>&1 &
  discovery_id=$!
  prometheus_port=$(free_port)
  comes "Prometheus accepts its configuration" promtool check config "$state/prometheus.yml"
  prometheus --config.file "$state/prometheus.yml" --storage.tsdb.path "$state/data" --log.level warn \
    --web.listen-address "127.0.0.1:$prometheus_port" >"$state/prometheus.log" 2>&1 </dev/null &
  prometheus_id=$!
}

stop_prometheus() {
  local id
  for id in $prometheus_id $discovery_id; do
    kill "$id" 2>/dev/null || true
    wait "$id" 2>/dev/null || true
  done
  prometheus_id='' discovery_id=''
}

# ask EXPRESSION: the series of its result, as JSON.
ask() {
  curl -sS --fail-with-body --get "http://127.0.0.1:$prometheus_port/api/v1/query" --data-urlencode "query=$1" | jq -c '.data.result[]'
}

# some EXPRESSION: its result is not empty.
some() { [ -n "$(ask "$1")" ] || { echo "no result: $1"; return 1; }; }

# none EXPRESSION: its result is empty.
none() {
  local found
  found=$(ask "$1")
  [ -z "$found" ] || { echo "$found"; return 1; }
}

# fires ALERT: the alert fires now.
fires() { some "ALERTS{alertname=\"$1\", alertstate=\"firing\"}"; }
