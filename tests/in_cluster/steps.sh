# What the chapters are written in, beside tests/day/steps.sh.
# shellcheck shell=bash disable=SC2034,SC2153,SC2154

# A port that nobody listens on, nor on the next one, below those that the system gives to connections.
free_port() {
  local port
  while true; do
    port=$((20000 + RANDOM % 10000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && ! (exec 3<>"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

containers() { ctr --address "${RUNTIME_ENDPOINT#unix://}" --namespace k8s.io "$@"; }

# import ARCHIVE: gives its images to the runtime; `image` and `root_image` are their names.
import() {
  containers images import "$1" >&2
  tar -xOf "$1" index.json | jq -r '.manifests[].annotations["io.containerd.image.name"]' >"$state/images"
  image=$(grep -v -- '-root$' "$state/images")
  root_image=$(grep -- '-root$' "$state/images")
}

# controllers_beside_ours: what the real manager runs while ours runs those that its manifest names.
controllers_beside_ours() {
  local ours
  ours=$(k kustomize "$MANIFESTS" | sed -n 's/.*--controllers=//p')
  case $ours in
    '' | *'*'*) echo "the manifest must name the controllers that it runs: --controllers=$ours" >&2; return 1 ;;
  esac
  echo "*,-${ours//,/,-}"
}

# comes STEP COMMAND...: the command comes to succeed. Says on the standard error how long that took.
comes() {
  local step=$1 out began=$SECONDS
  shift
  while ! out=$("$@" 2>&1); do
    if [ $((SECONDS - began)) -ge "$DEADLINE" ]; then failed "$step" "after $DEADLINE s: $* ($out)"; return; fi
    sleep 0.3
  done
  passed "$step"
  echo "  after $((SECONDS - began)) s" >&2
}

# leader LEASE: the identity that holds a lease of kube-system, if any: the host's name, an underscore, and an identifier.
leader() { k --namespace kube-system get lease "$1" --output 'jsonpath={.spec.holderIdentity}' 2>/dev/null || true; }

# led_anew LEASE IDENTITY: somebody else holds the lease.
led_anew() {
  local now
  now=$(leader "$1")
  [ -n "$now" ] && [ "$now" != "$2" ]
}

# container POD: the identifier of a pod's only container, in kube-system.
container() {
  k --namespace kube-system get pod "$1" --output 'jsonpath={.status.containerStatuses[0].containerID}' | sed 's|.*://||'
}

# kills STEP POD: the program in a pod's container gets SIGKILL.
kills() {
  local out
  if out=$(containers tasks kill --signal SIGKILL "$(container "$2")" 2>&1); then passed "$1"; else failed "$1" "$out"; fi
}

# user POD: the number of the user that a pod's container runs as.
user() {
  local pid
  pid=$(containers tasks ls | awk -v id="$(container "$1")" '$1 == id {print $2}')
  awk '$1 == "Uid:" {print $2}' "/proc/$pid/status"
}

# runs_as POD USER.
runs_as() { [ "$(user "$1")" = "$2" ]; }

# works NAME: the controllers work: a Job comes to its end, and a Deployment's pods become the endpoints of its Service.
works() {
  applies "$1: a Job, a Deployment and its Service are made" <<YAML
apiVersion: batch/v1
kind: Job
metadata: {name: $1}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: work, image: "$IMAGE", command: ["true"]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  replicas: 2
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: web, image: "$IMAGE", command: [httpd, -f, -p, "8080"]}]
---
apiVersion: v1
kind: Service
metadata: {name: $1}
spec: {selector: {app: $1}, ports: [{port: 80, targetPort: 8080}]}
YAML
  field "$1: the Job comes to its end" "job/$1" '.status.succeeded' 2
  field "$1: the Deployment rolls out" "deployment/$1" '.status.availableReplicas' 2
  shows "$1: the Service has its endpoints" '10\.[0-9.]+ 10\.[0-9.]+' get "endpoints/$1" \
    --output 'jsonpath={.subsets[0].addresses[*].ip}'
}

# asks URL [TOKEN]: the code of the answer over HTTPS; the answer itself is in $state/answer.
asks() {
  curl --silent --insecure --max-time 10 --output "$state/answer" --write-out '%{http_code}' \
    ${2:+--header "Authorization: Bearer $2"} "$1" || true
}

# answers STEP CODE URL [TOKEN]: that is the code.
answers() {
  local code
  code=$(asks "$3" "${4:-}")
  if [[ $code =~ ^($2)$ ]]; then passed "$1"; else failed "$1" "$3: $code $(head -c 300 "$state/answer")"; fi
}

# scraper: a service account that may read metrics, and one that may not; `scraper_token` and `other_token` are theirs.
scraper() {
  k create serviceaccount scraper >/dev/null
  k create serviceaccount other >/dev/null
  k create clusterrolebinding "$namespace-scraper" --clusterrole=system:monitoring --serviceaccount="$namespace:scraper" >/dev/null
  scraper_token=$(k create token scraper)
  other_token=$(k create token other)
}

# scraped WHAT URL: the metrics are served over HTTPS to whom the cluster allows them.
scraped() {
  answers "$1: the metrics are served over HTTPS with a token" 200 "$2/metrics" "$scraper_token"
  shows_in_answer "$1: they tell who leads, the queues and the requests" \
    leader_election_master_status workqueue_depth rest_client_requests_total process_resident_memory_bytes
  answers "$1: without the right to them, they are refused" 403 "$2/metrics" "$other_token"
  answers "$1: without a token, they are refused" '401|403' "$2/metrics"
}

# shows_in_answer STEP SERIES...: the metrics that were answered have these.
shows_in_answer() {
  local step=$1 series missing=
  shift
  for series in "$@"; do
    grep -q "^${series}[{ ]" "$state/answer" || missing+=" $series"
  done
  if [ -z "$missing" ]; then passed "$step"; else failed "$step" "not there:$missing"; fi
}

# watched JOB PODS FOLDER [POD ADDRESS]: Prometheus scrapes so many replicas under that job, by the manifests in a folder of
# manifests/monitoring, and one of them leads. The replica with the address POD is asked at ADDRESS. Without Prometheus, says so.
watched() {
  if [ -z "$watched" ]; then echo "  Prometheus is absent: nothing was scraped" >&2; return; fi
  if "$KUBEBUILDER_ASSETS/kubectl" apply --kustomize "$repository/manifests/monitoring/$3" >"$state/monitoring.log" 2>&1; then
    passed "Prometheus: the manifests $3 are accepted"
  else
    failed "Prometheus: the manifests $3 are accepted" "$(<"$state/monitoring.log")"
  fi
  start_prometheus "${@:4}"
  still_watched "$1" "$2" ""
}

# still_watched JOB PODS WHEN: all replicas are scraped, one of them leads, no alert fires.
still_watched() {
  local when=${3:+ $3}
  if [ -z "$watched" ]; then return; fi
  comes "Prometheus: replicas are scraped over HTTPS with a token, as $1: $2$when" some "sum(up{job=\"$1\"}) == $2"
  comes "Prometheus: one of $1 leads$when" some "sum(leader_election_master_status{job=\"$1\"}) == 1"
  comes "Prometheus: no alert about $1 fires$when" none "ALERTS{alertstate=\"firing\", job=\"$1\"}"
}
