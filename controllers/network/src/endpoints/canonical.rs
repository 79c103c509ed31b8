//! The order in which upstream writes subsets and ports: by a hash of the text in which Go prints them.
//!
//! Clients do not depend on this order. It is kept so that this controller and the Go controller write the same bytes for
//! the same pods.

use std::fmt::{self, Write};

use steersman_kinds::endpoints::{Address, Port, Subset};

/// The rank of a port: the hash by which upstream's `portsByHash` sorts.
pub(crate) fn port_rank(port: &Port) -> u128 {
    rank(|out| {
        out.write_str("(v1.EndpointPort)")?;
        write_port(out, port)
    })
}

/// The rank of a subset: the hash by which upstream's `subsetsByHash` sorts. The caller must sort the subset's addresses
/// and ports first.
pub(crate) fn subset_rank(subset: &Subset) -> u128 {
    rank(|out| {
        out.write_str("(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)")?;
        write_list(out, &subset.addresses, write_address)?;
        out.write_str(" NotReadyAddresses:([]v1.EndpointAddress)")?;
        write_list(out, &subset.not_ready_addresses, write_address)?;
        out.write_str(" Ports:([]v1.EndpointPort)")?;
        write_list(out, &subset.ports, write_port)?;
        out.write_char('}')
    })
}

/// The hash of a printed value.
pub(crate) fn rank(print: impl FnOnce(&mut Fnv128a) -> fmt::Result) -> u128 {
    let mut hash = Fnv128a::default();
    print(&mut hash).expect("writing to a hash must not fail");
    hash.0
}

/// The hash of Go's `hash/fnv.New128a`. Go compares the sums as big-endian bytes, which gives the same order as these
/// numbers.
pub(crate) struct Fnv128a(u128);

impl Default for Fnv128a {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Write for Fnv128a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const PRIME: u128 = (1 << 88) + 0x13b;
        for byte in text.bytes() {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

/// Writes a slice as `dump.ForHash` prints it, without its type. Empty slices are nil wherever upstream hashes them.
fn write_list<T>(out: &mut Fnv128a, list: &[T], write: fn(&mut Fnv128a, &T) -> fmt::Result) -> fmt::Result {
    if list.is_empty() {
        return out.write_str("<nil>");
    }
    for (at, item) in list.iter().enumerate() {
        out.write_char(if at == 0 { '[' } else { ' ' })?;
        write(out, item)?;
    }
    out.write_char(']')
}

fn write_address(out: &mut Fnv128a, address: &Address) -> fmt::Result {
    let node = address.node_name.as_deref().unwrap_or("<nil>");
    write!(
        out,
        "{{IP:(string){} Hostname:(string){} NodeName:(*string){node}",
        address.ip, address.hostname
    )?;
    out.write_str(" TargetRef:(*v1.ObjectReference)")?;
    match &address.target_ref {
        None => out.write_str("<nil>}"),
        Some(target) => write!(
            out,
            "{{Kind:(string){} Namespace:(string){} Name:(string){} UID:(types.UID){} APIVersion:(string){} \
             ResourceVersion:(string) FieldPath:(string){}}}}}",
            target.kind, target.namespace, target.name, target.uid, target.api_version, target.field_path,
        ),
    }
}

fn write_port(out: &mut Fnv128a, port: &Port) -> fmt::Result {
    let Port { name, port, protocol, app_protocol } = port;
    let app_protocol = app_protocol.as_deref().unwrap_or("<nil>");
    write!(
        out,
        "{{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol} AppProtocol:(*string){app_protocol}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use steersman_kinds::endpoints::TargetRef;

    fn port(name: &str, port: i32, protocol: &str, app_protocol: Option<&str>) -> Port {
        let app_protocol = app_protocol.map(Into::into);
        Port { name: name.into(), port, protocol: protocol.into(), app_protocol }
    }

    fn address(ip: &str, hostname: &str, node: Option<&str>, target: Option<(&str, &str)>) -> Address {
        let target_ref = target.map(|(name, uid)| TargetRef {
            kind: "Pod".into(),
            namespace: "default".into(),
            name: name.into(),
            uid: uid.into(),
            ..TargetRef::default()
        });
        Address { ip: ip.into(), hostname: hostname.into(), node_name: node.map(Into::into), target_ref }
    }

    /// The sums are the results of upstream's `hashObject` for the same values.
    #[test]
    fn ranks_equal_the_hashes_that_go_computes() {
        let (http, bare) = (port("http", 8080, "TCP", None), port("", 443, "UDP", Some("k8s.io/h2c")));
        assert_eq!(port_rank(&http), 0x2530_4a33_da9e_6ece_350a_4142_a45f_5b75);
        assert_eq!(port_rank(&bare), 0x542b_9afe_d439_db2f_77b0_a19d_68e1_2ba5);
        let full = Subset {
            addresses: vec![
                address("10.0.0.1", "", Some("n1"), Some(("p-1", "u-1"))),
                address("10.0.0.2", "h", None, Some(("p-2", "u-2"))),
            ],
            not_ready_addresses: vec![],
            ports: vec![http, bare],
        };
        assert_eq!(subset_rank(&full), 0x140a_42f2_a61b_a585_71a8_ddc3_0a7b_8294);
        let portless =
            Subset { not_ready_addresses: vec![address("10.0.0.3", "", None, None)], ..Subset::default() };
        assert_eq!(subset_rank(&portless), 0x4b08_5add_e376_32c0_f790_c93c_1d43_4877);
    }
}
