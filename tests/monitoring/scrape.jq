# Makes Prometheus's configuration from ServiceMonitors, as Prometheus's operator would: the endpoints behind the Services that
# a monitor selects, at the port that it names, with its relabelings. The input is the list of monitors. Debian's Prometheus is
# built without discovery by Kubernetes's API, so it finds the endpoints in the file that targets.jq writes.
#
# Arguments: api (the API server's host and port), token and targets (files), pod and address: pods whose address is `pod` are
# asked at `address`, since no kubelet gives the pods of this cluster an address that can be reached.

def with_token: {
  scheme: "https", tls_config: {insecure_skip_verify: true}, authorization: {type: "Bearer", credentials_file: $token}
};
def meta_label: "__meta_kubernetes_service_label_" + gsub("[^a-zA-Z0-9_]"; "_");
def snake_case: with_entries(.key |= gsub("(?<capital>[A-Z])"; "_" + (.capital | ascii_downcase)));

def scrape_config($monitor): .port as $port | with_token + {
  job_name: "\($monitor.metadata.name)/\($port)",
  metrics_path: .path,
  file_sd_configs: [{files: [$targets], refresh_interval: "1s"}],
  relabel_configs: (
    [{action: "keep", source_labels: ["__meta_kubernetes_namespace"], regex: ($monitor.spec.namespaceSelector.matchNames | join("|"))}]
    + [$monitor.spec.selector.matchLabels | to_entries[] | {action: "keep", source_labels: [.key | meta_label], regex: .value}]
    + [{action: "keep", source_labels: ["__meta_kubernetes_endpoint_port_name"], regex: $port}]
    + [{source_labels: ["__meta_kubernetes_namespace"], target_label: "namespace"},
       {source_labels: ["__meta_kubernetes_service_name"], target_label: "service"},
       {source_labels: ["__meta_kubernetes_pod_name"], target_label: "pod"},
       {source_labels: ["__meta_kubernetes_service_name"], target_label: "job"}]
    + [.relabelings[]? | snake_case]
    + [{source_labels: ["__address__"], regex: "\($pod):.*", target_label: "__address__", replacement: $address}]
  )
};

{
  global: {scrape_interval: "2s", evaluation_interval: "1s"},
  rule_files: ["rules/*.yaml"],
  scrape_configs: (
    [.items[] | . as $monitor | .spec.endpoints[] | scrape_config($monitor)]
    + [with_token + {job_name: "kube-apiserver", static_configs: [{targets: [$api]}]}]
  )
}
