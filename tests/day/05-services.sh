# Services, their Endpoints and EndpointSlices, addresses.
# shellcheck shell=bash
slices='go-template={{range .items}}{{range .endpoints}}{{if .conditions.ready}}{{.targetRef.name}} {{end}}{{end}}{{end}}'
does 'a Deployment' create deployment web --image "$IMAGE" --replicas 2 -- sleep infinity
does 'and a Service' expose deployment web --port 80 --target-port 8080
field 'the Endpoints have both pods' deployment/web .status.availableReplicas 2
shows 'in Endpoints' 'web-[^ ]+ web-[^ ]+' get endpoints web --output 'jsonpath={.subsets[*].addresses[*].targetRef.name}'
shows 'and in slices' 'web-[^ ]+ web-[^ ]+ ' get endpointslices --selector kubernetes.io/service-name=web --output "$slices"
does 'one pod fewer' scale deployment web --replicas 1
shows 'one endpoint fewer' 'web-[^ ]+' get endpoints web --output 'jsonpath={.subsets[*].addresses[*].targetRef.name}'
shows 'in slices too' 'web-[^ ]+ ' get endpointslices --selector kubernetes.io/service-name=web --output "$slices"
does 'another selector' patch service web --patch '{"spec":{"selector":{"app":"none"}}}'
shows 'no endpoints' '' get endpoints web --output 'jsonpath={.subsets}'
shows 'nor in slices' '' get endpointslices --selector kubernetes.io/service-name=web --output "$slices"
does 'the first selector again' patch service web --patch '{"spec":{"selector":{"app":"web"}}}'
shows 'the endpoint again' 'web-[^ ]+' get endpoints web --output 'jsonpath={.subsets[*].addresses[*].targetRef.name}'
does 'another port' patch service web --type json --patch '[{"op":"replace","path":"/spec/ports/0/targetPort","value":9090}]'
shows 'is published' 9090 get endpoints web --output 'jsonpath={.subsets[*].ports[*].port}'
shows 'in slices' 9090 get endpointslices --selector kubernetes.io/service-name=web --output 'jsonpath={.items[*].ports[*].port}'
applies 'a headless Service with named ports' <<'YAML'
{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 80}]}}
YAML
shows 'has a label on its slices' '.*headless.*' get endpointslices --selector kubernetes.io/service-name=headless --output 'jsonpath={.items[*].metadata.labels}'
shows 'and on its Endpoints' '.*headless.*' get endpoints headless --output 'jsonpath={.metadata.labels}'
applies 'a Service without a selector, and its Endpoints' <<'YAML'
{apiVersion: v1, kind: Service, metadata: {name: outside}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: outside}, subsets: [{addresses: [{ip: 192.0.2.7}], ports: [{port: 80}]}]}
YAML
shows 'are mirrored into a slice' 192.0.2.7 get endpointslices --selector kubernetes.io/service-name=outside --output 'jsonpath={.items[*].endpoints[*].addresses[*]}'
does 'another address' patch endpoints outside --type json --patch '[{"op":"replace","path":"/subsets/0/addresses/0/ip","value":"192.0.2.8"}]'
shows 'is mirrored' 192.0.2.8 get endpointslices --selector kubernetes.io/service-name=outside --output 'jsonpath={.items[*].endpoints[*].addresses[*]}'
does 'the Endpoints go' delete endpoints outside
count 'and the mirrored slice' 0 endpointslices --selector kubernetes.io/service-name=outside
applies 'a pod that is never ready' <<YAML
{apiVersion: v1, kind: Pod, metadata: {name: slow, labels: {app: slow}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "$IMAGE", command: [sleep, infinity], readinessProbe: {exec: {command: ["false"]}}}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: slow}, spec: {selector: {app: slow}, ports: [{port: 80}]}}
YAML
shows 'is an endpoint that is not ready' slow get endpoints slow --output 'jsonpath={.subsets[*].notReadyAddresses[*].targetRef.name}'
shows 'in slices too' false get endpointslices --selector kubernetes.io/service-name=slow --output 'jsonpath={.items[*].endpoints[*].conditions.ready}'
does 'such pods are to be published' patch service slow --patch '{"spec":{"publishNotReadyAddresses":true}}'
shows 'it is published as ready' slow get endpoints slow --output 'jsonpath={.subsets[*].addresses[*].targetRef.name}'
shows 'in slices too' true get endpointslices --selector kubernetes.io/service-name=slow --output 'jsonpath={.items[*].endpoints[*].conditions.ready}'
does 'a Service is deleted' delete service web
gone 'with its Endpoints' endpoints/web
count 'and its slices' 0 endpointslices --selector kubernetes.io/service-name=web
field 'the range of addresses is ready' servicecidr/kubernetes '.status.conditions[?(@.type=="Ready")].status' True
applies 'a further range' <<'YAML'
{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: day}, spec: {cidrs: [10.7.0.0/24]}}
YAML
field 'is ready' servicecidr/day '.status.conditions[?(@.type=="Ready")].status' True
applies 'a Service with an address of it' <<'YAML'
{apiVersion: v1, kind: Service, metadata: {name: far}, spec: {clusterIP: 10.7.0.9, ports: [{port: 80}]}}
YAML
does 'the range is to go' delete servicecidr day --wait=false
field 'it waits for the address' servicecidr/day '.status.conditions[?(@.type=="Ready")].reason' Terminating
does 'the Service goes' delete service far
gone 'and the range' servicecidr/day
