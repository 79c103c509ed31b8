# What the chapters are written in. Each step says what somebody does or sees, does it, and waits for what must come of it.
# shellcheck shell=bash

: "${DEADLINE:=90}" # seconds that a step may take until the cluster shows what is expected
steps=0 failures=0 namespace=day
IMAGE=docker.io/library/busybox:1.36
# shellcheck disable=SC2034 # chapters use it
OTHER_IMAGE=docker.io/library/busybox:latest

# k ARGUMENTS...: kubectl, in the chapter's namespace.
k() { "$KUBEBUILDER_ASSETS/kubectl" --namespace "$namespace" "$@"; }

# chapter NAME: a namespace of its own.
chapter() {
  name=$1 namespace=day-${1#*-}
  echo "# ${1#*-}"
  k create namespace "$namespace" >/dev/null
  # Without its service account no pod is admitted.
  for _ in $(seq "$DEADLINE"); do k get serviceaccount default >/dev/null 2>&1 && break; sleep 1; done
}

passed() { steps=$((steps + 1)); echo "ok $name: $1"; }
failed() { # failed STEP WHY
  steps=$((steps + 1)) failures=$((failures + 1))
  echo "FAILED $name: $1"
  printf '  %s: %s\n' "$1" "$2" | head -n 12 >&2
  # Why a pod does not run, its events tell.
  k get events --sort-by .lastTimestamp --no-headers 2>/dev/null | tail -n 6 | cut -c 1-400 | sed 's/^/    /' >&2 || true
}

# does STEP ARGUMENTS...: kubectl must accept it. The standard input is passed on.
does() {
  local step=$1 out
  shift
  if out=$(k "$@" 2>&1); then passed "$step"; else failed "$step" "$out"; fi
}

# refused STEP PATTERN ARGUMENTS...: kubectl must fail with words that match the pattern.
refused() {
  local step=$1 pattern=$2 out
  shift 2
  if out=$(k "$@" 2>&1); then failed "$step" "accepted: $out"
  elif [[ $out =~ $pattern ]]; then passed "$step"
  else failed "$step" "$out"; fi
}

# shows STEP PATTERN ARGUMENTS...: what kubectl prints, or why it fails, comes to match the pattern, a regular expression for
# all of it.
shows() {
  local step=$1 pattern=$2 out= end=$((SECONDS + DEADLINE))
  shift 2
  while true; do
    out=$(k "$@" 2>"$state/refusal") || out=$(<"$state/refusal")
    if [[ $out =~ ^($pattern)$ ]]; then passed "$step"; return; fi
    if [ "$SECONDS" -ge "$end" ]; then failed "$step" "wanted /$pattern/, got: $out"; return; fi
    sleep 0.5
  done
}

# field STEP OBJECT PATH PATTERN: a field of an object comes to match.
field() { shows "$1" "$4" get "$2" --output "jsonpath={$3}"; }

# count STEP NUMBER ARGUMENTS...: so many objects come to be listed.
count() {
  local step=$1 wanted=$2 out= end=$((SECONDS + DEADLINE))
  shift 2
  while true; do
    out=$(k get "$@" --no-headers --output name 2>&1) || true
    if [ "$(grep -c / <<<"$out")" -eq "$wanted" ]; then passed "$step"; return; fi
    if [ "$SECONDS" -ge "$end" ]; then failed "$step" "wanted $wanted, got: $out"; return; fi
    sleep 0.5
  done
}

# gone STEP OBJECT...: they come to be gone.
gone() {
  local step=$1 out end=$((SECONDS + DEADLINE))
  shift
  while true; do
    # Of deprecated kinds kubectl says so on the standard error.
    if out=$(k get "$@" --ignore-not-found --output name 2>"$state/refusal") && [ -z "$out" ]; then passed "$step"; return; fi
    [ -n "$out" ] || out=$(<"$state/refusal")
    if [ "$SECONDS" -ge "$end" ]; then failed "$step" "still there: $out"; return; fi
    sleep 0.5
  done
}

# event STEP REASON OBJECT: an event about an object, by its name.
event() { shows "$1" ".*$2.*" get events --field-selector "involvedObject.name=$3" --output 'jsonpath={.items[*].reason}'; }

# applies STEP: what the standard input holds.
applies() { does "$1" apply --server-side --filename -; }

summary() {
  echo "# $steps steps, $failures failed"
  [ "$failures" -eq 0 ]
}
