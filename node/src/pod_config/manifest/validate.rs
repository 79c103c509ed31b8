//! What is wrong with a manifest's pod: the API's rules, as far as a hand-written manifest is likely to break them. The
//! API server holds the mirror pod against all of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};
use steersman_api::names;

/// One field that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Fault {
    /// Such as `spec.containers[0].image`.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

pub(super) fn joined(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("; ")
}

/// All that is wrong with a pod that was filled in and named.
pub(super) fn faults(pod: &Pod) -> Vec<Fault> {
    let mut faults = Faults::default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    faults.each("metadata.name", name, names::subdomain(name));
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    faults.each("metadata.namespace", namespace, names::label(namespace));
    if let Some(spec) = &pod.spec {
        validate_spec(spec, &mut faults);
    }
    faults.0
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    /// All that is wrong with the value of a field, in upstream's words.
    fn each(&mut self, field: &str, value: &str, whys: Vec<String>) {
        for why in whys {
            self.add(field, format!("Invalid value: {value:?}: {why}"));
        }
    }

    fn add(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.0.push(Fault { field: field.into(), reason: reason.into() });
    }

    fn unless(&mut self, good: bool, field: impl Into<String>, reason: impl FnOnce() -> String) {
        if !good {
            self.add(field, reason());
        }
    }

    fn one_of(&mut self, value: Option<&str>, field: String, known: &[&str]) {
        let value = value.unwrap_or_default();
        self.unless(known.contains(&value), field, || {
            format!("{value:?} is not supported; supported values: {}", known.join(", "))
        });
    }

    fn port(&mut self, number: i32, field: String) {
        self.unless((1..=65_535).contains(&number), field, || {
            format!("{number} must be between 1 and 65535, inclusive")
        });
    }
}

fn validate_spec(spec: &PodSpec, faults: &mut Faults) {
    faults.unless(!spec.containers.is_empty(), "spec.containers", || "is required".to_owned());
    faults.one_of(
        spec.restart_policy.as_deref(),
        "spec.restartPolicy".to_owned(),
        &["Always", "OnFailure", "Never"],
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    faults.one_of(spec.dns_policy.as_deref(), "spec.dnsPolicy".to_owned(), &policies);
    if spec.dns_policy.as_deref() == Some("None") {
        let servers = spec.dns_config.as_ref().and_then(|config| config.nameservers.as_ref());
        let some = servers.is_some_and(|servers| !servers.is_empty());
        faults.unless(some, "spec.dnsConfig.nameservers", || {
            "at least one is needed when dnsPolicy is None".to_owned()
        });
    }
    for (field, text) in [("spec.hostname", &spec.hostname), ("spec.subdomain", &spec.subdomain)] {
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
            faults.each(field, text, names::label(text));
        }
    }
    let grace = spec.termination_grace_period_seconds.unwrap_or_default();
    faults.unless(grace >= 0, "spec.terminationGracePeriodSeconds", || "must not be negative".to_owned());
    if let Some(deadline) = spec.active_deadline_seconds {
        let fits = (1..=i64::from(i32::MAX)).contains(&deadline);
        faults.unless(fits, "spec.activeDeadlineSeconds", || {
            format!("{deadline} must be between 1 and {}, inclusive", i32::MAX)
        });
    }
    let ephemeral = spec.ephemeral_containers.as_ref().is_some_and(|containers| !containers.is_empty());
    faults
        .unless(!ephemeral, "spec.ephemeralContainers", || "cannot be set when a pod is created".to_owned());
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        faults.add("spec.shareProcessNamespace", "can't be enabled together with hostPID");
    }
    let volumes = validate_volumes(spec.volumes.as_deref().unwrap_or_default(), faults);
    let mut names = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (list, containers) in [("initContainers", init), ("containers", &spec.containers)] {
        for (at, container) in containers.iter().enumerate() {
            let path = format!("spec.{list}[{at}]");
            validate_container(container, &path, &volumes, faults);
            faults.unless(names.insert(container.name.as_str()), format!("{path}.name"), || {
                format!("{:?} is taken", container.name)
            });
            validate_ports(container, &path, &mut host_ports, faults);
        }
    }
}

fn validate_volumes<'a>(volumes: &'a [Volume], faults: &mut Faults) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (at, volume) in volumes.iter().enumerate() {
        let field = format!("spec.volumes[{at}].name");
        faults.each(&field, &volume.name, names::label(&volume.name));
        faults.unless(seen.insert(volume.name.as_str()), &field, || format!("{:?} is taken", volume.name));
        if let Some(host) = &volume.host_path {
            let field = format!("spec.volumes[{at}].hostPath.path");
            faults.unless(!host.path.is_empty(), &field, || "is required".to_owned());
            faults.unless(!host.path.split('/').any(|part| part == ".."), &field, || {
                "must not contain '..'".to_owned()
            });
        }
    }
    seen
}

fn validate_container(container: &Container, path: &str, volumes: &BTreeSet<&str>, faults: &mut Faults) {
    let name = &container.name;
    faults.each(&format!("{path}.name"), name, names::label(name));
    let image = container.image.as_deref().unwrap_or_default();
    faults.unless(!image.is_empty(), format!("{path}.image"), || "is required".to_owned());
    faults.unless(image.trim() == image, format!("{path}.image"), || {
        format!("{image:?} must not have blanks around it")
    });
    faults.one_of(
        container.image_pull_policy.as_deref(),
        format!("{path}.imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    );
    faults.one_of(
        container.termination_message_policy.as_deref(),
        format!("{path}.terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    for (at, variable) in container.env.iter().flatten().enumerate() {
        let field = format!("{path}.env[{at}]");
        faults.unless(!variable.name.is_empty(), format!("{field}.name"), || "is required".to_owned());
        faults.unless(!variable.name.contains('='), format!("{field}.name"), || {
            format!("{:?} must not contain '='", variable.name)
        });
        let value = variable.value.as_deref().unwrap_or_default();
        faults.unless(variable.value_from.is_none() || value.is_empty(), field, || {
            "may not have both a value and valueFrom".to_owned()
        });
    }
    let mut paths = BTreeSet::new();
    for (at, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let field = format!("{path}.volumeMounts[{at}]");
        faults.unless(volumes.contains(mount.name.as_str()), format!("{field}.name"), || {
            format!("there is no volume {:?}", mount.name)
        });
        faults
            .unless(!mount.mount_path.is_empty(), format!("{field}.mountPath"), || "is required".to_owned());
        faults.unless(paths.insert(&mount.mount_path), format!("{field}.mountPath"), || {
            format!("{:?} must be unique", mount.mount_path)
        });
    }
    if let Some(resources) = &container.resources {
        for (name, request) in resources.requests.iter().flatten() {
            let limit = resources.limits.as_ref().and_then(|limits| limits.get(name));
            let amount = |text: &str| text.parse::<steersman_api::Quantity>().ok();
            let (asked, limit) = (amount(&request.0), limit.and_then(|limit| amount(&limit.0)));
            let fits = limit.is_none_or(|limit| asked.is_none_or(|asked| asked <= limit));
            faults.unless(fits, format!("{path}.resources.requests"), || {
                format!("{:?} must be less than or equal to {name} limit", request.0)
            });
        }
    }
}

fn validate_ports(
    container: &Container,
    path: &str,
    host_ports: &mut BTreeSet<(String, String, i32)>,
    faults: &mut Faults,
) {
    for (at, port) in container.ports.iter().flatten().enumerate() {
        let field = format!("{path}.ports[{at}]");
        faults.port(port.container_port, format!("{field}.containerPort"));
        faults.one_of(port.protocol.as_deref(), format!("{field}.protocol"), &["TCP", "UDP", "SCTP"]);
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            faults.port(host_port, format!("{field}.hostPort"));
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let taken = !host_ports.insert((text(&port.protocol), text(&port.host_ip), host_port));
            faults.unless(!taken, format!("{field}.hostPort"), || format!("{host_port} is taken"));
        }
    }
}
