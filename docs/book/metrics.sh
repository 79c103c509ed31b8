#!/usr/bin/env bash
# Compares the tables of docs/book/src/metrics.md with the code, and with what a running program serves.
#
#   docs/book/metrics.sh [PROGRAM]
#
# With the code: the page has each name and label that the code gives to a metric, and no other metric. With PROGRAM, a build of
# steersman: `PROGRAM standalone` runs the examples on simulated containers, and each family that it then serves has a row with its
# type and labels. Needs curl and kubectl for that, no cluster and no rights.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
page=docs/book/src/metrics.md
state=$(mktemp -d)
running=
finish() {
  local code=$?
  trap - EXIT
  if [ -n "$running" ]; then kill "$running" 2>/dev/null || true; wait "$running" 2>/dev/null || true; fi
  if [ "$code" -ne 0 ] && [ -s "$state/log" ]; then tail -n 20 "$state/log" >&2; fi
  rm -rf "$state"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

faults=0
fault() { echo "$*" >&2; faults=$((faults + 1)); }

# Rows of the page: name, type, labels in alphabetical order.
awk -F' *[|] *' '
  $2 ~ /^`[a-z_]+`$/ && $3 ~ /^(counter|gauge|histogram)$/ {
    gsub(/`/, "", $2); gsub(/[` ]/, "", $4)
    count = split($4, labels, ","); line = ""
    for (i = 1; i <= count; i++) for (j = i + 1; j <= count; j++)
      if (labels[j] < labels[i]) { swap = labels[i]; labels[i] = labels[j]; labels[j] = swap }
    for (i = 1; i <= count; i++) line = line (i > 1 ? "," : "") labels[i]
    print $2 "\t" $3 "\t" line
  }' "$page" | sort >"$state/rows"
cut -f1 "$state/rows" | uniq -d >"$state/twice"
while IFS= read -r name; do fault "$page: two rows for $name"; done <"$state/twice"

# Strings with underscores in the files that describe metrics, without their tests.
find client informer controller controllers serving node apiserver src -name '*.rs' -not -path '*/tests/*' -not -name 'test*' \
  -exec grep -lE '(Opts|Gauge|Counter|Family|HistogramOpts)(::new\(| = *$)|^type Family' {} + | sort >"$state/files"
# shellcheck disable=SC2016 # awk's own fields
untested='/^#\[cfg\(test\)\]/ { getline; if (/\{$/) exit } { print }'
while IFS= read -r file; do awk "$untested" "$file"; done <"$state/files" |
  grep -oE '"[a-z0-9{}]+(_[a-z0-9{}]+)+"' | tr -d '"' | sort -u >"$state/strings"
while IFS= read -r string; do
  case $string in
    *'{'*) ;;                                      # put together from parts
    server_version) ;;                             # a string of such a file that is no part of a metric
    *) grep -qF -- "$string" "$page" || fault "$page lacks $string" ;;
  esac
done <"$state/strings"
in_code() { grep -qxF -- "$1" "$state/strings"; }
# made NAME: whether the code has the name, as a whole or as a prefix and the rest.
made() {
  local prefix=$1 rest
  in_code "$1" && return
  # The name's middle is put in.
  sed -n 's/_{name}_/_[a-z_]*_/p' "$state/strings" | grep -qxf /dev/stdin <(echo "$1") && return
  while [ "$prefix" != "${prefix%_*}" ]; do
    prefix=${prefix%_*}
    rest=${1#"${prefix}_"}
    in_code "$prefix" || in_code "${prefix}_{name}" || continue
    in_code "$rest" && return
    xargs grep -qhE "\"$rest\"|[}]_$rest\"" <"$state/files" && return
  done
  return 1
}
while IFS=$'\t' read -r name _; do
  made "$name" || fault "$page: the code has no metric $name"
done <"$state/rows"

if [ $# -gt 0 ]; then
  "$1" standalone --data-dir "$state/data" --https-address 127.0.0.1:0 --http-address 127.0.0.1:0 >"$state/out" 2>"$state/log" &
  running=$!
  for _ in $(seq 240); do
    address=$(sed -nE 's/.*"Serving HTTP" address="?([0-9.:]+).*/\1/p' "$state/log")
    if [ -n "$address" ] && curl -sf "http://$address/readyz" >/dev/null; then break; fi
    kill -0 "$running"
    sleep 0.25
  done
  kubectl="${KUBEBUILDER_ASSETS:+$KUBEBUILDER_ASSETS/}kubectl"
  "$kubectl" --kubeconfig "$state/data/kubeconfig" apply -f examples/job.yaml -f examples/web.yaml >/dev/null
  "$kubectl" --kubeconfig "$state/data/kubeconfig" wait --for=condition=complete --timeout=60s job/four >/dev/null
  "$kubectl" --kubeconfig "$state/data/kubeconfig" rollout status --timeout=60s deployment/web >/dev/null
  curl -sf "http://$address/metrics" >"$state/served"
  curl -sf "http://$address/metrics/slis" >>"$state/served"
  awk '
    /^# TYPE / { type[$3] = $4; next }
    /^#/ { next }
    {
      name = $0; sub(/[{ ].*/, "", name)
      if (!(name in type)) sub(/_(bucket|sum|count)$/, "", name)
      if (name in seen) next
      seen[name] = 1
      rest = $0; labels = ""; count = 0
      while (match(rest, /[{,][a-zA-Z0-9_]+="([^"\\]|\\.)*"/)) {
        label = substr(rest, RSTART + 1, RLENGTH - 1); sub(/=.*/, "", label)
        if (label != "le") all[++count] = label
        rest = substr(rest, RSTART + RLENGTH)
      }
      for (i = 1; i <= count; i++) for (j = i + 1; j <= count; j++)
        if (all[j] < all[i]) { swap = all[i]; all[i] = all[j]; all[j] = swap }
      for (i = 1; i <= count; i++) labels = labels (i > 1 ? "," : "") all[i]
      print name "\t" type[name] "\t" labels
    }' "$state/served" | sort >"$state/families"
  while IFS= read -r family; do
    grep -qxF -- "$family" "$state/rows" || fault "$page has no row for: $family"
  done <"$state/families"
  echo "$(wc -l <"$state/families") families of a running program have their rows"
fi

if [ "$faults" -ne 0 ]; then echo "$faults faults" >&2; exit 1; fi
echo "$(wc -l <"$state/rows") metrics: page and code agree"
