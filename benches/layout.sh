#!/usr/bin/env bash
# Writes .cargo/layout.ld anew: the order in which the published program's functions lie in memory. It runs each subcommand
# under Callgrind with a little of what it is for, and has layout-tool make the order from what was run.
#
#   benches/layout.sh
#
# To be run, and its result committed, when much of the program, the compiler or a dependency has changed; benches/node.sh shows
# what it is worth. A program that is told nothing of a function works as well, and keeps more of itself resident. Needs root,
# valgrind and nm.
# shellcheck source=benches/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=benches/runtime.sh
. "$(dirname "$0")/runtime.sh"

STEERSMAN=${STEERSMAN:-$(build bin steersman)}
build_peers
kubectl() { "$KUBEBUILDER_ASSETS/kubectl" "$@"; }

# profile NAME SUBCOMMAND...: in the background; `profiled` is its process id, its profile $state/NAME.callgrind once it ended.
profile() {
  local name=$1
  shift
  say "$name under Callgrind"
  valgrind --quiet --tool=callgrind --callgrind-out-file="$state/$name.callgrind" --compress-strings=no --demangle=no \
    "$STEERSMAN" "$@" >"$state/$name.log" 2>&1 </dev/null &
  profiled=$!
  started+=("$profiled")
}

# end: of what is profiled, which then writes its profile.
end() {
  kill "$profiled"
  wait "$profiled" || true
}

# An ordinary pod: its network, an init container, volumes of all sources, variables, hooks and probes.
ordinary_pod() {
  cat <<'YAML'
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: value}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: ordinary}}
---
{apiVersion: v1, kind: Secret, metadata: {name: secret}, stringData: {key: value}}
---
apiVersion: v1
kind: Pod
metadata: {name: ordinary, annotations: {a: b}}
spec:
  nodeName: node1
  serviceAccountName: ordinary
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  - {name: secret, secret: {secretName: secret}}
  - name: projected
    projected:
      sources:
      - serviceAccountToken: {path: token}
      - downwardAPI: {items: [{path: annotations, fieldRef: {fieldPath: metadata.annotations}}]}
  initContainers:
  - {name: first, image: "docker.io/library/busybox:1.36", imagePullPolicy: Never, command: ["true"]}
  containers:
  - name: main
    image: docker.io/library/busybox:1.36
    imagePullPolicy: Never
    command: [sh, -c, "echo ready; exec sleep 1000000"]
    env:
    - {name: FROM_SECRET, valueFrom: {secretKeyRef: {name: secret, key: key}}}
    - {name: FROM_FIELD, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    envFrom: [{configMapRef: {name: settings}}]
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: settings, mountPath: /settings}
    - {name: secret, mountPath: /secret}
    - {name: projected, mountPath: /projected}
    lifecycle: {preStop: {exec: {command: ["true"]}}}
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
YAML
}

# A manager as it is run in a cluster: with the control plane's keys, and scraped at both ports.
# manager NAME CONTROLLERS
manager() {
  http=$(free_port) https=$(free_port)
  profile "$1" controller-manager --kubeconfig "$KUBECONFIG" --controllers="$2" --leader-elect-resource-name steersman \
    --authentication-kubeconfig "$KUBECONFIG" --authorization-kubeconfig "$KUBECONFIG" \
    --service-account-private-key-file "$state/cluster/sa.key" --root-ca-file "$state/cluster/certs/apiserver.crt" \
    --cluster-signing-cert-file "$state/cluster/pki/ca.crt" --cluster-signing-key-file "$state/cluster/pki/ca.key" \
    --http-address "127.0.0.1:$http" --secure-port "$https"
}

scrape() {
  local path token
  token=$(kubectl config view --raw --output jsonpath='{.users[0].user.token}')
  for path in healthz metrics metrics; do
    curl --silent --show-error --fail --max-time 120 "http://127.0.0.1:$http/$path" >"$state/out"
    curl --silent --show-error --fail --max-time 120 --insecure --header "Authorization: Bearer $token" \
      "https://127.0.0.1:$https/$path" >"$state/out"
  done
}

controller_manager() {
  cluster_with 100
  manager manager '*'
  timeout 600 "$state/peers" jobs 5 10 >&2
  timeout 600 "$state/peers" endpoints 20 >&2
  kubectl create namespace team >&2
  kubectl --namespace team create quota all --hard=pods=10,configmaps=10 >&2
  kubectl --namespace team create deployment web --image=web --replicas=5 >&2
  kubectl --namespace team wait --for=jsonpath='{.status.replicas}'=5 deployment/web --timeout=120s >&2
  kubectl --namespace team set image deployment/web web=other >&2
  kubectl delete namespace team --timeout=120s >&2
  scrape
  end
}

# The controllers that a cluster needs whatever runs in it. What they run, most selections of controllers do.
few_controllers() {
  local controllers=garbage-collector-controller,namespace-controller,resourcequota-controller,ttl-controller
  controllers+=,clusterrole-aggregation-controller,serviceaccount-controller,serviceaccount-token-controller
  controllers+=,legacy-serviceaccount-token-cleaner-controller,root-ca-certificate-publisher-controller
  controllers+=,certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller
  controllers+=,certificatesigningrequest-cleaner-controller,bootstrap-signer-controller,token-cleaner-controller
  controllers+=,service-cidr-controller
  manager few "$controllers"
  kubectl create namespace few >&2
  kubectl --namespace few wait --for=create serviceaccount/default --timeout=120s >&2
  kubectl --namespace few create quota all --hard=pods=10,configmaps=10 >&2
  kubectl --namespace few wait --for=jsonpath='{.status.used.configmaps}' quota/all --timeout=120s >&2
  kubectl create job last --image=last >&2
  kubectl create -f - >&2 <<YAML
apiVersion: v1
kind: ConfigMap
metadata:
  name: last
  ownerReferences:
  - {apiVersion: batch/v1, kind: Job, name: last, uid: $(kubectl get job last -o jsonpath='{.metadata.uid}'), blockOwnerDeletion: true}
YAML
  kubectl delete job last --cascade=foreground --timeout=120s >&2
  kubectl delete namespace few --timeout=120s >&2
  scrape
  end
}

# The controllers of workloads and Jobs, and those of their Services.
workload_controllers() {
  local controllers=deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,disruption-controller
  controllers+=,replicationcontroller-controller,job-controller,endpoints-controller,pod-garbage-collector-controller
  manager workloads "$controllers"
  kubectl create namespace shop >&2
  kubectl config set-context --current --namespace shop >&2
  kubectl create deployment web --image=web --replicas=5 >&2
  kubectl create service clusterip web --tcp=80 >&2
  kubectl create poddisruptionbudget web --selector=app=web --min-available=1 >&2
  kubectl create job once --image=once >&2
  kubectl create -f - >&2 <<'YAML'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: db}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: main, image: agent}]}}
YAML
  kubectl wait --for=jsonpath='{.status.replicas}'=5 deployment/web --timeout=120s >&2
  ready
  kubectl set image deployment/web web=other >&2
  kubectl wait --for=jsonpath='{.status.observedGeneration}'=2 deployment/web --timeout=120s >&2
  ready
  kubectl delete deployment/web statefulset/db daemonset/agent job/once --cascade=background >&2
  scrape
  end
}

# ready: writes into the status of each pod what its kubelet would write once it is ready.
ready() {
  local pod status='{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}'
  for pod in $(kubectl get pods --output name); do
    # A controller may delete it first.
    kubectl patch --subresource=status --type=merge --patch "$status" "$pod" >&2 || true
  done
}

node() {
  start_runtime
  control_plane "without pods"
  agent_arguments steersman
  profile node node "${agent_arguments[@]}"
  kubectl wait --for=create node/node1 --timeout=120s >&2
  kubectl wait --for=condition=Ready node/node1 --timeout=120s >&2
  ordinary_pod | kubectl create -f - >&2
  timeout 300 "$state/peers" pods 10 node1 >&2
  kubectl wait --for=condition=Ready pod/ordinary --timeout=120s >&2
  sleep 60 # rest is part of its work: statuses, leases, probes
  kubectl delete pod ordinary --timeout=120s >&2
  end
}

standalone() {
  local port
  port=$(free_port)
  profile standalone standalone --data-dir "$state/data" --https-address "127.0.0.1:$port"
  export KUBECONFIG=$state/data/kubeconfig
  timeout 120 bash -c "until '$KUBEBUILDER_ASSETS/kubectl' get --raw /readyz; do sleep 1; done" >&2
  kubectl wait --for=create node --all --timeout=120s >&2
  kubectl apply -f "$repository/examples/job.yaml" >&2
  kubectl wait --for=condition=Complete job --all --timeout=120s >&2
  kubectl get jobs,pods,events --all-namespaces >&2
  kubectl delete -f "$repository/examples/job.yaml" >&2
  end
}

controller_manager
few_controllers
workload_controllers
node
standalone

say "writing the order"
nm -S --defined-only "$STEERSMAN" >"$state/symbols"
cargo run --manifest-path "$repository/Cargo.toml" --locked --quiet -p steersman-layout-tool -- --symbols "$state/symbols" \
  --manager "$state/manager.callgrind" --few "$state/few.callgrind" \
  --workloads "$state/workloads.callgrind" --node "$state/node.callgrind" --standalone "$state/standalone.callgrind" \
  "$repository/.cargo/layout.ld"
