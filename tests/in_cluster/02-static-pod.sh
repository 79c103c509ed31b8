# The static pod that kubeadm writes, with only its image changed, in the place of kube-controller-manager.
# shellcheck shell=bash disable=SC2154

pod=kube-controller-manager-node1
conf=/etc/kubernetes/controller-manager.conf
original=$here/testdata/kubeadm-kube-controller-manager.yaml

# What kubeadm lays ready for it. Only root may read it.
kubeadm_files() {
  local pki=$CLUSTER_DIR/pki
  (
    umask 077
    openssl req -newkey rsa:2048 -nodes -subj /CN=system:kube-controller-manager -keyout "$state/manager.key" \
      -out "$state/manager.csr"
    openssl x509 -req -in "$state/manager.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 1 \
      -extfile <(echo extendedKeyUsage=clientAuth) -out "$state/manager.crt"
    cp "$pki/ca.crt" "$pki/ca.key" "$CLUSTER_DIR/sa.key" /etc/kubernetes/pki/
    cp "$pki/ca.crt" /etc/kubernetes/pki/front-proxy-ca.crt
    k config --kubeconfig "$conf" set-cluster kubernetes --server "https://$address:$API_PORT" \
      --certificate-authority "$CLUSTER_DIR/certs/apiserver.crt" --embed-certs
    k config --kubeconfig "$conf" set-credentials manager --client-certificate "$state/manager.crt" \
      --client-key "$state/manager.key" --embed-certs
    k config --kubeconfig "$conf" set-context default --cluster kubernetes --user manager
    k config --kubeconfig "$conf" use-context default
  ) >"$state/kubeadm.log" 2>&1 || { cat "$state/kubeadm.log" >&2; return 1; }
}

# probed KIND: the kubelet's probes of that kind succeeded, and none failed.
probed() {
  k get --raw /api/v1/nodes/node1/proxy/metrics/probes >"$state/probes"
  grep '^prober_probe_total{' "$state/probes" | grep "pod=\"$pod\"" | grep "probe_type=\"$1\"" >"$state/probe"
  cat "$state/probe"
  grep -q 'result="successful"' "$state/probe" && ! grep -q 'result="failed"' "$state/probe"
}
# restarted: once, and ready.
restarted() {
  k --namespace kube-system get pod "$pod" --output json |
    jq --exit-status '.status.containerStatuses[0] | .restartCount == 1 and .ready'
}

kill "$(cat "$CLUSTER_DIR/kube-controller-manager.pid")"
rm "$CLUSTER_DIR/kube-controller-manager.pid"
kubeadm_files
sed "s|^\( *image: \).*|\1$root_image|" "$original" >"$state/manifest.yaml"
if [ "$(diff "$original" "$state/manifest.yaml" | grep -c '^>')" -eq 1 ]; then
  passed "only the image of kubeadm's manifest is changed"
else
  failed "only the image of kubeadm's manifest is changed" "$(diff "$original" "$state/manifest.yaml")"
fi
mv "$state/manifest.yaml" /etc/kubernetes/manifests/kube-controller-manager.yaml

shows "the kubelet runs it" 'Running True' --namespace kube-system get pod "$pod" \
  --output 'jsonpath={.status.phase} {.status.conditions[?(@.type=="Ready")].status}'
comes "its start-up probe succeeds" probed Startup
comes "it runs as root, which may read kubeadm's files" runs_as "$pod" 0
comes "it leads" led_anew kube-controller-manager ""
works alone
comes "its liveness probe succeeds" probed Liveness
answers "it is healthy without credentials, at kubeadm's port" 200 https://127.0.0.1:10257/healthz
scraper
scraped "the static pod" https://127.0.0.1:10257
# kubeadm binds the port to 127.0.0.1.
watched kube-controller-manager 1 in-place "$address" 127.0.0.1:10257

before=$(leader kube-controller-manager)
kills "it is killed" "$pod"
comes "the kubelet starts it again" restarted
comes "it leads again once the lease has run out" led_anew kube-controller-manager "$before"
works again
still_watched kube-controller-manager 1 "after the kill"
if [ -n "$watched" ]; then
  comes "Prometheus: KubeControllerManagerDown is not even pending" none 'ALERTS{alertname="KubeControllerManagerDown"}'
fi
stop_prometheus

# Before the kubelet stops, nothing is left for it to do.
does "the namespaces of all chapters are deleted" delete namespace "${namespaces[@]}" --wait=false
gone "it empties them" namespace "${namespaces[@]}"
rm /etc/kubernetes/manifests/kube-controller-manager.yaml
gone "without its manifest, the kubelet stops it" --namespace kube-system "pod/$pod"
