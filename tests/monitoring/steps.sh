# The steps that tests/monitoring.sh is written in; prometheus.sh beside it has the questions to Prometheus.
# shellcheck shell=bash

: "${DEADLINE:=90}" # seconds that a step may take
steps=0 failures=0

passed() { steps=$((steps + 1)); echo "ok $1"; }
failed() { # failed STEP WHY
  steps=$((steps + 1)) failures=$((failures + 1))
  echo "FAILED $1"
  printf '  %s\n' "$2" | head -n 20 >&2
}

# does STEP COMMAND...: the command must succeed.
does() {
  local step=$1 out
  shift
  if out=$("$@" 2>&1); then passed "$step"; else failed "$step" "$out"; fi
}

# comes STEP COMMAND...: the command comes to succeed.
comes() {
  local step=$1 out end=$((SECONDS + DEADLINE))
  shift
  until out=$("$@" 2>&1); do
    if [ "$SECONDS" -ge "$end" ]; then failed "$step" "after $DEADLINE s: $out"; return; fi
    sleep 0.5
  done
  passed "$step"
}

# selectors: of the expressions on the standard input, each series selector on a line, with Grafana's variables filled in.
selectors() {
  grep -oE '[a-zA-Z_:][a-zA-Z0-9_:]*\{[^}]*\}' |
    sed 's/\$cluster//g; s/\$instance/.+/g; s/\$job/kube-controller-manager/g' | sort -u
}

summary() {
  echo "$((steps - failures)) of $steps steps passed"
  [ "$failures" -eq 0 ]
}
