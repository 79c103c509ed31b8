//! How a pod's containers resolve names.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use super::resolv_conf::ResolvConf;
use crate::cri::v1;

/// The node's part in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsSettings {
    /// `clusterDNS`: the cluster's name servers. Default: none, and pods fall back to the node's.
    pub cluster_dns: Vec<IpAddr>,
    /// `clusterDomain`. Default: empty, and no domain of the cluster is searched.
    pub cluster_domain: String,
    /// `resolvConf`: the file that pods' settings begin with; `None` for nothing but a name server in the pod itself.
    /// Default: `/etc/resolv.conf`.
    pub resolv_conf: Option<PathBuf>,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            cluster_dns: Vec::new(),
            cluster_domain: String::new(),
            resolv_conf: Some("/etc/resolv.conf".into()),
        }
    }
}

/// What is to be told beside the settings, as a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// Of the pod: the event's reason and message.
    OfPod(&'static str, String),
    /// Of the node, likewise.
    OfNode(&'static str, String),
}

/// What a resolver takes: more is cut off.
const MAX_SERVERS: usize = 3;
/// Likewise.
pub(super) const MAX_SEARCHES: usize = 32;
/// Of all of them with a space between each two.
pub(super) const MAX_SEARCH_CHARS: usize = 2048;
/// Of one; some resolvers abort at longer ones.
pub(super) const MAX_SEARCH_LENGTH: usize = 253;

const FORMING: &str = "DNSConfigForming";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cluster,
    Host,
    None,
}

/// The DNS settings of a pod's sandbox on a node whose file says `host`, and what is to be complained of.
pub fn pod_dns(
    pod: &Pod,
    host: ResolvConf,
    settings: &DnsSettings,
    node_ips: &[String],
) -> (v1::DnsConfig, Vec<Complaint>) {
    let mut complaints = Vec::new();
    let mut kind = kind(pod);
    if kind == Kind::Cluster && settings.cluster_dns.is_empty() {
        complaints.extend(missing_cluster_dns(pod));
        kind = Kind::Host;
    }
    let ResolvConf { servers, searches, options } = host;
    let mut dns = match kind {
        Kind::None => v1::DnsConfig::default(),
        Kind::Cluster => v1::DnsConfig {
            servers: settings.cluster_dns.iter().map(ToString::to_string).collect(),
            searches: cluster_searches(pod, &settings.cluster_domain, searches),
            options: vec!["ndots:5".to_owned()],
        },
        Kind::Host if settings.resolv_conf.is_none() => v1::DnsConfig {
            servers: local_servers(servers, node_ips),
            searches: vec![".".to_owned()],
            options,
        },
        Kind::Host => v1::DnsConfig { servers, searches, options },
    };
    if let Some(own) = pod.spec.as_ref().and_then(|spec| spec.dns_config.as_ref()) {
        merge(&mut dns, own);
    }
    complaints.extend(cut_servers(&mut dns.servers));
    complaints.extend(cut_searches(&mut dns.searches));
    (dns, complaints)
}

fn kind(pod: &Pod) -> Kind {
    let spec = pod.spec.as_ref();
    let host_network = spec.and_then(|spec| spec.host_network) == Some(true);
    match spec.and_then(|spec| spec.dns_policy.as_deref()).unwrap_or_default() {
        "None" => Kind::None,
        "Default" => Kind::Host,
        "ClusterFirst" if host_network => Kind::Host,
        // ClusterFirst and ClusterFirstWithHostNet, and what is no policy.
        _ => Kind::Cluster,
    }
}

fn missing_cluster_dns(pod: &Pod) -> [Complaint; 2] {
    let reason = "MissingClusterDNS";
    let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                   Falling back to \"Default\" policy.";
    let name = crate::pod_text::pod_text(pod);
    [
        Complaint::OfNode(reason, message.to_owned()),
        Complaint::OfPod(reason, format!("pod: {name:?}. {message}")),
    ]
}

fn cluster_searches(pod: &Pod, domain: &str, host: Vec<String>) -> Vec<String> {
    if domain.is_empty() {
        return host;
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    searches.extend(host);
    once_each(searches)
}

/// Name servers in the pod itself, by the families of the node.
fn local_servers(mut servers: Vec<String>, node_ips: &[String]) -> Vec<String> {
    servers.extend(node_ips.iter().map(|ip| match ip.parse::<Ipv6Addr>() {
        Ok(_) => "::1".to_owned(),
        Err(_) => "127.0.0.1".to_owned(),
    }));
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    servers
}

/// Adds `dnsConfig`. An option of it takes the place of one of the same name.
fn merge(dns: &mut v1::DnsConfig, own: &PodDNSConfig) {
    dns.servers.extend(own.nameservers.iter().flatten().cloned());
    dns.searches.extend(own.searches.iter().flatten().cloned());
    dns.servers = once_each(std::mem::take(&mut dns.servers));
    dns.searches = once_each(std::mem::take(&mut dns.searches));
    let own = own.options.iter().flatten().map(|option| {
        let name = option.name.clone().unwrap_or_default();
        let value = option.value.clone().unwrap_or_default();
        (name, value)
    });
    let split = |option: &String| match option.split_once(':') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (option.clone(), String::new()),
    };
    let mut options: Vec<(String, String)> = Vec::new();
    for (name, value) in dns.options.iter().map(split).chain(own) {
        match options.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => options.push((name, value)),
        }
    }
    let joined =
        |(name, value): (String, String)| if value.is_empty() { name } else { format!("{name}:{value}") };
    dns.options = options.into_iter().map(joined).collect();
}

fn once_each(texts: Vec<String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    once
}

fn cut_servers(servers: &mut Vec<String>) -> Option<Complaint> {
    if servers.len() <= MAX_SERVERS {
        return None;
    }
    servers.truncate(MAX_SERVERS);
    let message = format!(
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
        servers.join(" ")
    );
    Some(Complaint::OfPod(FORMING, message))
}

fn cut_searches(searches: &mut Vec<String>) -> Option<Complaint> {
    let before = searches.len();
    searches.truncate(MAX_SEARCHES);
    searches.retain(|search| search.len() <= MAX_SEARCH_LENGTH);
    while line_length(searches) > MAX_SEARCH_CHARS {
        searches.pop();
    }
    (searches.len() < before).then(|| {
        let message = format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            searches.join(" ")
        );
        Complaint::OfPod(FORMING, message)
    })
}

/// Of all searches with a space between each two.
pub(super) fn line_length(searches: &[String]) -> usize {
    let chars: usize = searches.iter().map(|search| search.len() + 1).sum();
    chars.saturating_sub(1)
}

#[cfg(test)]
mod tests;
