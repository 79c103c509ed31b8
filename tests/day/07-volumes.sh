# Volumes, claims, what protects them, attachments.
# shellcheck shell=bash

# volume NAME SIZE CLASS MORE: a volume on this machine.
volume() {
  printf '{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s, labels: {day: %s}}, spec: {capacity: {storage: %s}, storageClassName: "%s", accessModes: [ReadWriteOnce], hostPath: {path: %s}%s}}\n---\n' \
    "$1" "$1" "$2" "$3" "$state/$1" "${4:+, $4}"
}
# claim NAME SIZE CLASS MORE
claim() {
  printf '{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {accessModes: [ReadWriteOnce]%s, resources: {requests: {storage: %s}}%s}}\n---\n' \
    "$1" "${3:+, storageClassName: $3}" "$2" "${4:+, $4}"
}
# user NAME CLAIM: a pod that uses a claim.
user() {
  printf '{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 0, volumes: [{name: v, persistentVolumeClaim: {claimName: %s}}], containers: [{name: c, image: "%s", command: [sleep, infinity], volumeMounts: [{name: v, mountPath: /v}]}]}}\n---\n' \
    "$1" "$2" "$IMAGE"
}
applies 'volumes of two sizes' < <(volume day-small 1Gi manual; volume day-big 5Gi manual)
applies 'a claim' < <(claim data 1Gi manual)
field 'is bound' pvc/data .status.phase Bound
field 'to the smallest volume that fits' pvc/data .spec.volumeName day-small
field 'which is bound to it' pv/day-small .spec.claimRef.name data
field 'and says so' pv/day-small .status.phase Bound
field 'both are protected' pvc/data .metadata.finalizers '.*pvc-protection.*'
field 'the volume too' pv/day-small .metadata.finalizers '.*pv-protection.*'
applies 'a claim for more' < <(claim more 3Gi manual)
field 'gets the other' pvc/more .spec.volumeName day-big
applies 'a claim that nothing fits' < <(claim huge 50Gi manual)
event 'waits, with an event' 'FailedBinding|ProvisioningFailed' huge
applies 'a volume that fits' < <(volume day-huge 50Gi manual)
field 'binds it' pvc/huge .status.phase Bound
applies 'a claim with a selector' < <(volume day-one 1Gi chosen; volume day-two 1Gi chosen; claim chosen 1Gi chosen 'selector: {matchLabels: {day: day-two}}')
field 'gets the volume that it selects' pvc/chosen .spec.volumeName day-two
applies 'a claim that names its volume' < <(claim named 1Gi chosen 'volumeName: day-one')
field 'gets it' pvc/named .status.phase Bound
applies 'a pod that uses a claim' < <(user holder data)
field 'runs' pod/holder .status.phase Running
does 'the claim is to go' delete pvc data --wait=false
field 'but is held' pvc/data .status.phase Bound
does 'the pod goes' delete pod holder
gone 'and the claim with it' pvc/data
field 'the volume is kept' pv/day-small .status.phase Released
does 'and is not for another' get pv day-small
does 'a bound volume is to go' delete pv day-big --wait=false
field 'it is held' pv/day-big .status.phase Bound
does 'until its claim goes' delete pvc more
gone 'then it goes' pv/day-big
does 'a volume vanishes' patch pv day-huge --type merge --patch '{"metadata":{"finalizers":null}}'
k delete pv day-huge --wait=false >/dev/null
k patch pv day-huge --type merge --patch '{"metadata":{"finalizers":null}}' >/dev/null 2>&1 || true
field 'its claim is lost' pvc/huge .status.phase Lost
event 'and says so' ClaimLost huge

applies 'a class that waits for the first pod' <<'YAML'
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: late}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
YAML
applies 'a volume and a claim of it' < <(volume day-late 1Gi late 'nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}}'; claim late 1Gi late)
event 'wait' WaitForFirstConsumer late
field 'the claim has no volume' pvc/late .status.phase Pending
applies 'a pod that uses it' < <(user consumer late)
field 'is scheduled with the volume' pvc/late .status.phase Bound
field 'and runs' pod/consumer .status.phase Running

applies 'a class of a provisioner outside' <<'YAML'
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: outside}, provisioner: example.com/disks, allowVolumeExpansion: true}
YAML
applies 'a claim of it' < <(claim made 1Gi outside)
event 'waits for the provisioner' ExternalProvisioning made
field 'which it names' pvc/made '.metadata.annotations.volume\.kubernetes\.io/storage-provisioner' example.com/disks
applies 'the provisioner makes a volume' <<YAML
{apiVersion: v1, kind: PersistentVolume, metadata: {name: day-made, annotations: {pv.kubernetes.io/provisioned-by: example.com/disks}}, spec: {capacity: {storage: 1Gi}, storageClassName: outside, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Delete, csi: {driver: disks.example.com, volumeHandle: made}, claimRef: {namespace: $namespace, name: made, uid: $(k get pvc made --output 'jsonpath={.metadata.uid}'), apiVersion: v1, kind: PersistentVolumeClaim}}}
YAML
field 'the claim is bound to it' pvc/made .status.phase Bound
does 'more is wanted' patch pvc made --patch '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'
event 'that is left to a resizer outside' ExternalExpanding made
does 'the claim goes' delete pvc made
field 'the volume is released, for its provisioner to delete' pv/day-made .status.phase Released
applies 'a claim without a class' < <(claim plain 1Gi '')
field 'waits' pvc/plain .status.phase Pending
does 'a class becomes the default' annotate storageclass outside storageclass.kubernetes.io/is-default-class=true
field 'it is the claim'"'"'s now' pvc/plain .spec.storageClassName outside
applies 'a pod with a volume of its own' <<YAML
{apiVersion: v1, kind: Pod, metadata: {name: owner}, spec: {containers: [{name: c, image: "$IMAGE", command: [sleep, infinity]}], volumes: [{name: own, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: outside, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]}}
YAML
field 'has a claim, which it owns' pvc/owner-own '.metadata.ownerReferences[0].name' owner
does 'the pod goes' delete pod owner --grace-period 0 --force
gone 'with its claim' pvc/owner-own

applies 'a volume to be attached, on a node without a kubelet' <<YAML
{apiVersion: v1, kind: Node, metadata: {name: day-attach, annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: attach.example.com}, spec: {attachRequired: true}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: day-csi}, spec: {capacity: {storage: 1Gi}, storageClassName: attach, accessModes: [ReadWriteOnce], csi: {driver: attach.example.com, volumeHandle: disk-1}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: attached}, spec: {storageClassName: attach, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: far}, spec: {nodeName: day-attach, tolerations: [{operator: Exists}], terminationGracePeriodSeconds: 0, volumes: [{name: v, persistentVolumeClaim: {claimName: attached}}], containers: [{name: c, image: "$IMAGE"}]}}
YAML
attachment=csi-$(printf 'disk-1attach.example.comday-attach' | sha256sum | cut -d' ' -f1)
field 'it is asked to be attached' "volumeattachment/$attachment" .spec.source.persistentVolumeName day-csi
does 'the driver attaches it' patch volumeattachment "$attachment" --subresource status --type merge --patch '{"status":{"attached":true}}'
field 'the node shows it' node/day-attach '.status.volumesAttached[0].name' 'kubernetes.io/csi/attach.example.com\^disk-1'
event 'and the pod is told' SuccessfulAttachVolume far
does 'the pod goes' delete pod far --grace-period 0 --force
gone 'the volume is detached' "volumeattachment/$attachment"
field 'and the node shows none' node/day-attach .status.volumesAttached ''
k delete node day-attach >/dev/null
k delete storageclass late outside >/dev/null
