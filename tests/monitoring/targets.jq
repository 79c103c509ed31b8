# Makes Prometheus's targets of the endpoints of a namespace, with the labels that its discovery by Kubernetes's API gives them. The
# inputs are the lists of Services and of Endpoints.

def meta_labels: with_entries(.key |= "__meta_kubernetes_service_label_" + gsub("[^a-zA-Z0-9_]"; "_"));

(input.items | map({key: .metadata.name, value: .metadata}) | from_entries) as $services
| [
    input.items[] | .metadata.name as $name | select($services[$name]) | .subsets[]?
    | .ports[] as $port
    | (.addresses + .notReadyAddresses)[] as $address
    | {
        targets: ["\($address.ip):\($port.port)"],
        labels: (($services[$name].labels // {} | meta_labels) + {
          __meta_kubernetes_namespace: $services[$name].namespace,
          __meta_kubernetes_service_name: $name,
          __meta_kubernetes_endpoint_port_name: ($port.name // ""),
          __meta_kubernetes_pod_name: ($address.targetRef.name // "")
        })
      }
  ]
