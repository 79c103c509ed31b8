#!/usr/bin/env bash
# Prints what each control group of pods has, a line a value, with pods and containers by name instead of their ids.
set -euo pipefail
files=(cpu.weight cpu.max cpu.idle cpuset.cpus cpuset.mems io.weight pids.max cgroup.subtree_control)
files+=(memory.max memory.high memory.min memory.low memory.swap.max memory.oom.group)
files+=(hugetlb.2MB.max hugetlb.1GB.max hugetlb.2MB.rsvd.max hugetlb.1GB.rsvd.max)

names=$(kubectl get pods -o jsonpath='{range .items[*]}{.metadata.uid} {.metadata.name}{range .status.containerStatuses[*]} {.containerID}={.name}{end}{"\n"}{end}' |
  while read -r uid pod containers; do
    printf 's/%s/<%s>/;s/%s/<%s>/\n' "$uid" "$pod" "${uid//-/_}" "$pod"
    for container in $containers; do
      id=${container%=*}
      printf 's/%s/<%s>/\n' "${id##*/}" "${container#*=}"
    done
  done)
cd /sys/fs/cgroup
find . -type d -path './kubepods*' | while read -r group; do
  for file in "${files[@]}"; do
    [ -e "$group/$file" ] || continue
    printf '%s %s %s\n' "${group#.}" "$file" "$(cat "$group/$file")"
  done
done | sed -e "$names" -e 's/[0-9a-f]\{64\}/<sandbox>/' | sort
