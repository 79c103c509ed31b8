# Devices: claims that pods have to themselves, share, and lose to a taint.
# shellcheck shell=bash

# slice TAINTS: what a driver says of its three devices on the node.
slice() {
  cat <<YAML
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: day-devices}
spec:
  driver: day.example.com
  nodeName: node1
  pool: {name: node1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: one$1}
  - {name: two$1}
  - {name: three$1}
YAML
}
# renderer NAME CLAIM: a pod that uses a claim. No driver prepares the device, so it is scheduled and does not run.
renderer() {
  printf '{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 0, resourceClaims: [{name: gpu, %s}], containers: [{name: c, image: "%s", command: [sleep, infinity], resources: {claims: [{name: gpu}]}}]}}\n---\n' \
    "$1" "$2" "$IMAGE"
}
request='devices: {requests: [{name: one, exactly: {deviceClassName: day-devices}}]}'
applies 'a class of devices' <<'YAML'
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: day-devices}, spec: {selectors: [{cel: {expression: device.driver == "day.example.com"}}]}}
YAML
applies 'three devices of the node' < <(slice '')
applies 'a template for claims' <<YAML
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: own}, spec: {spec: {$request}}}
YAML
applies 'a pod with a claim of its own' < <(renderer alone 'resourceClaimTemplateName: own')
field 'is scheduled' pod/alone .spec.nodeName node1
claim=$(k get pod alone --output 'jsonpath={.status.resourceClaimStatuses[0].resourceClaimName}')
field 'its claim has a device' "resourceclaim/$claim" '.status.allocation.devices.results[0].driver' day.example.com
field 'for it alone' "resourceclaim/$claim" '.status.reservedFor[*].name' alone
field 'and is owned by it' "resourceclaim/$claim" '.metadata.ownerReferences[0].name' alone
applies 'a claim for pods to share' <<YAML
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: shared}, spec: {$request}}
YAML
field 'has no device while nobody uses it' resourceclaim/shared .status.allocation ''
applies 'two pods that share it' < <(renderer left 'resourceClaimName: shared'; renderer right 'resourceClaimName: shared')
shows 'it is reserved for both' '(left right|right left)' get resourceclaim shared --output 'jsonpath={.status.reservedFor[*].name}'
does 'one goes' delete pod left --grace-period 0 --force
field 'it is reserved for the other' resourceclaim/shared '.status.reservedFor[*].name' right
does 'the claim is to go' delete resourceclaim shared --wait=false
field 'but is held' resourceclaim/shared '.status.reservedFor[*].name' right
does 'the other goes too' delete pod right --grace-period 0 --force
gone 'and the claim' resourceclaim/shared
does 'the pod with a claim of its own goes' delete pod alone --grace-period 0 --force
gone 'with its claim' "resourceclaim/$claim"
applies 'a pod, once more' < <(renderer again 'resourceClaimTemplateName: own')
field 'has a device' pod/again .spec.nodeName node1
applies 'the driver taints its devices' < <(slice ', taints: [{key: day.example.com/broken, effect: NoExecute}]')
shows 'the pod is to go' '.*not found.*' get pod again
event 'because of the taint' DeviceTaintManagerEviction again
count 'and its claim with it' 0 resourceclaims
k delete resourceslice day-devices >/dev/null
k delete deviceclass day-devices >/dev/null
