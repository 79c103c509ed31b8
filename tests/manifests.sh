#!/usr/bin/env bash
# Checks what manifests/ has for the controller manager: that a real API server accepts it, that it needs no more rights than
# it claims, and that the kustomize base, its overlays, kubeadm's manifest and the Helm chart agree.
#
#   tests/manifests.sh [MANAGER]
#
# MANAGER is the program steersman. If given, it also runs on this machine with the flags of the base and of overlays/beside, each
# time with a token of the service account and the ClusterRole of that folder, to show that the rights suffice.
#
# KUBEBUILDER_ASSETS names the folder of Kubernetes' programs, with kubeadm and kube-controller-manager. KUBECONFIG names an
# API server whose state does not matter, with the admission plugin ServiceAccount off; without it, ../shared/cluster starts
# one. jq must be installed. Where helm is not, the chart is not checked. Every step is a line on the standard output, "ok"
# or "FAILED". The code is 1 if a step failed.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
shared=$here/../../shared manifests=$here/../manifests
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
command -v jq >/dev/null || { echo "jq is not installed" >&2; exit 2; }
state=$(mktemp -d)
namespace=restricted-$$ jobs=jobs-$$
manager=${1:-}
name=steersman-controller-manager user=system:serviceaccount:kube-system:steersman-controller-manager

kubectl() { "$KUBEBUILDER_ASSETS/kubectl" "$@"; }

finish() {
  local code=$?
  trap - EXIT
  if [ -n "${running:-}" ]; then kill "$running" 2>/dev/null || true; wait "$running" || true; fi
  if [ -n "${own_cluster:-}" ]; then
    "$shared/cluster/cluster.sh" down || true
  else
    kubectl delete --ignore-not-found --wait=false -f "$state/rights.json" >/dev/null 2>&1 || true
    kubectl delete --ignore-not-found --wait=false namespace "$namespace" "$jobs" >/dev/null 2>&1 || true
    kubectl delete --ignore-not-found --wait=false -f "$here/monitoring/operator-crds.yaml" >/dev/null 2>&1 || true
  fi
  rm -rf "$state"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

steps=0 failures=0
# ok STEP COMMAND...: the command must succeed.
ok() {
  local step=$1 out
  shift
  steps=$((steps + 1))
  if out=$("$@" 2>&1); then echo "ok $step"; return; fi
  failures=$((failures + 1))
  echo "FAILED $step"
  printf '%s\n' "$out" | head -n 12 | sed 's/^/  /' >&2
}
# refuses PATTERN COMMAND...: the command must fail with words that match the pattern.
refuses() {
  local pattern=$1 out
  shift
  if out=$("$@" 2>&1); then echo "accepted: $out"; return 1; fi
  [[ $out =~ $pattern ]] || { echo "$out"; return 1; }
}
same() { diff "$1" "$2"; }

if [ -z "${KUBECONFIG:-}" ]; then
  own_cluster=1
  export CLUSTER_DIR=$state/cluster KUBECONFIG=$state/cluster/kubeconfig
  ADMISSION_OFF=ServiceAccount "$shared/cluster/cluster.sh" up >&2
fi

# objects NAME: the YAML of the standard input as a sorted list of JSON in NAME.json.
objects() {
  kubectl create --dry-run=client --validate=false --output json -f - |
    jq --sort-keys --slurp 'map(if .kind == "List" then .items[] else . end) | sort_by(.kind, .metadata.name)' \
      >"$state/$1.json"
}
# The pod that the Deployment in NAME.json makes, in the namespace whose pods must be restricted.
pod_of() {
  jq --arg namespace "$namespace" '.[] | select(.kind == "Deployment").spec.template
    | {apiVersion: "v1", kind: "Pod", metadata: {name: "pod", $namespace}, spec}' \
    "$state/$1.json" >"$state/$1-pod.json"
}

echo "# a real API server"
kubectl apply -f "$here/monitoring/operator-crds.yaml" >/dev/null
kubectl wait --for condition=Established -f "$here/monitoring/operator-crds.yaml" >/dev/null
for folder in controller-manager overlays/beside overlays/static-pod; do
  kubectl kustomize "$manifests/$folder" >"$state/$(basename "$folder").yaml"
  objects "$(basename "$folder")" <"$state/$(basename "$folder").yaml"
  ok "$folder is accepted, with each field known" \
    kubectl apply --dry-run=server --validate=strict -f "$state/$(basename "$folder").yaml"
done
sed 's/readOnlyRootFilesystem/readOnlyRootFileSystem/' "$state/controller-manager.yaml" >"$state/wrong.yaml"
ok "a field that does not exist would be refused" \
  refuses 'unknown field' kubectl apply --dry-run=server --validate=strict -f "$state/wrong.yaml"

echo "# the Pod Security Standard \"restricted\""
kubectl create namespace "$namespace" >/dev/null
kubectl label namespace "$namespace" pod-security.kubernetes.io/enforce=restricted >/dev/null
for overlay in controller-manager beside; do
  pod_of "$overlay"
  ok "pods of $overlay meet it" kubectl create --dry-run=server -f "$state/$overlay-pod.json"
done
jq --arg namespace "$namespace" '.[0] | .metadata.namespace = $namespace' "$state/static-pod.json" \
  >"$state/static-pod-pod.json"
ok "the static pod, which claims nothing, would be refused" \
  refuses 'violates PodSecurity "restricted' kubectl create --dry-run=server -f "$state/static-pod-pod.json"

echo "# RBAC"
# rights NAME: applies the roles in NAME.json.
rights() {
  jq '{apiVersion: "v1", kind: "List", items: map(select(.kind | test("Role|ServiceAccount")))}' "$state/$1.json" >"$state/rights.json"
  kubectl apply -f "$state/rights.json" >/dev/null
}
may() { # may USER VERB RESOURCE...: waits until the API server knows the roles
  local as=$1
  shift
  for _ in $(seq 50); do kubectl auth can-i --quiet --as="$as" "$@" && return; sleep 0.2; done
  return 1
}
may_not() { ! kubectl auth can-i --quiet --as="$1" "${@:2}"; }
rights controller-manager
for verb in get update watch; do
  ok "the program may $verb its lease" may "$user" "$verb" "leases.coordination.k8s.io/$name" -n kube-system
done
ok "it may not bind roles" may_not "$user" create clusterrolebindings.rbac.authorization.k8s.io
ok "it may not act as another user" may_not "$user" impersonate users
ok "it may review tokens" may "$user" create tokenreviews.authentication.k8s.io
ok "it may review what users may do" may "$user" create subjectaccessreviews.authorization.k8s.io
ok "it may read which authorities sign client certificates" \
  may "$user" get configmaps/extension-apiserver-authentication -n kube-system
ok "with the base, it may create pods" may "$user" create pods -A
ok "and delete Jobs" may "$user" delete jobs.batch -A
ok "but not read Secrets" may_not "$user" list secrets -A
ok "nor delete objects of other kinds" may_not "$user" delete deployments.apps -A
ok "nor escalate roles" may_not "$user" escalate clusterroles.rbac.authorization.k8s.io
ok "Prometheus may get /metrics" may system:serviceaccount:monitoring:prometheus-k8s get /metrics
ok "another user may not" may_not system:serviceaccount:monitoring:default get /metrics

# start NAME: runs the program with the flags of the Deployment in NAME.json. Its secure port is $port, its token $token.
start() {
  port=$((20000 + RANDOM % 10000))
  token=$(kubectl create token "$name" -n kube-system)
  kubectl config view --raw --minify --output json | jq --arg token "$token" '.users[0].user = {$token}' >"$state/kubeconfig"
  mapfile -t flags < <(jq --raw-output '.[] | select(.kind == "Deployment").spec.template.spec.containers[0].args[]' \
    "$state/$1.json")
  "$manager" "${flags[@]}" --kubeconfig "$state/kubeconfig" --authentication-kubeconfig "$state/kubeconfig" \
    --authorization-kubeconfig "$state/kubeconfig" --secure-port "$port" >"$state/manager.log" 2>&1 </dev/null &
  running=$!
}
stop() {
  kill "$running"
  wait "$running" || true
  running=
}
# answers CODE PATH TOKEN: the secure port comes to answer like that.
answers() {
  local code
  for _ in $(seq 150); do
    code=$(curl --silent --insecure --max-time 10 --output "$state/answer" --write-out '%{http_code}' \
      --header "Authorization: Bearer $3" "https://127.0.0.1:$port$2") || true
    [ "$code" = "$1" ] && return
    sleep 0.2
  done
  echo "$code"
  cat "$state/answer" "$state/manager.log"
  return 1
}
# comes COMMAND...: the command comes to print something.
comes() {
  for _ in $(seq 100); do
    "$@" | grep . && return
    sleep 0.2
  done
  tail -n 5 "$state/manager.log"
  return 1
}
leads() { comes kubectl get lease "$name" -n kube-system --output 'jsonpath={.spec.holderIdentity}'; }
nothing_forbidden() { refuses '^$' grep -iE 'forbidden|unauthorized' "$state/manager.log"; }
in_jobs() { kubectl --namespace "$jobs" "$@"; }
# A CronJob that has missed its last minute, so that its controller makes a Job at once. There is no node that runs the pod.
cron_job() {
  kubectl create namespace "$jobs" >/dev/null
  in_jobs create -f - <<'YAML'
apiVersion: batch/v1
kind: CronJob
metadata: {name: hello}
spec:
  schedule: "* * * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      ttlSecondsAfterFinished: 0
      template:
        spec:
          restartPolicy: Never
          automountServiceAccountToken: false
          containers: [{name: hello, image: none}]
YAML
  in_jobs patch cronjob hello --subresource status --type merge \
    --patch "{\"status\": {\"lastScheduleTime\": \"$(date --utc --date '90 seconds ago' +%FT%TZ)\"}}"
}
succeed() {
  in_jobs get pods --output name | head -n 1 | xargs -I POD "$KUBEBUILDER_ASSETS/kubectl" --namespace "$jobs" patch POD \
    --subresource status --type merge --patch '{"status": {"phase": "Succeeded"}}'
}

if [ -n "$manager" ]; then
  echo "# the program with the rights of the base"
  start controller-manager
  ok "all its controllers become ready" answers 200 /readyz ""
  ok "it leads" leads
  ok "a CronJob is created" cron_job
  ok "its controller makes a Job" comes in_jobs get jobs --output name
  ok "whose controller makes a pod" comes in_jobs get pods --output name
  ok "the pod succeeds" succeed
  ok "the Job is deleted after it has finished" comes in_jobs get jobs --output 'jsonpath={.items[*].metadata.deletionTimestamp}'
  ok "there are events about it" comes in_jobs get events --field-selector reason=Completed --output name
  in_jobs delete --wait=false cronjob hello >/dev/null
  stop
  ok "nothing was forbidden to it" nothing_forbidden

  echo "# the program with the rights of overlays/beside"
  rights beside
  ok "it may delete objects of all kinds" may "$user" delete '*.*' -A
  start beside
  ok "all its controllers become ready" answers 200 /readyz ""
  ok "it leads" leads
  kubectl create namespace monitoring >/dev/null 2>&1 || true
  kubectl create serviceaccount prometheus-k8s -n monitoring >/dev/null 2>&1 || true
  ok "Prometheus's token gets the metrics" answers 200 /metrics "$(kubectl create token prometheus-k8s -n monitoring)"
  ok "its own does not" answers 403 /metrics "$token"
  stop
  ok "nothing was forbidden to it" nothing_forbidden
fi

echo "# one controller, one manager"
# lists FOLDER NAME: what the Deployment in NAME.json runs, and what FOLDER/switch-off.sed switches off.
lists() {
  jq --raw-output '.[] | select(.kind == "Deployment").spec.template.spec.containers[0].args[]
    | select(startswith("--controllers=")) | ltrimstr("--controllers=")' "$state/$2.json" | tr , '\n' | sort >"$state/here"
  sed -f "$manifests/$1/switch-off.sed" "$kubeadms" >"$state/edited.yaml"
  theirs=$(sed -n 's/^ *- --controllers=//p' "$state/edited.yaml")
  tr , '\n' <<<"$theirs" | sed -n 's/^-//p' | sort >"$state/there"
}
one_line_differs() { [ "$(diff "$kubeadms" "$state/edited.yaml" | grep -c '^>')" -eq 1 ]; }
# upstream LIST: kube-controller-manager knows the names; it stops at its kubeconfig, which does not exist.
upstream() {
  refuses 'no such file' "$KUBEBUILDER_ASSETS/kube-controller-manager" --controllers="$1" --secure-port 0 --kubeconfig /none
}
# These make the pods, replace those of lost nodes, and give nodes and pods what they start with.
printf '%s-controller\n' deployment replicaset daemonset pod-garbage-collector node-lifecycle taint-eviction node-ipam \
  serviceaccount serviceaccount-token root-ca-certificate-publisher certificatesigningrequest-signing \
  certificatesigningrequest-approving >"$state/needed"
kubeadms=$manifests/overlays/static-pod/kube-controller-manager.yaml
for folder in controller-manager overlays/beside; do
  lists "$folder" "$(basename "$folder")"
  ok "$folder: kube-controller-manager switches off what the Deployment runs" same "$state/here" "$state/there"
  ok "$folder: nothing else in its manifest changes" one_line_differs
  ok "$folder: kube-controller-manager knows the names" upstream "$theirs"
  ok "$folder: what the Deployment's pods need stays with kube-controller-manager" \
    refuses '^$' grep -xf "$state/needed" "$state/here"
done

echo "# kubeadm"
cat >"$state/kubeadm.yaml" <<YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $(sed -n 's/.*kube-controller-manager:\(v.*\)/\1/p' "$kubeadms")
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}
certificatesDir: $state/pki
YAML
# kubeadm_writes FILE CONFIG...: kubeadm's manifest of kube-controller-manager with these files as configuration. A folder of
# certificates of its own keeps it from looking at those of this machine.
kubeadm_writes() {
  local file=$1
  shift
  mkdir -p "$state/dry"
  for part in "$@"; do cat "$part"; echo ---; done >"$state/config.yaml"
  KUBEADM_INIT_DRYRUN_DIR=$state/dry "$KUBEBUILDER_ASSETS/kubeadm" init phase control-plane controller-manager --dry-run \
    --config "$state/config.yaml" &&
    sed "s|$state/pki|/etc/kubernetes/pki|" "$state/dry/kube-controller-manager.yaml" >"$file"
}
ok "kubeadm writes its manifest" kubeadm_writes "$state/kubeadms.yaml" "$state/kubeadm.yaml"
ok "the manifest in overlays/static-pod is kubeadm's" same "$state/kubeadms.yaml" "$kubeadms"
# What README.md puts into kubeadm-config, for overlays/beside, whose list is still in $theirs. kubeadm puts the flag last.
cp "$state/kubeadm.yaml" "$state/args.yaml"
echo "controllerManager: {extraArgs: [{name: controllers, value: \"$theirs\"}]}" >>"$state/args.yaml"
ok "kubeadm takes the list of controllers" kubeadm_writes "$state/with-args.yaml" "$state/args.yaml"
ok "and writes what the edit by hand makes" same <(sort "$state/with-args.yaml") <(sort "$state/edited.yaml")
sed "s|/etc/kubernetes/patches|$manifests/overlays/static-pod/patches|" \
  "$manifests/overlays/static-pod/kubeadm.yaml" >"$state/patches.yaml"
ok "kubeadm takes the patch" kubeadm_writes "$state/patched.yaml" "$state/kubeadm.yaml" "$state/patches.yaml"
ok "and writes what kustomize writes" same "$state/patched.yaml" "$state/static-pod.yaml"

echo "# Helm"
if command -v helm >/dev/null; then
  chart=$manifests/helm/steersman
  # helm tells of each file that is a link.
  template() { helm template steersman "$chart" "$@" 2>"$state/helm.log" || { cat "$state/helm.log" >&2; return 1; }; }
  ok "the chart is well formed" helm lint --strict "$chart"
  template --namespace kube-system | objects chart
  ok "the chart is the base" same "$state/chart.json" "$state/controller-manager.json"
  template --namespace kube-system --values "$chart/values-beside.yaml" | objects chart-beside
  # With the monitoring component, which also is a part of the chart.
  mkdir "$state/monitored"
  cat >"$state/monitored/kustomization.yaml" <<YAML
resources: [$(realpath --relative-to "$state/monitored" "$manifests/controller-manager")]
components: [$(realpath --relative-to "$state/monitored" "$manifests/monitoring/beside")]
YAML
  kubectl kustomize "$state/monitored" | objects monitored
  every_switch=monitoring.service.enabled=true,monitoring.serviceMonitor.enabled=true
  every_switch+=,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true
  template --namespace kube-system --set "$every_switch" | objects chart-monitored
  ok "with its switches for monitoring it is the base with monitoring/beside" same "$state/chart-monitored.json" "$state/monitored.json"
  ok "with values-beside.yaml it is overlays/beside" same "$state/chart-beside.json" "$state/beside.json"
  template --namespace "$namespace" --values "$here/testdata/values.yaml" >"$state/every-value.yaml"
  objects every-value <"$state/every-value.yaml"
  ok "with every value changed, and in another namespace, it is accepted" \
    kubectl apply --dry-run=server --validate=strict -f "$state/every-value.yaml"
  pod_of every-value
  ok "and its pods meet the Pod Security Standard \"restricted\"" \
    kubectl create --dry-run=server -f "$state/every-value-pod.json"
  ok "the image is that of the values" \
    grep -q '"image": "registry.example.com/steersman@sha256:0123' "$state/every-value.json"
  rules() { template --set "controllers={$1}" | objects rules && jq '.[] | select(.kind == "ClusterRole").rules' "$state/rules.json"; }
  rules job,cronjob,ttl-after-finished >"$state/old-names.json"
  jq '.[] | select(.kind == "ClusterRole").rules' "$state/chart.json" >"$state/names.json"
  ok "old names of controllers give the same ClusterRole" same "$state/old-names.json" "$state/names.json"
  rules garbage-collector-controller >"$state/garbage-collector.json"
  ok "each list of controllers has the rights of these alone" \
    same <(jq '.[] | select(.kind == "ClusterRole").rules' "$state/every-value.json") "$state/garbage-collector.json"
  rules '*' >"$state/all.json"
  ok "all controllers have rights to sign certificates" grep -q '"sign"' "$state/all.json"
  # The names of the controllers that are on by default, but for the controller of Jobs.
  names=$(awk '$1 == "-" && $2 == "name:" {name = $3} $1 == "byDefault:" && $2 == "true" && name != "job-controller" {print name}' \
    "$chart/rules.yaml" | paste -sd ,)
  rules "$names" >"$state/listed.json"
  rules '*,-job' >"$state/all-but-one.json"
  ok "an item with a minus leaves a controller out" same "$state/all-but-one.json" "$state/listed.json"
  ok "which leaves less than all" refuses '' same "$state/all-but-one.json" "$state/all.json"
  rules '-job,*,job-controller' >"$state/first.json"
  ok "the first item that names a controller counts" same "$state/first.json" "$state/listed.json"
  ok "the program gets the same list" grep -q -- '"--controllers=-job,\*,job-controller"' "$state/rules.json"
  ok "a controller that steersman does not have is refused" \
    refuses 'does not have jobs-controller' helm template steersman "$chart" --set 'controllers={jobs-controller}'
  ok "and so is one that is left out" \
    refuses 'does not have jobs-controller' helm template steersman "$chart" --set 'controllers={*,-jobs-controller}'
  ok "a list of controllers that the ClusterRole does not follow is refused" \
    refuses 'extraArgs' helm template steersman "$chart" --set 'extraArgs={--controllers=*}'
  ok "an unknown value is refused" refuses 'nonsense' helm template steersman "$chart" --set nonsense=1
else
  echo "helm is not installed: the chart was NOT checked"
fi

echo "$((steps - failures)) passed, $failures failed"
[ "$failures" -eq 0 ]
