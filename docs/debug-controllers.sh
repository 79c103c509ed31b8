#!/usr/bin/env bash
# Takes the pictures of /debug/controllers for the docs from a live run: `steersman standalone` with some of its controllers, a
# Deployment that runs, and one whose pods a quota refuses, so that there are retries and errors to see.
#
#   docs/debug-controllers.sh STEERSMAN [FOLDER]
#
# STEERSMAN is the program. FOLDER gets the pictures; by default docs/book/src/images. Needs kubectl, on the PATH or in the folder
# KUBEBUILDER_ASSETS, curl, and Debian's packages chromium and pngquant.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
program=$1
folder=${2:-$here/book/src/images}
PATH=${KUBEBUILDER_ASSETS:-}:$PATH
for tool in kubectl curl chromium pngquant; do
  command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 2; }
done
# The largest picture that may be checked in, in bytes.
largest=200000
# Few enough that the caches are in the picture as well.
controllers=serviceaccount,namespace,resourcequota,deployment,replicaset,job,endpointslice
http=127.0.0.1:${HTTP_PORT:-18080}
https=127.0.0.1:${HTTPS_PORT:-18443}

state=$(mktemp -d)
export KUBECONFIG=$state/kubeconfig
finish() {
  local code=$?
  trap - EXIT
  if [ -n "${running:-}" ]; then
    kill "$running" 2>/dev/null || true
    wait "$running" 2>/dev/null || true
    if [ "$code" -ne 0 ]; then tail -n 20 "$state/log" >&2; fi
  fi
  rm -rf "$state"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Runs a command until it succeeds, a minute at most.
eventually() {
  local end=$((SECONDS + 60))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { echo "in vain: $*" >&2; return 1; }
    sleep 0.5
  done
}

# Whether keys are retried.
retries() {
  curl --fail --silent "http://$http/debug/controllers?format=json" | grep -Eq '"inRetry": [1-9]'
}

# Takes a picture: its name, width, height, and further options of the browser.
picture() {
  local file=$folder/$1.png
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$state/browser" \
    --window-size="$2,$3" --screenshot="$file" "${@:4}" "http://$http/debug/controllers" >"$state/browser.log" 2>&1 ||
    { cat "$state/browser.log" >&2; return 1; }
  pngquant --force --ext .png 64 "$file"
  [ "$(stat --format %s "$file")" -le "$largest" ] || { echo "$file is too large" >&2; return 1; }
  echo "$file"
}

"$program" standalone --data-dir "$state/data" --https-address "$https" --write-kubeconfig "$KUBECONFIG" \
  --http-address "$http" --controllers "$controllers" >"$state/log" 2>&1 </dev/null &
running=$!
eventually curl --fail --silent "http://$http/readyz"
kubectl apply --filename "$here/../examples/web.yaml" --filename "$here/../examples/job.yaml" >/dev/null
kubectl create namespace team >/dev/null
kubectl --namespace team create quota few --hard=pods=1 >/dev/null
kubectl --namespace team create deployment shop --image=busybox --replicas=3 >/dev/null
eventually kubectl rollout status deployment/web --timeout=1s
eventually retries
mkdir -p "$folder"
picture debug-controllers 1000 1300
picture debug-controllers-phone 400 1040 --blink-settings=preferredColorScheme=0
