{{/* The image with its digest, or else its tag. */}}
{{- define "steersman.image" -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}

{{/*
Applies the values to the Deployment `.object`, in place. Prints nothing.
*/}}
{{- define "steersman.deployment" -}}
{{- $values := .values }}
{{- $pod := .object.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $image := mergeOverwrite (dict "tag" .appVersion) (pick $values.image "repository" "digest") }}
{{- with $values.image.tag }}{{ $_ := set $image "tag" . }}{{ end }}
{{- $_ := set $container "image" (include "steersman.image" $image) }}
{{- with $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end }}
{{- $args := list }}
{{- range $container.args }}
{{- if hasPrefix "--controllers=" . }}
{{- $args = append $args (print "--controllers=" (join "," (required "controllers must name what to run" $values.controllers))) }}
{{- else }}
{{- $args = append $args . }}
{{- end }}
{{- end }}
{{- $_ := set $container "args" (concat $args $values.extraArgs) }}
{{- $_ := set $container "resources" $values.resources }}
{{- $_ := set .object.spec "replicas" $values.replicas }}
{{- $_ := set $pod "priorityClassName" $values.priorityClassName }}
{{- with $values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- with $values.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end }}
{{- with $values.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- $metadata := .object.spec.template.metadata }}
{{- $_ := set $metadata "labels" (merge $metadata.labels $values.podLabels) }}
{{- with $values.podAnnotations }}{{ $_ := set $metadata "annotations" . }}{{ end }}
{{- end }}

{{/*
Gives `.object`, the ClusterRole, the rules of the controllers that `.controllers` enables, in place. `.controllers` has the form of
`--controllers`: of several items that name a controller, the first one counts, and `*` is about controllers that no item names.
`.table` is what rules.yaml has. Prints nothing. Fails if the table lacks one of the controllers.
*/}}
{{- define "steersman.clusterRole" -}}
{{- $wanted := .controllers }}
{{- $unknown := list }}
{{- range without $wanted "*" }}{{ $unknown = append $unknown (trimPrefix "-" .) }}{{ end }}
{{- $rules := list }}
{{- range $row := .table.controllers }}
{{- $names := append $row.aliases $row.name }}
{{- $items := list }}
{{- range $item := $wanted }}
{{- if has (trimPrefix "-" $item) $names }}{{ $items = append $items $item }}{{ end }}
{{- end }}
{{- $enabled := and $row.byDefault (has "*" $wanted) }}
{{- with $items }}{{ $enabled = not (hasPrefix "-" (first .)) }}{{ end }}
{{- range $names }}{{ $unknown = without $unknown . }}{{ end }}
{{- if $enabled }}{{ $rules = concat $rules $row.rules }}{{ end }}
{{- end }}
{{- with $unknown }}{{ fail (print "controllers: steersman does not have " (join ", " .)) }}{{ end }}
{{- $_ := set .object "rules" (concat $rules .table.all.rules) }}
{{- end }}

{{/*
Applies the release's namespace and the values to `.object`, one of the base's objects, in place. Prints nothing.
The Lease is in kube-system, and so is what the secure port reads: the Role and the RoleBindings stay there.
*/}}
{{- define "steersman.object" -}}
{{- $object := .object }}
{{- $values := .values }}
{{- $labels := dict "app.kubernetes.io/name" "steersman" "app.kubernetes.io/component" "controller-manager" }}
{{- $_ := set $object.metadata "labels" $labels }}
{{- if and $object.metadata.namespace (not (hasPrefix "Role" $object.kind)) }}
{{- $_ := set $object.metadata "namespace" .namespace }}
{{- end }}
{{- range $object.subjects }}
{{- if eq .name "steersman-controller-manager" }}{{ $_ := set . "namespace" $.namespace }}
{{- else }}{{ $_ := set . "name" $values.metricsReader.name }}{{ $_ := set . "namespace" $values.metricsReader.namespace }}
{{- end }}
{{- end }}
{{- if eq $object.kind "ClusterRole" }}
{{- include "steersman.clusterRole" (dict "object" $object "controllers" $values.controllers "table" .table) }}
{{- end }}
{{- if eq $object.kind "Deployment" }}{{ include "steersman.deployment" . }}{{ end }}
{{- if eq $object.kind "NetworkPolicy" }}
{{- $ports := list }}
{{- range $values.networkPolicy.apiServerPorts }}{{ $ports = append $ports (dict "port" . "protocol" "TCP") }}{{ end }}
{{- $_ := set (first $object.spec.egress) "ports" $ports }}
{{- end }}
{{- end }}

{{/*
Applies the release's namespace and the values to `.object`, one of the objects of manifests/monitoring, in place. Prints nothing.
*/}}
{{- define "steersman.monitoring" -}}
{{- $object := .object }}
{{- $values := .values }}
{{- if $object.metadata.namespace }}{{ $_ := set $object.metadata "namespace" .namespace }}{{ end }}
{{- with $values.monitoring.labels }}
{{- $_ := set $object.metadata "labels" (merge ($object.metadata.labels | default dict) .) }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "name" $values.metricsReader.name }}{{ $_ := set . "namespace" $values.metricsReader.namespace }}
{{- end }}
{{- if eq $object.kind "ServiceMonitor" }}
{{- $_ := set $object.spec.namespaceSelector "matchNames" (list .namespace) }}
{{- end }}
{{- end }}
