# Nodes that come, fall silent and go; what becomes of their pods. Devices.
# shellcheck shell=bash
field 'the node has a range of addresses for its pods' node/node1 .spec.podCIDR '10\.96\.[0-9]+\.0/24'
field 'and how long its secrets may be cached' node/node1 '.metadata.annotations.node\.alpha\.kubernetes\.io/ttl' 0
field 'it is not tainted' node/node1 .spec.taints ''
does 'the node is cordoned' cordon node1
field 'which is a taint' node/node1 '.spec.taints[*].key' node.kubernetes.io/unschedulable
does 'it is uncordoned' uncordon node1
field 'the taint goes' node/node1 .spec.taints ''
applies 'a node without a kubelet, and a pod on it' <<YAML
{apiVersion: v1, kind: Node, metadata: {name: day-ghost, labels: {kubernetes.io/os: linux}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: haunted}, spec: {nodeName: day-ghost, terminationGracePeriodSeconds: 0,
 tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 3}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 3}],
 containers: [{name: c, image: "$IMAGE"}]}}
YAML
field 'it gets a range too' node/day-ghost .spec.podCIDR '10\.96\.[0-9]+\.0/24'
field 'and labels of the old kind' node/day-ghost '.metadata.labels.beta\.kubernetes\.io/os' linux
k patch node day-ghost --subresource status --patch "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"KubeletReady\",\"lastHeartbeatTime\":\"$(date -u +%FT%TZ)\",\"lastTransitionTime\":\"$(date -u +%FT%TZ)\"}]}}" >/dev/null
field 'it is ready, and then silent' node/day-ghost '.status.conditions[?(@.type=="Ready")].status' Unknown
field 'which has a reason' node/day-ghost '.status.conditions[?(@.type=="Ready")].reason' NodeStatusUnknown
field 'and taints' node/day-ghost '.spec.taints[*].effect' '.*NoExecute.*'
shows 'with an event' '.*NodeNotReady.*' get events --namespace default --field-selector involvedObject.name=day-ghost --output 'jsonpath={.items[*].reason}'
shows 'its pod is to go' 'True|.*not found.*' get pod haunted --output 'jsonpath={.status.conditions[?(@.type=="DisruptionTarget")].status}'
event 'by the taint manager' TaintManagerEviction haunted
does 'the node goes' delete node day-ghost
gone 'and its pod with it' pod/haunted
applies 'a pod on a node that never was' <<YAML
{apiVersion: v1, kind: Pod, metadata: {name: lost}, spec: {nodeName: day-never, containers: [{name: c, image: "$IMAGE"}]}}
YAML
gone 'goes too' pod/lost
applies 'a node with a taint, and pods' <<YAML
{apiVersion: v1, kind: Pod, metadata: {name: tolerant}, spec: {tolerations: [{key: day, operator: Exists}], terminationGracePeriodSeconds: 0, containers: [{name: c, image: "$IMAGE", command: [sleep, infinity]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: proud}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "$IMAGE", command: [sleep, infinity]}]}}
YAML
field 'both run' pod/tolerant .status.phase Running
field 'here' pod/proud .status.phase Running
does 'the node is tainted' taint node node1 day=x:NoExecute
gone 'the one that does not tolerate it goes' pod/proud
field 'the other stays' pod/tolerant .status.phase Running
does 'the taint goes' taint node node1 day=x:NoExecute-
applies 'a pod that asks for a device' <<YAML
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: day}, spec: {}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: device}, spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: day}}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: rendering}, spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: device}], containers: [{name: c, image: "$IMAGE", resources: {claims: [{name: gpu}]}}]}}
YAML
field 'gets a claim' pod/rendering '.status.resourceClaimStatuses[0].resourceClaimName' 'rendering-gpu-.+'
count 'of its own' 1 resourceclaims
does 'the pod goes' delete pod rendering --grace-period 0 --force
count 'and the claim' 0 resourceclaims
k delete deviceclass day >/dev/null
