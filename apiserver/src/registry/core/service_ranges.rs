//! The ranges from which services get their addresses: those of the ServiceCIDRs that are ready.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use serde::Deserialize;
use steersman_api::ObjectKey;

use crate::store::Store;

/// The table of ServiceCIDRs.
pub(crate) const SERVICE_CIDRS: &str = "servicecidrs.networking.k8s.io";
/// The table of IPAddresses.
pub(crate) const IP_ADDRESSES: &str = "ipaddresses.networking.k8s.io";
/// The name of the ServiceCIDR that every cluster has.
pub(crate) const DEFAULT_SERVICE_CIDR: &str = "kubernetes";
/// The range of that ServiceCIDR.
pub(crate) const DEFAULT_RANGE: &str = "10.0.0.0/24";

/// The address of the service `kubernetes`, which other services get only if they ask for it.
const RESERVED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The ranges of all ServiceCIDRs that are ready and are not being deleted; first those of the default one.
pub(super) struct Ranges(Vec<IpNet>);

#[derive(Deserialize)]
struct ServiceCidr {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    cidrs: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl ServiceCidr {
    /// Whether services get addresses from its ranges. As upstream, one without the condition is ready: the cluster may have no
    /// controller of ServiceCIDRs.
    fn is_ready(&self) -> bool {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == "Ready");
        self.metadata.deletion_timestamp.is_none() && ready.is_none_or(|ready| ready.status == "True")
    }
}

impl Ranges {
    /// Reads the ServiceCIDRs.
    pub(super) fn ready(store: &Store) -> Self {
        let cidrs = store.snapshot(&SERVICE_CIDRS.into(), "", None).map(|snapshot| snapshot.objects);
        let mut cidrs = cidrs.unwrap_or_default();
        cidrs.sort_by_key(|cidr| cidr.key.name != DEFAULT_SERVICE_CIDR);
        let ready = cidrs.iter().filter_map(|cidr| cidr.read::<ServiceCidr>()).filter(ServiceCidr::is_ready);
        Self(ready.flat_map(|cidr| cidr.spec.cidrs).filter_map(|range| range.parse().ok()).collect())
    }

    /// Whether a service can have this address.
    pub(super) fn give(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| gives(range, address))
    }

    /// The first IPv4 address that is not in `taken` and that no IPAddress has.
    pub(super) fn free(&self, store: &Store, taken: &HashSet<String>) -> Option<Ipv4Addr> {
        let is_free = |address: &Ipv4Addr| {
            *address != RESERVED
                && !taken.contains(&address.to_string())
                && !is_taken(store, (*address).into())
        };
        self.0.iter().filter_map(v4).find_map(|range| {
            range.hosts().filter(|address| gives(&range.into(), (*address).into())).find(is_free)
        })
    }
}

fn v4(range: &IpNet) -> Option<Ipv4Net> {
    match range {
        IpNet::V4(range) => Some(*range),
        IpNet::V6(_) => None,
    }
}

/// Services get neither the first address of a range nor, of an IPv4 range, the last one.
fn gives(range: &IpNet, address: IpAddr) -> bool {
    range.contains(&address)
        && address != range.network()
        && !(address.is_ipv4() && address == range.broadcast())
}

/// Whether there is an IPAddress of that name.
pub(super) fn is_taken(store: &Store, address: IpAddr) -> bool {
    store.get(&IP_ADDRESSES.into(), &ObjectKey::new("", address.to_string())).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_service_cidr_gives_addresses_while_it_is_ready() {
        let condition = |kind: &str, status: &str| json!([{"type": kind, "status": status}]);
        for (conditions, deleted, ready) in [
            (json!([]), Value::Null, true),
            (condition("Ready", "True"), Value::Null, true),
            (condition("Ready", "False"), Value::Null, false),
            (condition("Ready", "Unknown"), Value::Null, false),
            (condition("Other", "False"), Value::Null, true),
            (condition("Ready", "True"), json!("2026-01-01T00:00:00Z"), false),
        ] {
            let cidr =
                json!({"metadata": {"deletionTimestamp": deleted}, "status": {"conditions": conditions}});
            let cidr: ServiceCidr = serde_json::from_value(cidr).unwrap();
            assert_eq!(cidr.is_ready(), ready, "{conditions} {deleted}");
        }
    }

    #[test]
    fn a_range_gives_all_addresses_but_its_bounds() {
        let first = |range: &str, taken: &[&str]| {
            let taken = taken.iter().map(|address| (*address).to_owned()).collect();
            let ranges = Ranges(range.split(' ').map(|range| range.parse().unwrap()).collect());
            ranges.free(&Store::new(1), &taken).map(|address| address.to_string())
        };
        let address = |text: &str| Some(text.to_owned());
        assert_eq!(first("10.0.0.0/24", &[]), address("10.0.0.2"), "the first one is the API server's");
        assert_eq!(first("10.1.0.0/30", &[]), address("10.1.0.1"));
        assert_eq!(first("10.1.0.0/30", &["10.1.0.1"]), address("10.1.0.2"));
        assert_eq!(first("10.1.0.0/30", &["10.1.0.1", "10.1.0.2"]), None);
        assert_eq!(first("10.1.0.0/32 fd00::/108 10.2.0.0/31 10.3.0.0/24", &[]), address("10.3.0.1"));
        let ranges = Ranges(vec!["10.0.0.0/24".parse().unwrap(), "fd00::/108".parse().unwrap()]);
        for (text, given) in [
            ("10.0.0.0", false),
            ("10.0.0.1", true),
            ("10.0.0.255", false),
            ("10.0.1.1", false),
            ("fd00::", false),
            ("fd00::f:ffff", true),
        ] {
            assert_eq!(ranges.give(text.parse().unwrap()), given, "{text}");
        }
    }
}
