// Selects from kubernetes-mixin what names a series of kube-controller-manager. README.md says how to run it.
local mixin = import 'mixin.libsonnet';
local alerts = ['KubeVersionMismatch', 'KubeClientErrors', 'KubeControllerManagerDown', 'KubeControllerManagerInstanceUnreachable'];
local wanted(rule) = std.objectHas(rule, 'alert') && std.member(alerts, rule.alert);
local groups = [group { rules: std.filter(wanted, group.rules) } for group in mixin.prometheusAlerts.groups];
local dashboard = mixin.grafanaDashboards['controller-manager.json'];
{
  'alerts.yaml': '# Rendered from kubernetes-mixin; see README.md.\n' +
                 std.manifestYamlDoc({ groups: [group for group in groups if group.rules != []] }, quote_keys=false),
  'dashboard.json': std.manifestJsonEx({
    title: dashboard.title,
    variables: [variable.query for variable in dashboard.templating.list if variable.type == 'query'],
    panels: [{ title: panel.title, expressions: [target.expr for target in panel.targets] } for panel in dashboard.panels],
  }, '  ') + '\n',
}
