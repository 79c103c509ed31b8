# Owners and what they own; kinds that come and go; namespaces that go.
# shellcheck shell=bash
does 'a config map' create configmap parent
uid=$(k get configmap parent --output 'jsonpath={.metadata.uid}')
owned() { printf '{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s%s}]}}\n---\n' "$1" "$2" "$3" "${4:-}"; }
applies 'two that it owns' < <(owned child-1 parent "$uid"; owned child-2 parent "$uid")
does 'it goes' delete configmap parent
gone 'and they go' configmap/child-1 configmap/child-2
applies 'one whose owner never was' < <(owned orphan none 00000000-0000-0000-0000-000000000000)
gone 'goes too' configmap/orphan
does 'a parent' create configmap parent
uid=$(k get configmap parent --output 'jsonpath={.metadata.uid}')
applies 'with a child' < <(owned child parent "$uid")
does 'the parent goes, the child is to stay' delete configmap parent --cascade=orphan
field 'it stays, without an owner' configmap/child .metadata.ownerReferences ''
does 'a parent' create configmap first
does 'and another' create configmap second
one=$(k get configmap first --output 'jsonpath={.metadata.uid}') two=$(k get configmap second --output 'jsonpath={.metadata.uid}')
applies 'with a child of both' <<YAML
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: first, uid: $one}, {apiVersion: v1, kind: ConfigMap, name: second, uid: $two}]}}
YAML
does 'one of them goes' delete configmap first
field 'the child is the other'"'"'s' configmap/shared '.metadata.ownerReferences[*].name' second
does 'the other goes, after its children' delete configmap second --cascade=foreground --timeout 60s
gone 'and the child' configmap/shared
applies 'a kind of its own' <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.day.example.com}
spec:
  group: day.example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
YAML
does 'is established' wait --for condition=Established crd/widgets.day.example.com --timeout 60s
printf '{apiVersion: day.example.com/v1, kind: Widget, metadata: {name: w}}' | applies 'an object of it'
uid=$(k get widgets.day.example.com w --output 'jsonpath={.metadata.uid}')
applies 'that owns a config map' <<YAML
{apiVersion: v1, kind: ConfigMap, metadata: {name: of-widget, ownerReferences: [{apiVersion: day.example.com/v1, kind: Widget, name: w, uid: $uid}]}}
YAML
does 'the object goes' delete widgets.day.example.com w
gone 'and what it owned' configmap/of-widget
does 'a namespace full of things' create namespace day-full
k --namespace day-full create deployment web --image "$IMAGE" -- sleep infinity >/dev/null
k --namespace day-full create configmap held >/dev/null
k --namespace day-full patch configmap held --patch '{"metadata":{"finalizers":["day.example.com/hold"]}}' >/dev/null
printf '{apiVersion: day.example.com/v1, kind: Widget, metadata: {name: w}}' | namespace=day-full applies 'of that kind too'
does 'it is deleted' delete namespace day-full --wait=false
field 'it says what is left' namespace/day-full '.status.conditions[?(@.type=="NamespaceFinalizersRemaining")].status' True
field 'and who holds it' namespace/day-full '.status.conditions[?(@.type=="NamespaceFinalizersRemaining")].message' '.*day.example.com/hold in 1 resource instances.*'
does 'the holder lets go' patch configmap held --namespace day-full --type merge --patch '{"metadata":{"finalizers":null}}'
gone 'and it goes' namespace/day-full
does 'the kind goes' delete crd widgets.day.example.com
gone 'with its objects' crd/widgets.day.example.com
