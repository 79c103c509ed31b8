# Deployments, ReplicaSets, ReplicationControllers.
# shellcheck shell=bash
does 'a Deployment' create deployment web --image "$IMAGE" --replicas 2 -- sleep infinity
does 'its rollout ends' rollout status deployment web --timeout 90s
field 'its pods are there' deployment/web .status.availableReplicas 2
field 'it has a condition for its progress' deployment/web '.status.conditions[?(@.type=="Progressing")].reason' NewReplicaSetAvailable
event 'it says what it scaled' ScalingReplicaSet web
does 'more pods' scale deployment web --replicas 4
field 'they come' deployment/web .status.readyReplicas 4
does 'fewer pods' scale deployment web --replicas 2
count 'the others go' 2 pods --selector app=web
does 'another image' set image deployment web "*=$OTHER_IMAGE"
does 'is rolled out' rollout status deployment web --timeout 90s
count 'it has two ReplicaSets' 2 replicasets --selector app=web
shows 'its history has two revisions' '.*1 .*2 .*' rollout history deployment web
does 'back' rollout undo deployment web
does 'is rolled out too' rollout status deployment web --timeout 90s
field 'with the first image' deployment/web '.spec.template.spec.containers[0].image' "$IMAGE"
field 'as the third revision' deployment/web '.metadata.annotations.deployment\.kubernetes\.io/revision' 3
count 'and no further ReplicaSet' 2 replicasets --selector app=web
does 'a pause' rollout pause deployment web
does 'a change meanwhile' set env deployment web DAY=1
field 'is seen' deployment/web '.status.conditions[?(@.type=="Progressing")].reason' DeploymentPaused
count 'but not rolled out' 2 replicasets --selector app=web
does 'the end of the pause' rollout resume deployment web
does 'rolls it out' rollout status deployment web --timeout 90s
does 'a restart' rollout restart deployment web
does 'is rolled out' rollout status deployment web --timeout 90s
does 'a deadline for progress' patch deployment web --patch '{"spec":{"progressDeadlineSeconds":5}}'
does 'an image that does not exist' set image deployment web '*=example.invalid/none:1'
field 'the deadline passes' deployment/web '.status.conditions[?(@.type=="Progressing")].reason' ProgressDeadlineExceeded
field 'enough of the old pods are left' deployment/web .status.availableReplicas 2
does 'back again' rollout undo deployment web
does 'is well' rollout status deployment web --timeout 90s
does 'one pod is killed' delete pod --selector app=web --wait=false --field-selector "metadata.name=$(k get pods --selector app=web --output 'jsonpath={.items[0].metadata.name}')"
field 'and replaced' deployment/web .status.availableReplicas 2
does 'a Recreate strategy' patch deployment web --patch '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'
does 'with another image' set image deployment web "*=$OTHER_IMAGE"
does 'is rolled out' rollout status deployment web --timeout 90s
does 'a limit of the history' patch deployment web --patch '{"spec":{"revisionHistoryLimit":0}}'
count 'removes old ReplicaSets' 1 replicasets --selector app=web
does 'the Deployment is deleted, its children left' delete deployment web --cascade=orphan
field 'its ReplicaSet has no owner now' "$(k get replicaset --selector app=web --output name)" .metadata.ownerReferences ''
does 'the same Deployment again' create deployment web --image "$OTHER_IMAGE" --replicas 2 -- sleep infinity
field 'has its pods' deployment/web .status.availableReplicas 2
does 'it is deleted in the foreground' delete deployment web --cascade=foreground --timeout 90s
gone 'with all its pods' pods --selector app=web

applies 'a ReplicaSet' <<YAML
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: set}, spec: {replicas: 2, selector: {matchLabels: {set: a}},
 template: {metadata: {labels: {set: a}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "$IMAGE", command: [sleep, infinity]}]}}}}
YAML
field 'it has its pods' replicaset/set .status.readyReplicas 2
pod=$(k get pods --selector set=a --output 'jsonpath={.items[0].metadata.name}')
does 'a pod loses its label' label pod "$pod" set-
field 'it is released' "pod/$pod" .metadata.ownerReferences ''
field 'and replaced' replicaset/set .status.readyReplicas 2
does 'it gets the label back' label pod "$pod" set=a
count 'one is too many, and goes' 2 pods --selector set=a
does 'none are wanted' scale replicaset set --replicas 0
gone 'none are there' pods --selector set=a
applies 'a pod that matches' <<YAML
{apiVersion: v1, kind: Pod, metadata: {name: stray, labels: {set: a}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "$IMAGE", command: [sleep, infinity]}]}}
YAML
gone 'is adopted, and one too many' pod/stray
applies 'a ReplicationController' <<YAML
{apiVersion: v1, kind: ReplicationController, metadata: {name: old}, spec: {replicas: 1, selector: {rc: a},
 template: {metadata: {labels: {rc: a}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "$IMAGE", command: [sleep, infinity]}]}}}}
YAML
field 'it has its pod' replicationcontroller/old .status.readyReplicas 1
does 'it grows' scale replicationcontroller old --replicas 2
field 'as wanted' replicationcontroller/old .status.availableReplicas 2
does 'both go' delete replicationcontroller/old replicaset/set
gone 'with their pods' pods --selector 'rc'
