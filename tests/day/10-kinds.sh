# Kinds that no controller acts on, or only one that cleans up: all of them have owners, and go with them or with their namespace.
# shellcheck shell=bash

# object API KIND NAME REST: an object, with further fields.
object() { printf '{apiVersion: %s, kind: %s, metadata: {name: %s%s}%s}\n---\n' "$1" "$2" "$3" "${owner:+, ownerReferences: [$owner]}" "${4:+, $4}"; }
# reference API KIND NAME: an owner reference to an object.
reference() {
  printf '{apiVersion: %s, kind: %s, name: %s, uid: %s}' "$1" "$2" "$3" "$(k get "$2" "$3" --output 'jsonpath={.metadata.uid}')"
}
pod_spec="spec: {containers: [{name: c, image: \"$IMAGE\"}]}"
a_template="template: {metadata: {labels: {kinds: a}}, $pod_spec}"

# members: an object of each kind in a namespace.
members() {
  object v1 ConfigMap member
  object v1 Secret member
  object v1 ServiceAccount member
  object v1 LimitRange member 'spec: {limits: [{type: Container, defaultRequest: {cpu: 10m}}]}'
  object v1 ResourceQuota member 'spec: {hard: {services.loadbalancers: "1"}}'
  object v1 PodTemplate member "$a_template"
  object v1 Service member 'spec: {ports: [{port: 80}]}'
  object v1 Endpoints member-2
  object v1 PersistentVolumeClaim member 'spec: {storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}'
  object v1 ReplicationController member "spec: {replicas: 0, selector: {kinds: a}, $a_template}"
  object apps/v1 ReplicaSet member "spec: {replicas: 0, selector: {matchLabels: {kinds: a}}, $a_template}"
  object apps/v1 Deployment member "spec: {replicas: 0, selector: {matchLabels: {kinds: b}}, template: {metadata: {labels: {kinds: b}}, $pod_spec}}"
  object apps/v1 StatefulSet member "spec: {replicas: 0, serviceName: none, selector: {matchLabels: {kinds: a}}, $a_template}"
  object apps/v1 DaemonSet member "spec: {selector: {matchLabels: {kinds: a}}, template: {metadata: {labels: {kinds: a}}, spec: {nodeSelector: {day: never}, containers: [{name: c, image: \"$IMAGE\"}]}}}"
  object apps/v1 ControllerRevision member 'revision: 1, data: {a: b}'
  object batch/v1 Job member 'spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}}'
  object batch/v1 CronJob member 'spec: {suspend: true, schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}}}}'
  object autoscaling/v2 HorizontalPodAutoscaler member 'spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}'
  object policy/v1 PodDisruptionBudget member 'spec: {maxUnavailable: 1, selector: {matchLabels: {kinds: none}}}'
  object coordination.k8s.io/v1 Lease member 'spec: {holderIdentity: nobody}'
  object discovery.k8s.io/v1 EndpointSlice member 'addressType: IPv4, endpoints: []'
  object networking.k8s.io/v1 Ingress member 'spec: {defaultBackend: {service: {name: none, port: {number: 80}}}}'
  object networking.k8s.io/v1 NetworkPolicy member 'spec: {podSelector: {}}'
  object rbac.authorization.k8s.io/v1 Role member 'rules: []'
  object rbac.authorization.k8s.io/v1 RoleBinding member 'roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: member}'
  object resource.k8s.io/v1 ResourceClaimTemplate member 'spec: {spec: {}}'
  object resource.k8s.io/v1 ResourceClaim member 'spec: {}'
  object storage.k8s.io/v1 CSIStorageCapacity member 'storageClassName: none'
}
member_kinds=(configmap secret serviceaccount limitrange resourcequota podtemplate service persistentvolumeclaim
  replicationcontroller replicaset deployment statefulset daemonset controllerrevision job cronjob horizontalpodautoscaler
  poddisruptionbudget lease endpointslice ingress networkpolicy role rolebinding resourceclaimtemplate resourceclaim
  csistoragecapacity)

# globals: an object of each kind outside of namespaces.
globals() {
  local service='clientConfig: {url: "https://day.example.com"}, sideEffects: None, admissionReviewVersions: [v1]'
  local rule='rules: [{apiGroups: [day.example.com], apiVersions: [v1], operations: [CREATE], resources: [none]}]'
  object scheduling.k8s.io/v1 PriorityClass day-member 'value: 7'
  object node.k8s.io/v1 RuntimeClass day-member 'handler: none'
  object networking.k8s.io/v1 IngressClass day-member 'spec: {controller: example.com/none}'
  object networking.k8s.io/v1 ServiceCIDR day-member 'spec: {cidrs: [10.8.0.0/24]}'
  object rbac.authorization.k8s.io/v1 ClusterRole day-member 'rules: []'
  object rbac.authorization.k8s.io/v1 ClusterRoleBinding day-member 'roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: day-member}'
  object storage.k8s.io/v1 StorageClass day-member 'provisioner: example.com/none'
  object storage.k8s.io/v1 CSIDriver member.example.com
  object storage.k8s.io/v1 CSINode day-member 'spec: {drivers: []}'
  object storage.k8s.io/v1 VolumeAttributesClass day-member 'driverName: example.com/none, parameters: {a: b}'
  object v1 PersistentVolume day-member "spec: {capacity: {storage: 1Gi}, storageClassName: none, accessModes: [ReadWriteOnce], hostPath: {path: $state/day-member}}"
  object admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration day-member "webhooks: [{name: v.day.example.com, $service, $rule, failurePolicy: Ignore}]"
  object admissionregistration.k8s.io/v1 MutatingWebhookConfiguration day-member "webhooks: [{name: m.day.example.com, $service, $rule, failurePolicy: Ignore}]"
  object admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy day-member 'spec: {matchConstraints: {resourceRules: [{apiGroups: [day.example.com], apiVersions: [v1], operations: [CREATE], resources: [none]}]}, validations: [{expression: "true"}]}'
  object admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding day-member 'spec: {policyName: day-member, validationActions: [Audit]}'
  object flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration day-member 'spec: {type: Limited, limited: {nominalConcurrencyShares: 1, limitResponse: {type: Reject}}}'
  object flowcontrol.apiserver.k8s.io/v1 FlowSchema day-member 'spec: {priorityLevelConfiguration: {name: day-member}, matchingPrecedence: 9000}'
  object resource.k8s.io/v1 DeviceClass day-member 'spec: {}'
  object resource.k8s.io/v1 ResourceSlice day-member 'spec: {driver: day.example.com, pool: {name: p, generation: 1, resourceSliceCount: 1}, allNodes: true}'
  object apiregistration.k8s.io/v1 APIService v1.member.example.com 'spec: {group: member.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {namespace: default, name: none}}'
}
global_kinds=(priorityclass/day-member runtimeclass/day-member ingressclass/day-member servicecidr/day-member
  clusterrole/day-member clusterrolebinding/day-member storageclass/day-member csidriver/member.example.com csinode/day-member
  volumeattributesclass/day-member persistentvolume/day-member validatingwebhookconfiguration/day-member
  mutatingwebhookconfiguration/day-member validatingadmissionpolicy/day-member validatingadmissionpolicybinding/day-member
  prioritylevelconfiguration/day-member flowschema/day-member deviceclass/day-member resourceslice/day-member
  apiservice/v1.member.example.com)

owner=
does 'an owner' create configmap owner
owner=$(reference v1 ConfigMap owner)
applies 'an object of each kind that it owns' < <(members)
field 'a claim of them is protected' pvc/member .metadata.finalizers '.*pvc-protection.*'
field 'an unused claim is pending' pvc/member .status.phase Pending
field 'the quota of them is counted' resourcequota/member '.status.used.services\.loadbalancers' 0
field 'the suspended Job of them waits' job/member '.status.conditions[?(@.type=="Suspended")].status' True
field 'the autoscaler of them finds nothing to scale' horizontalpodautoscaler/member '.status.conditions[?(@.type=="AbleToScale")].reason' FailedGetScale
field 'the budget of them has no pods' poddisruptionbudget/member .status.expectedPods 0
does 'the owner goes' delete configmap owner
for kind in "${member_kinds[@]}"; do gone "its $kind goes" "$kind/member"; done

owner=
does 'an owner of the cluster' create clusterrole day-owner --verb get --resource pods
owner=$(reference rbac.authorization.k8s.io/v1 ClusterRole day-owner)
applies 'an object of each kind that it owns' < <(globals)
field 'a volume of them is protected' pv/day-member .metadata.finalizers '.*pv-protection.*'
field 'a volume that nobody claims is available' pv/day-member .status.phase Available
field 'a class of attributes is protected' volumeattributesclass/day-member .metadata.finalizers '.*vac-protection.*'
does 'that owner goes' delete clusterrole day-owner
for object in "${global_kinds[@]}"; do gone "its ${object%%/*} goes" "$object"; done

owner=
does 'a namespace' create namespace day-members
namespace=day-members
for _ in $(seq "$DEADLINE"); do k get serviceaccount default >/dev/null 2>&1 && break; sleep 1; done
applies 'with an object of each kind' < <(members)
namespace=day-kinds
does 'is deleted' delete namespace day-members --wait=false
gone 'and goes with all of them' namespace/day-members
