//! Services, what stands behind them, and who may reach what.

use std::collections::BTreeSet;

use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, Column, NAME, SELECTOR, text};
use super::format;
use crate::object::{self, list_at, str_at};

/// The layouts of the groups `networking.k8s.io` and `discovery.k8s.io`, and the core group's part in them.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "Service" => &SERVICE,
        "Endpoints" => &ENDPOINTS,
        "EndpointSlice" => &ENDPOINT_SLICE,
        "Ingress" => &INGRESS,
        "IngressClass" => &INGRESS_CLASS,
        "NetworkPolicy" => &NETWORK_POLICY,
        "ServiceCIDR" => &SERVICE_CIDR,
        "IPAddress" => &IP_ADDRESS,
        _ => return None,
    })
}

static SERVICE: BuiltIn = BuiltIn {
    columns: &[NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE, SELECTOR],
    cells: |service, now| {
        let addresses = list_at(service, "spec.clusterIPs");
        let address = addresses.first().and_then(Value::as_str).or_else(|| str_at(service, "spec.clusterIP"));
        vec![
            format::name(service),
            format::text(service, "spec.type"),
            address.filter(|address| !address.is_empty()).unwrap_or("<none>").into(),
            external_addresses(service).into(),
            ports(service).into(),
            format::age(service, now),
            format::labels(service, "spec.selector").into(),
        ]
    },
};

fn ports(service: &Value) -> String {
    let port = |port: &Value| {
        let number = format::int(port, "port");
        let protocol = str_at(port, "protocol").unwrap_or_default();
        match format::int(port, "nodePort") {
            0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    };
    let ports: Vec<String> = list_at(service, "spec.ports").iter().map(port).collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn external_addresses(service: &Value) -> String {
    let external = list_at(service, "spec.externalIPs").iter().filter_map(Value::as_str);
    let (mut all, otherwise) = match str_at(service, "spec.type").unwrap_or_default() {
        "ClusterIP" | "NodePort" => (Vec::new(), "<none>"),
        "LoadBalancer" => (balancer_addresses(service), "<pending>"),
        "ExternalName" => return object::text_at(service, "spec.externalName"),
        _ => return "<unknown>".to_owned(),
    };
    all.extend(external.map(str::to_owned));
    if all.is_empty() { otherwise.to_owned() } else { all.join(",") }
}

/// Where a load balancer can be reached, sorted.
fn balancer_addresses(object: &Value) -> Vec<String> {
    let address = |ingress: &Value| {
        let texts = ["ip", "hostname"].map(|name| object::text_at(ingress, name));
        texts.into_iter().find(|text| !text.is_empty())
    };
    let addresses: BTreeSet<String> =
        list_at(object, "status.loadBalancer.ingress").iter().filter_map(address).collect();
    addresses.into_iter().collect()
}

static ENDPOINTS: BuiltIn = BuiltIn {
    columns: &[NAME, text("Endpoints"), AGE],
    cells: |endpoints, now| {
        let mut all = Vec::new();
        for subset in list_at(endpoints, "subsets") {
            let addresses = list_at(subset, "addresses");
            let ips = || format::texts(addresses, "ip").into_iter();
            match list_at(subset, "ports") {
                // A service without ports has addresses all the same.
                [] => all.extend(ips().map(str::to_owned)),
                ports => {
                    for port in ports {
                        let port = format::int(port, "port");
                        all.extend(ips().map(|ip| {
                            if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                        }));
                    }
                }
            }
        }
        // With subsets but no address in them nothing is shown, not even that there is nothing.
        let otherwise = if list_at(endpoints, "subsets").is_empty() { "<none>" } else { "" };
        let shown = format::first_three(&all, otherwise);
        vec![format::name(endpoints), shown.into(), format::age(endpoints, now)]
    },
};

static ENDPOINT_SLICE: BuiltIn = BuiltIn {
    columns: &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE],
    cells: |slice, now| {
        let port = |port: &Value| match (object::int_at(port, "port"), str_at(port, "name")) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        };
        let ports: Vec<String> = list_at(slice, "ports").iter().map(port).collect();
        let endpoints = list_at(slice, "endpoints").iter();
        let addresses = endpoints.flat_map(|endpoint| list_at(endpoint, "addresses"));
        let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
        let shown = |list: &[String]| {
            let shown = format::first_three(list, "");
            Value::from(if shown.is_empty() { "<unset>".to_owned() } else { shown })
        };
        vec![
            format::name(slice),
            format::text(slice, "addressType"),
            shown(&ports),
            shown(&addresses),
            format::age(slice, now),
        ]
    },
};

static INGRESS: BuiltIn = BuiltIn {
    columns: &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE],
    cells: |ingress, now| {
        let ports = if list_at(ingress, "spec.tls").is_empty() { "80" } else { "80, 443" };
        vec![
            format::name(ingress),
            str_at(ingress, "spec.ingressClassName").unwrap_or("<none>").into(),
            hosts(ingress).into(),
            balancer_addresses(ingress).join(",").into(),
            ports.into(),
            format::age(ingress, now),
        ]
    },
};

/// The hosts of the first rules. Rules without a host count among those that are not shown.
fn hosts(ingress: &Value) -> String {
    const SHOWN: usize = 3;
    let rules = list_at(ingress, "spec.rules");
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == SHOWN;
        if let Some(host) = str_at(rule, "host").filter(|host| !more && !host.is_empty()) {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (_, true) => format!("{} + {} more...", shown.join(","), rules.len() - SHOWN),
        (_, false) => shown.join(","),
    }
}

static INGRESS_CLASS: BuiltIn = BuiltIn {
    columns: &[NAME, text("Controller"), text("Parameters"), AGE],
    cells: |class, now| {
        let mut name = object::text_at(class, "metadata.name");
        if format::annotation(class, "ingressclass.kubernetes.io/is-default-class") == Some("true") {
            name.push_str(" (default)");
        }
        let parameters = object::at(class, "spec.parameters").map(|parameters| {
            let text = |name| str_at(parameters, name);
            let group = text("apiGroup").map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", text("kind").unwrap_or_default(), text("name").unwrap_or_default())
        });
        vec![
            name.into(),
            format::text(class, "spec.controller"),
            parameters.unwrap_or_else(|| "<none>".to_owned()).into(),
            format::age(class, now),
        ]
    },
};

static NETWORK_POLICY: BuiltIn = BuiltIn {
    columns: &[NAME, text("Pod-Selector"), AGE],
    cells: |policy, now| {
        let selector = format::selector(policy, "spec.podSelector");
        vec![format::name(policy), selector, format::age(policy, now)]
    },
};

static SERVICE_CIDR: BuiltIn = BuiltIn {
    columns: &[NAME, text("CIDRs"), AGE],
    cells: |cidr, now| {
        let cidrs: Vec<&str> = list_at(cidr, "spec.cidrs").iter().filter_map(Value::as_str).collect();
        vec![format::name(cidr), cidrs.join(",").into(), format::age(cidr, now)]
    },
};

/// Upstream gives a third cell, the age, without a column: clients do not show it.
static IP_ADDRESS: BuiltIn = BuiltIn {
    columns: &[NAME, PARENT],
    cells: |address, now| {
        let parent = object::at(address, "spec.parentRef").map(|parent| {
            let text = |name| str_at(parent, name).filter(|text| !text.is_empty());
            let mut shown = text("resource").unwrap_or_default().to_lowercase();
            if let Some(group) = text("group") {
                shown = format!("{shown}.{}", group.to_lowercase());
            }
            for part in ["namespace", "name"].iter().filter_map(|name| text(name)) {
                shown = format!("{shown}/{part}");
            }
            shown
        });
        vec![
            format::name(address),
            parent.unwrap_or_else(|| "<none>".to_owned()).into(),
            format::age(address, now),
        ]
    },
};

const PARENT: Column = text("ParentRef");
