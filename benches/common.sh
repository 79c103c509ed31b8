# shellcheck shell=bash
# What the measurements share; they source it. It gives them a real control plane of their own, the peers to measure
# beside, and the figures of a process. All that it starts ends with the script.
set -euo pipefail
export LC_ALL=C
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shared=$repository/../shared
if [ ! -d "$shared/peers" ] || [ ! -d "$shared/cluster" ]; then
  echo "$0: ../shared is absent, and with it the peers to measure beside" >&2
  exit 2
fi
state=$(mktemp -d)
started=() # processes of ours, by id
trap clean_up EXIT
trap 'exit 130' INT TERM

clean_up() {
  local status=$? pid
  if [ "$status" -ne 0 ]; then tail -n 20 "$state"/*.log >&2 2>/dev/null || true; fi
  for pid in "${started[@]}"; do stop "$pid"; done
  CLUSTER_DIR=$state/cluster "$shared/cluster/cluster.sh" down
  rm -rf "$state"
}

# stop PID: asks, and insists after ten seconds.
stop() {
  kill "$1" 2>/dev/null || return 0
  for _ in $(seq 100); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.1; done
  kill -KILL "$1" 2>/dev/null || true
}

say() { echo "-- $*" >&2; }

# build bin|example NAME [PACKAGE]: as it is published; prints where it is.
build() {
  local target folder
  target=$(uname -m)-unknown-linux-musl
  folder=${CARGO_TARGET_DIR:-$repository/target}/$target/dist
  say "building $2"
  cargo build --manifest-path "$repository/Cargo.toml" --config "$repository/.cargo/dist.toml" --locked --profile dist \
    --target "$target" --package "${3:-steersman}" "--$1" "$2" >&2
  case $1 in example) echo "$folder/examples/$2" ;; *) echo "$folder/$2" ;; esac
}

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

# control_plane WHAT: a fresh etcd and kube-apiserver; KUBECONFIG is theirs. WHAT is only said.
# Bodies are not compressed: on loopback that would measure gzip.
control_plane() {
  CLUSTER_DIR=$state/cluster "$shared/cluster/cluster.sh" down
  say "starting a control plane $1"
  CLUSTER_DIR=$state/cluster API_PORT=$(free_port) ETCD_PORT=$(free_port) ADMISSION_OFF=ServiceAccount \
    timeout 1200 "$shared/cluster/cluster.sh" up >/dev/null
  export KUBECONFIG=$state/cluster/kubeconfig
  sed -i 's/insecure-skip-tls-verify: true/&, disable-compression: true/' "$KUBECONFIG"
}

# cluster_with PODS: a control plane with that many running pods.
cluster_with() {
  control_plane "with $1 pods"
  timeout 900 "$state/peers" load "$1" >&2
}

build_peers() {
  say "building the peers"
  go -C "$shared/peers" build -o "$state/peers" .
  KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$("$shared/kubernetes/build.sh")}
  export KUBEBUILDER_ASSETS
}

# read_in PROGRAM...: reads programs into the page cache. The kernel maps a program's pages sixteen at a time, but only those in the page
# cache. So the resident memory of a process depends on how much of its program is there.
read_in() { cat "$@" >/dev/null; }

# memory PID FIELD: of /proc/PID/status, in kB. VmHWM is the peak since its start, VmRSS what is resident now.
memory() { awk -v field="$2:" '$1 == field {print $2}' "/proc/$1/status"; }

# processor_time PID: in user and system mode together, in ms. The name, in brackets, may have spaces.
processor_time() {
  local fields
  fields=$(sed 's/^.*) //' "/proc/$1/stat")
  # shellcheck disable=SC2086 # words are wanted
  set -- $fields
  echo $(((${12} + ${13}) * 1000 / $(getconf CLK_TCK)))
}

# settle PID [PERCENT]: waits until the process uses less than PERCENT (1) of a processor for 3 s. Fails after `settle_for`
# seconds (90).
settle() {
  local before now quiet=0 rest=$((${2:-1} * 10))
  before=$(processor_time "$1")
  for _ in $(seq "${settle_for:-90}"); do
    sleep 1
    kill -0 "$1" 2>/dev/null || { echo "process $1 ended" >&2; return 1; }
    now=$(processor_time "$1")
    if [ $((now - before)) -le "$rest" ]; then quiet=$((quiet + 1)); else quiet=0; fi
    before=$now
    [ "$quiet" -lt 3 ] || return 0
  done
  echo "process $1 does not come to rest" >&2
  return 1
}

# milliseconds DURATION: of one as Go prints it, such as 1m2.5s, 731ms or 17.2µs.
milliseconds() {
  awk -v text="$1" 'BEGIN {
    scale["h"] = 3600000; scale["m"] = 60000; scale["s"] = 1000; scale["ms"] = 1; scale["µs"] = 0.001
    while (match(text, /^[0-9.]+/)) {
      value = substr(text, 1, RLENGTH); text = substr(text, RLENGTH + 1)
      match(text, /^[^0-9.]+/); total += value * scale[substr(text, 1, RLENGTH)]; text = substr(text, RLENGTH + 1)
    }
    print total }'
}

# median: of the numbers on standard input.
median() { sort -n | awk '{all[NR] = $1} END {print all[int((NR + 1) / 2)]}'; }

# worst, total: the largest of the numbers on standard input, and their sum.
worst() { sort -g | tail -n 1; }
total() { awk '{sum += $1} END {print sum + 0}'; }

# heading OURS THEIRS, row WHAT UNIT OURS THEIRS: a table with the ratio of the two.
heading() { printf '\n%-46s %14s %14s %8s\n' "" "$1" "$2" "ratio"; }
row() {
  awk -v what="$1 ($2)" -v ours="$3" -v theirs="$4" 'BEGIN {
    printf "%-46s %14.6g %14.6g %8s\n", what, ours, theirs, (theirs > 0 ? sprintf("%.3f", ours / theirs) : "-") }'
}

# ratio OURS THEIRS: prints it with three digits, or nothing if one of the two is missing.
ratio() { awk -v ours="$1" -v theirs="$2" 'BEGIN { if (ours != "" && theirs > 0) printf "%.3f", ours / theirs }'; }

# at_most WHAT LIMIT MEASURED [UNIT], at_least WHAT LIMIT MEASURED [UNIT]: a line that compares a figure with what is asked for.
# A missed limit does not fail the script.
at_most() { verdict "$1" most "$2" "$3" "${4:-}"; }
at_least() { verdict "$1" least "$2" "$3" "${4:-}"; }
verdict() {
  awk -v what="$1" -v side="$2" -v limit="$3" -v measured="$4" -v unit="${5:+ $5}" 'BEGIN {
    if (measured == "") result = "not measured"
    else if (side == "most" ? measured + 0 <= limit + 0 : measured + 0 >= limit + 0) result = "measured: " measured unit "; holds"
    else result = "measured: " measured unit "; MISSED"
    printf "%-52s asked: at %s %s%s; %s\n", what, side, limit, unit, result }'
}

# verdicts [SCALE]: the heading above such lines. Sizes that were divided by SCALE are not those that the limits are for.
verdicts() {
  printf '\nLimits (ratios are of steersman to kube-controller-manager):\n'
  if [ "${1:-1}" -ne 1 ]; then echo "They are asked for at SCALE 1; this run has SCALE $1."; fi
}
