# Quotas, disruption budgets, autoscaling.
# shellcheck shell=bash
does 'a quota' create quota few --hard=pods=2,configmaps=3,count/secrets=1
field 'counts what is there' resourcequota/few .status.used.configmaps 1
does 'a Deployment of three' create deployment web --image "$IMAGE" --replicas 3 -- sleep infinity
field 'has two pods' deployment/web .status.readyReplicas 2
field 'and says why not more' deployment/web '.status.conditions[?(@.type=="ReplicaFailure")].reason' FailedCreate
field 'the quota is used up' resourcequota/few .status.used.pods 2
does 'a secret' create secret generic one
refused 'a second one' 'exceeded quota' create secret generic two
does 'the first goes' delete secret one
field 'and is not counted' resourcequota/few '.status.used.count/secrets' 0
does 'so that a second one is admitted' create secret generic two
does 'the quota grows' patch quota few --patch '{"spec":{"hard":{"pods":"9"}}}'
field 'it is heeded' resourcequota/few .status.hard.pods 9
field 'the third pod comes' deployment/web .status.readyReplicas 3
applies 'a quota for pods without requests' <<'YAML'
{apiVersion: v1, kind: ResourceQuota, metadata: {name: best}, spec: {hard: {pods: "10"}, scopes: [BestEffort]}}
YAML
field 'counts them' resourcequota/best .status.used.pods 3
applies 'a quota for requests' <<'YAML'
{apiVersion: v1, kind: ResourceQuota, metadata: {name: requests}, spec: {hard: {requests.storage: 10Gi, services: "5"}}}
YAML
applies 'a claim' <<'YAML'
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim}, spec: {storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}
YAML
field 'is counted' resourcequota/requests '.status.used.requests\.storage' 2Gi
does 'the claim goes' delete persistentvolumeclaim claim
field 'and is not counted' resourcequota/requests '.status.used.requests\.storage' 0
k delete quota --all >/dev/null

does 'a budget' create poddisruptionbudget web --selector app=web --min-available 2
field 'allows one disruption' poddisruptionbudget/web .status.disruptionsAllowed 1
field 'knows the healthy pods' poddisruptionbudget/web .status.currentHealthy 3
does 'fewer pods' scale deployment web --replicas 2
count 'the third is gone' 2 pods --selector app=web
field 'it allows none' poddisruptionbudget/web .status.disruptionsAllowed 0
field 'and says so' poddisruptionbudget/web '.status.conditions[?(@.type=="DisruptionAllowed")].reason' InsufficientPods
pod=$(k get pods --selector app=web --output 'jsonpath={.items[0].metadata.name}')
printf '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s","namespace":"%s"}}' "$pod" "$namespace" >"$state/eviction"
refused 'an eviction is refused' 'disruption budget' create --raw "/api/v1/namespaces/$namespace/pods/$pod/eviction" --filename "$state/eviction"
does 'the budget is given in percent' patch poddisruptionbudget web --patch '{"spec":{"minAvailable":"50%"}}'
field 'it allows one' poddisruptionbudget/web .status.disruptionsAllowed 1
does 'the eviction is made' create --raw "/api/v1/namespaces/$namespace/pods/$pod/eviction" --filename "$state/eviction"
gone 'the pod goes' "pod/$pod"
field 'and is replaced' deployment/web .status.readyReplicas 2
field 'so that the budget allows one again' poddisruptionbudget/web .status.disruptionsAllowed 1

does 'an autoscaler' autoscale deployment web --min 3 --max 5 --cpu 50%
field 'brings the Deployment into its range' deployment/web .spec.replicas 3
field 'may scale' horizontalpodautoscaler/web '.status.conditions[?(@.type=="AbleToScale")].status' True
field 'but has no metrics' horizontalpodautoscaler/web '.status.conditions[?(@.type=="ScalingActive")].reason' FailedGetResourceMetric
event 'and says so' FailedGetResourceMetric web
does 'nothing is wanted' scale deployment web --replicas 0
field 'so that it is switched off' horizontalpodautoscaler/web '.status.conditions[?(@.type=="ScalingActive")].reason' ScalingDisabled
