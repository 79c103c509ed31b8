# Two replicas from $MANIFESTS, beside the real kube-controller-manager: one leads and works; it is killed, then deleted, and
# each time the work goes on, and Prometheus sees one leader.
# shellcheck shell=bash disable=SC2154

lease=steersman-controller-manager
labels=app.kubernetes.io/name=steersman,app.kubernetes.io/component=controller-manager

# ours: the names of the replicas that are ready, one a line.
ours() {
  k --namespace kube-system get pods --selector "$labels" --output json | jq -r '.items[]
    | select(.metadata.deletionTimestamp == null and any(.status.conditions[]?; .type == "Ready" and .status == "True"))
    | .metadata.name'
}
both_ready() { [ "$(ours | wc -l)" -eq 2 ]; }
leading_pod() { leader "$lease" | sed 's/_[^_]*$//'; }
one_leads() { ours | grep -qx "$(leading_pod)"; }
address() { k --namespace kube-system get pod "$1" --output 'jsonpath={.status.podIP}'; }

# The metrics of exactly one replica say that it leads.
one_says_it_leads() {
  local pod sum=0
  for pod in $(ours); do
    [ "$(asks "https://$(address "$pod"):10257/metrics" "$scraper_token")" = 200 ] || return 1
    sum=$((sum + $(awk '/^leader_election_master_status[{ ]/ {print $2}' "$state/answer")))
  done
  echo "leaders: $sum"
  [ "$sum" -eq 1 ]
}

mkdir "$state/overlay"
cat >"$state/overlay/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: ["$(realpath --relative-to="$state/overlay" "$MANIFESTS")"]
images: [{name: steersman, newName: "${image%:*}", newTag: "${image##*:}"}]
YAML
does "the manifests are accepted" --namespace kube-system apply --server-side --kustomize "$state/overlay"
comes "both replicas become ready" both_ready
scraper
for pod in $(ours); do
  comes "a replica runs as nobody" runs_as "$pod" 65534
  scraped "a replica" "https://$(address "$pod"):10257"
done
comes "one of them leads" one_leads
comes "the metrics say that one leads" one_says_it_leads
watched steersman-controller-manager 2 beside
works before

before=$(leader "$lease")
kills "the leader is killed" "$(leading_pod)"
comes "another takes the lease once it has run out" led_anew "$lease" "$before"
works after-the-kill
comes "the one that was killed is started again" both_ready
comes "the metrics say that one leads after the kill" one_says_it_leads
still_watched steersman-controller-manager 2 "after the kill"

before=$(leader "$lease")
does "the leader is deleted" --namespace kube-system delete pod "$(leading_pod)" --wait=false
# The other replica, or the new one in the place of the one that was deleted: whichever sees the release first.
comes "another takes the lease, which was released" led_anew "$lease" "$before"
works after-the-deletion
comes "both replicas are ready again" both_ready
shows "only the one that was killed was started again" '(0 )*(0|1)( 0)*' --namespace kube-system get pods --selector "$labels" \
  --output 'jsonpath={.items[*].status.containerStatuses[0].restartCount}'

still_watched steersman-controller-manager 2 "after the deletion"
stop_prometheus
does "the manifests are deleted" --namespace kube-system delete --kustomize "$state/overlay"
gone "no pod is left" --namespace kube-system pods --selector "$labels"
