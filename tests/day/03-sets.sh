# StatefulSets and their claims, DaemonSets.
# shellcheck shell=bash
for n in 0 1 2; do
  printf '{apiVersion: v1, kind: PersistentVolume, metadata: {name: day-disk-%s}, spec: {storageClassName: day, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: %s}}}\n---\n' \
    "$n" "$state/disk-$n"
done | applies 'three volumes'
field 'that are available' persistentvolume/day-disk-2 .status.phase Available
applies 'a StatefulSet with claims' <<YAML
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Retain}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "$IMAGE", command: [sleep, infinity], volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - {metadata: {name: data}, spec: {storageClassName: day, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
YAML
field 'its pods come' statefulset/db .status.readyReplicas 2
field 'the first one is named' pod/db-0 .metadata.name db-0
field 'its claim is bound' persistentvolumeclaim/data-db-0 .status.phase Bound
field 'pods know their ordinal' pod/db-1 '.metadata.labels.apps\.kubernetes\.io/pod-index' 1
does 'a pod is deleted' delete pod db-0
field 'it comes again, under its name' pod/db-0 .status.phase Running
does 'one pod more' scale statefulset db --replicas 3
field 'comes' statefulset/db .status.readyReplicas 3
does 'one fewer' scale statefulset db --replicas 2
gone 'goes' pod/db-2
gone 'with its claim, as the policy says' persistentvolumeclaim/data-db-2
does 'a partition' patch statefulset db --patch '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}'
does 'another image' set image statefulset db "c=$OTHER_IMAGE"
field 'is rolled out above the partition' pod/db-1 '.spec.containers[0].image' "$OTHER_IMAGE"
field 'the pod there becomes ready' pod/db-1 '.status.conditions[?(@.type=="Ready")].status' True
field 'and not below it' pod/db-0 '.spec.containers[0].image' "$IMAGE"
does 'the partition goes' patch statefulset db --patch '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'
does 'the rest is rolled out' rollout status statefulset db --timeout 90s
count 'there are two revisions' 2 controllerrevisions --selector app=db
does 'back' rollout undo statefulset db
does 'is rolled out' rollout status statefulset db --timeout 90s
does 'the set is deleted' delete statefulset db
gone 'with its pods' pods --selector app=db
field 'the claims stay, as the policy says' persistentvolumeclaim/data-db-0 .status.phase Bound
k delete persistentvolumeclaims --all >/dev/null
field 'a volume without its claim is released' persistentvolume/day-disk-0 .status.phase Released
k delete persistentvolumes --selector '!x' --field-selector metadata.name!=none >/dev/null

applies 'a DaemonSet' <<YAML
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "$IMAGE", command: [sleep, infinity]}]
YAML
field 'it has a pod on the node' daemonset/agent .status.numberReady 1
does 'only on nodes with a label' patch daemonset agent --patch '{"spec":{"template":{"spec":{"nodeSelector":{"day":"yes"}}}}}'
field 'there are none' daemonset/agent .status.desiredNumberScheduled 0
gone 'so that its pod goes' pods --selector app=agent
does 'the node gets the label' label node node1 day=yes
field 'and the pod comes' daemonset/agent .status.numberReady 1
does 'another image' set image daemonset agent "c=$OTHER_IMAGE"
does 'is rolled out' rollout status daemonset agent --timeout 90s
does 'back' rollout undo daemonset agent
does 'is rolled out' rollout status daemonset agent --timeout 90s
shows 'with the first image' "$IMAGE" get pods --selector app=agent --output 'jsonpath={.items[*].spec.containers[0].image}'
k label node node1 day- >/dev/null
does 'the set is deleted' delete daemonset agent
gone 'with its pods' pods --selector app=agent
