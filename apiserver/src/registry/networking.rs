//! Network policies, ingresses, and the ranges and addresses of services.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::fields::{address_fault, each, supported};
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_text, default_to, members, members_at};

/// The rules of network policies.
pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn default(&self, policy: &mut Value) {
        let spec = members_at(policy, "spec");
        let mut types = vec![json!("Ingress")];
        if spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty()) {
            types.push(json!("Egress"));
        }
        default_to(spec, "policyTypes", types);
        for direction in ["ingress", "egress"] {
            if let Some(Value::Array(rules)) = spec.get_mut(direction) {
                for rule in rules {
                    each(rule, "ports", |port| default_text(members(port), "protocol", "TCP"));
                }
            }
        }
    }
}

/// The rules of ingresses.
pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn validate(&self, _: &Context<'_>, ingress: &Value) -> Vec<FieldError> {
        let spec = &ingress["spec"];
        let mut errors = Vec::new();
        let rules = object::list_at(spec, "rules");
        if rules.is_empty() && spec["defaultBackend"].is_null() {
            let why = "either `defaultBackend` or `rules` must be specified";
            errors.push(FieldError::invalid("spec", Value::Null, why));
        }
        for (at, rule) in rules.iter().enumerate() {
            let path = format!("spec.rules[{at}]");
            let host = object::text_at(rule, "host");
            let plain = host.strip_prefix("*.").unwrap_or(&host);
            if !host.is_empty() {
                errors.extend(FieldError::each_invalid(
                    &format!("{path}.host"),
                    &host,
                    names::subdomain(plain),
                ));
            }
            let paths = object::list_at(rule, "http.paths");
            if !rule["http"].is_null() && paths.is_empty() {
                errors.push(FieldError::required(format!("{path}.http.paths"), ""));
            }
            for (at, way) in paths.iter().enumerate() {
                validate_path(way, &format!("{path}.http.paths[{at}]"), &mut errors);
            }
        }
        errors
    }
}

fn validate_path(way: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
    let kind = object::text_at(way, "pathType");
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{path}.pathType"), "pathType must be specified"));
        return;
    }
    supported(way, path, "pathType", &kinds, errors);
    let text = object::text_at(way, "path");
    if kind != "ImplementationSpecific" && !text.starts_with('/') {
        errors.push(FieldError::invalid(format!("{path}.path"), text, "must be an absolute path"));
    }
    let service = &way["backend"]["service"];
    if service.is_null() && way["backend"]["resource"].is_null() {
        let why = "must specify one of `resource` or `service`";
        errors.push(FieldError::required(format!("{path}.backend"), why));
    } else if !service.is_null() && object::text_at(service, "name").is_empty() {
        errors.push(FieldError::required(format!("{path}.backend.service.name"), ""));
    }
}

/// The rules of ServiceCIDRs.
pub(crate) struct ServiceCidr;

/// The path of a ServiceCIDR's ranges.
const CIDRS: &str = "spec.cidrs";

impl Strategy for ServiceCidr {
    fn validate(&self, _: &Context<'_>, cidr: &Value) -> Vec<FieldError> {
        let ranges = object::list_at(cidr, CIDRS);
        match ranges.len() {
            0 => return vec![FieldError::required(CIDRS, "at least one CIDR required")],
            1 | 2 => {}
            _ => return vec![FieldError::invalid(CIDRS, ranges.to_vec(), "may only hold up to 2 values")],
        }
        let text = |range: &Value| range.as_str().unwrap_or_default().to_owned();
        let mut errors = Vec::new();
        for (at, range) in ranges.iter().map(text).enumerate() {
            errors.extend(
                range_fault(&range).map(|why| FieldError::invalid(format!("{CIDRS}[{at}]"), range, why)),
            );
        }
        let is_v6 = |range: &Value| text(range).parse::<IpNet>().ok().map(|range| range.addr().is_ipv6());
        if let [one, other] = ranges
            && let (Some(one), Some(other)) = (is_v6(one), is_v6(other))
            && one == other
        {
            let why =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.push(FieldError::invalid(CIDRS, ranges.to_vec(), why));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, cidr: &Value, old: &Value) -> Vec<FieldError> {
        let (ranges, before) = (object::list_at(cidr, CIDRS), object::list_at(old, CIDRS));
        let becomes_dual_stack = (before.len(), ranges.len()) == (1, 2);
        if before.len() != ranges.len() && !becomes_dual_stack {
            return vec![FieldError::immutable(CIDRS, &cidr["spec"]["cidrs"])];
        }
        let changed = ranges.iter().zip(before).enumerate().filter(|(_, (new, old))| new != old);
        let mut errors: Vec<_> =
            changed.map(|(at, (new, _))| FieldError::immutable(format!("{CIDRS}[{at}]"), new)).collect();
        if becomes_dual_stack {
            errors.extend(self.validate(context, cidr));
        }
        errors
    }
}

/// Why a text is not a range in its canonical form, as upstream's `IsValidCIDR`.
fn range_fault(text: &str) -> Option<String> {
    const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let Some((address, length)) = text.split_once('/') else { return Some(NO_RANGE.to_owned()) };
    let has_zeros = length.len() > 1 && length.starts_with('0');
    match address_fault(address) {
        Some("must not be an IPv4-mapped IPv6 address") => {
            return Some("must not have an IPv4-mapped IPv6 address".to_owned());
        }
        Some("must not have leading 0s") => {
            return Some("must not have leading 0s in IP or prefix length".to_owned());
        }
        Some(_) => return Some(NO_RANGE.to_owned()),
        None => {}
    }
    let address = address.parse::<IpAddr>().ok()?;
    let digits = Some(length).filter(|length| length.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(range) = digits.and_then(|length| IpNet::new(address, length.parse().ok()?).ok()) else {
        return Some(NO_RANGE.to_owned());
    };
    if has_zeros {
        return Some("must not have leading 0s in IP or prefix length".to_owned());
    }
    if range.network() != address {
        return Some("must not have bits set beyond the prefix length".to_owned());
    }
    let canonical = range.to_string();
    (text != canonical).then(|| format!("must be in canonical form ({canonical:?})"))
}

/// The rules of IPAddresses.
pub(crate) struct IpAddress;

impl Strategy for IpAddress {
    fn validate(&self, _: &Context<'_>, address: &Value) -> Vec<FieldError> {
        const PARENT: &str = "spec.parentRef";
        let Some(parent) = object::at(address, PARENT) else { return vec![FieldError::required(PARENT, "")] };
        let missing =
            ["resource", "name"].into_iter().filter(|name| object::text_at(parent, name).is_empty());
        missing.map(|name| FieldError::required(format!("{PARENT}.{name}"), "")).collect()
    }

    fn validate_update(&self, _: &Context<'_>, address: &Value, old: &Value) -> Vec<FieldError> {
        let [new, old] = [address, old].map(|address| &address["spec"]["parentRef"]);
        if new == old { Vec::new() } else { vec![FieldError::immutable("spec.parentRef", new)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_judged_as_upstream_judges_them() {
        let no_range = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        let zeros = "must not have leading 0s in IP or prefix length";
        for (text, why) in [
            ("10.0.0.0/24", None),
            ("fd00::/108", None),
            ("10.0.0.0", Some(no_range)),
            ("10.0.0.0/33", Some(no_range)),
            ("10.0.0/24", Some(no_range)),
            ("10.0.0.0/+8", Some(no_range)),
            ("010.0.0.0/24", Some(zeros)),
            ("10.0.0.0/08", Some(zeros)),
            ("::ffff:10.0.0.0/120", Some("must not have an IPv4-mapped IPv6 address")),
            ("10.0.0.1/24", Some("must not have bits set beyond the prefix length")),
            ("FD00::/108", Some("must be in canonical form (\"fd00::/108\")")),
        ] {
            assert_eq!(range_fault(text).as_deref(), why, "{text}");
        }
    }
}
