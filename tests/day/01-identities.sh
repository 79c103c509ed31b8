# Namespaces, service accounts and their tokens, roles, certificates.
# shellcheck shell=bash
field 'a namespace has its service account' serviceaccount/default .metadata.name default
field 'and the certificate of the cluster' configmap/kube-root-ca.crt '.data.ca\.crt' '-----BEGIN CERTIFICATE.*'
does 'somebody deletes the service account' delete serviceaccount default
field 'it is made anew' serviceaccount/default .metadata.name default
does 'somebody deletes the certificate' delete configmap kube-root-ca.crt
field 'it is published anew' configmap/kube-root-ca.crt '.data.ca\.crt' '-----BEGIN.*'
does 'somebody spoils the certificate' patch configmap kube-root-ca.crt --patch '{"data":{"ca.crt":"spoilt"}}'
field 'it is put right' configmap/kube-root-ca.crt '.data.ca\.crt' '-----BEGIN.*'
does 'a service account for a robot' create serviceaccount robot
applies 'a secret for its token' <<'YAML'
{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: robot-token, annotations: {kubernetes.io/service-account.name: robot}}}
YAML
field 'the token is filled in' secret/robot-token .data.token '[A-Za-z0-9+/=]{200,}'
field 'and the namespace' secret/robot-token .data.namespace "$(printf %s "$namespace" | base64)"
token=$(k get secret robot-token --output 'jsonpath={.data.token}' | base64 -d)
shows 'the API server knows who has the token' "system:serviceaccount:$namespace:robot" --kubeconfig /dev/null \
  --server "$(k config view --output 'jsonpath={.clusters[0].cluster.server}')" --insecure-skip-tls-verify --token "$token" \
  auth whoami --output 'jsonpath={.status.userInfo.username}'
does 'the robot goes' delete serviceaccount robot
gone 'and its token with it' secret/robot-token
applies 'a token for a service account that does not exist' <<'YAML'
{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: stray-token, annotations: {kubernetes.io/service-account.name: none}}}
YAML
gone 'it is cleaned up' secret/stray-token
applies 'a role that aggregates others' <<'YAML'
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: day-all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {day: "yes"}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: day-pods, labels: {day: "yes"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
YAML
field 'it has their rules' clusterrole/day-all '.rules[*].resources[*]' pods
does 'one more role, for nodes' create clusterrole day-nodes --verb get --resource nodes
does 'it is to be aggregated too' label clusterrole day-nodes day=yes
field 'the rules follow' clusterrole/day-all '.rules[*].resources[*]' 'nodes pods'
does 'one loses its label' label clusterrole day-pods day-
field 'and its rules go' clusterrole/day-all '.rules[*].resources[*]' nodes
field 'the built-in roles are filled in' clusterrole/view '.rules[0].verbs[0]' '.+'
k delete clusterrole day-all day-pods day-nodes >/dev/null

# request NAME SIGNER USAGE: a request for a certificate.
request() {
  openssl req -newkey rsa:2048 -nodes -subj "/O=people/CN=$1" -keyout /dev/null 2>/dev/null | base64 -w0 >"$state/csr"
  cat <<YAML
{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: $1}, spec: {signerName: $2, usages: [$3], request: $(cat "$state/csr")}}
YAML
}
applies 'somebody asks for a certificate' < <(request day-jane kubernetes.io/kube-apiserver-client client\ auth)
does 'it is approved' certificate approve day-jane
field 'and issued' csr/day-jane .status.certificate '[A-Za-z0-9+/=]{200,}'
applies 'somebody asks for another' < <(request day-joe kubernetes.io/kube-apiserver-client client\ auth)
does 'that is denied' certificate deny day-joe
applies 'a request with a usage that the signer does not allow' < <(request day-odd kubernetes.io/kube-apiserver-client server\ auth)
does 'that is approved' certificate approve day-odd
field 'is failed by the signer' csr/day-odd '.status.conditions[*].type' '.*Failed.*'
field 'and the denied one has no certificate' csr/day-joe .status.certificate ''
k delete csr day-jane day-joe day-odd >/dev/null

namespace=kube-public applies 'the public part of the cluster' <<'YAML'
{apiVersion: v1, kind: ConfigMap, metadata: {name: cluster-info}, data: {kubeconfig: "apiVersion: v1"}}
YAML
namespace=kube-system applies 'a bootstrap token' <<'YAML'
{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token, metadata: {name: bootstrap-token-abcdef},
 stringData: {token-id: abcdef, token-secret: 0123456789abcdef, usage-bootstrap-signing: "true", expiration: "2040-01-01T00:00:00Z"}}
YAML
shows 'the public part is signed with the token' 'eyJ.*' get configmap cluster-info --namespace kube-public \
  --output 'jsonpath={.data.jws-kubeconfig-abcdef}'
does 'the token expires' patch secret bootstrap-token-abcdef --namespace kube-system --patch '{"stringData":{"expiration":"2001-01-01T00:00:00Z"}}'
gone 'it is cleaned up' secret/bootstrap-token-abcdef --namespace kube-system
shows 'and its signature too' '' get configmap cluster-info --namespace kube-public --output 'jsonpath={.data.jws-kubeconfig-abcdef}'
