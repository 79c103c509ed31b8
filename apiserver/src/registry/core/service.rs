//! Services, with the addresses and ports that they get.

use std::collections::HashSet;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::field::FieldError;
use crate::meta::validate_labels;
use crate::names;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::refusal::{Refusal, Result};
use crate::registry::container::validate_port;
use crate::registry::fields::{each, in_port_range, supported};
use crate::registry::strategy::{Context, Strategy, keep_through};
use crate::store::Store;

use super::service_ranges::{Ranges, is_taken};

/// Upstream's default range.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
const OUT_OF_RANGE: &str = "provided port is not in the valid range. The range of valid ports is 30000-32767";
const TAKEN: &str = "provided port is already allocated";

/// The rules of services.
pub(crate) struct Service;

impl Strategy for Service {
    fn default(&self, service: &mut Value) {
        let spec = members_at(service, "spec");
        default_text(spec, "sessionAffinity", "None");
        default_text(spec, "type", "ClusterIP");
        if spec.get("sessionAffinity").is_some_and(|affinity| affinity == "ClientIP") {
            default_to(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10_800}}));
        }
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind != "ExternalName" {
            default_text(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "NodePort" || kind == "LoadBalancer" {
            default_text(spec, "externalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            default_to(spec, "allocateLoadBalancerNodePorts", true);
        }
        if let Some(spec) = service.get_mut("spec") {
            each(spec, "ports", |port| {
                let number = port["port"].clone();
                let port = members(port);
                default_text(port, "protocol", "TCP");
                let target = port.get("targetPort");
                if target.is_none_or(|target| target == 0 || target == "" || target.is_null()) {
                    port.insert("targetPort".to_owned(), number);
                }
            });
        }
    }

    fn prepare_for_create(&self, context: &Context<'_>, service: &mut Value) -> Result<()> {
        allocate(context, service, None)
    }

    fn prepare_for_update(&self, context: &Context<'_>, service: &mut Value, old: &Value) -> Result<()> {
        // The address by its older name counts where the list was left alone.
        let (address, list) = (&service["spec"]["clusterIP"], &service["spec"]["clusterIPs"]);
        if *address != old["spec"]["clusterIP"] && *list == old["spec"]["clusterIPs"] {
            let list = if object::text_at(service, "spec.clusterIP").is_empty() {
                Value::Null
            } else {
                json!([address])
            };
            members_at(service, "spec").insert("clusterIPs".to_owned(), list);
        }
        // What was given out stays, unless the service becomes one that has none.
        let wants_address = object::text_at(service, "spec.type") != "ExternalName";
        if wants_address && object::text_at(old, "spec.type") != "ExternalName" {
            for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if let Some(value) = old["spec"].get(name) {
                    default_to(members_at(service, "spec"), name, value.clone());
                }
            }
        } else if !wants_address {
            for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                members_at(service, "spec").remove(name);
            }
        }
        let ports = object::list_at(old, "spec.ports").to_vec();
        if has_node_ports(old) && !has_node_ports(service) {
            forget_node_ports(service, &ports);
        }
        let outside = |service: &Value| {
            matches!(object::text_at(service, "spec.type").as_str(), "NodePort" | "LoadBalancer")
        };
        for (name, needed) in [
            ("externalTrafficPolicy", outside(service)),
            ("healthCheckNodePort", has_health_check(service)),
            ("allocateLoadBalancerNodePorts", object::text_at(service, "spec.type") == "LoadBalancer"),
            ("loadBalancerClass", object::text_at(service, "spec.type") == "LoadBalancer"),
        ] {
            let spec = members_at(service, "spec");
            if !needed && spec.get(name) == old["spec"].get(name) {
                spec.remove(name);
            }
        }
        if has_node_ports(service) {
            each(&mut service["spec"], "ports", |port| {
                let same = |old: &&Value| old["port"] == port["port"] && old["protocol"] == port["protocol"];
                let given = ports.iter().find(same).map(|old| old["nodePort"].clone());
                if let Some(given) = given.filter(|given| !given.is_null()) {
                    default_to(members(port), "nodePort", given);
                }
            });
        }
        let asked = object::int_at(service, "spec.healthCheckNodePort").unwrap_or(0);
        if asked == 0 && has_health_check(service) && has_health_check(old) {
            object::carry_over(&mut service["spec"], &old["spec"], "healthCheckNodePort");
        }
        allocate(context, service, Some(old))
    }

    fn validate(&self, _: &Context<'_>, service: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = &service["spec"];
        let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        let ports = object::list_at(spec, "ports");
        let headless = object::text_at(spec, "clusterIP") == "None";
        let external = object::text_at(spec, "type") == "ExternalName";
        errors.extend(validate_labels(&spec["selector"], "spec.selector"));
        if ports.is_empty() && !headless && !external {
            errors.push(FieldError::required("spec.ports", ""));
        }
        if external && object::text_at(spec, "externalName").is_empty() {
            errors.push(FieldError::required("spec.externalName", ""));
        }
        let (mut seen, mut names_seen) = (Vec::new(), Vec::new());
        for (at, port) in ports.iter().enumerate() {
            let path = format!("spec.ports[{at}]");
            let name = object::text_at(port, "name");
            if name.is_empty() && ports.len() > 1 {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            } else if let Some(why) = names::label(&name).pop().filter(|_| !name.is_empty()) {
                errors.push(FieldError::invalid(format!("{path}.name"), name, why));
            } else if !name.is_empty() && names_seen.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            } else {
                names_seen.push(name);
            }
            in_port_range(object::int_at(port, "port").unwrap_or(0), format!("{path}.port"), &mut errors);
            supported(port, &path, "protocol", &["SCTP", "TCP", "UDP"], &mut errors);
            // What is left out is the port itself, which was looked at.
            if port["targetPort"] != port["port"] {
                validate_port(&port["targetPort"], &format!("{path}.targetPort"), &mut errors);
            }
            let key = (port["protocol"].clone(), port["port"].clone());
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(path, json!({"port": key.1, "protocol": key.0})));
            } else {
                seen.push(key);
            }
        }
        supported(spec, "spec", "sessionAffinity", &["ClientIP", "None"], &mut errors);
        supported(spec, "spec", "type", &kinds, &mut errors);
        let health = object::int_at(spec, "healthCheckNodePort").unwrap_or(0);
        if health != 0 && !has_health_check(service) {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid("spec.healthCheckNodePort", health, why));
        }
        let address = object::text_at(spec, "clusterIP");
        if !address.is_empty() && address != "None" && address.parse::<IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid("spec.clusterIPs[0]", address, why));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, service: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, service);
        let external = |service: &Value| object::text_at(service, "spec.type") == "ExternalName";
        let (new, before) = (&service["spec"]["clusterIPs"], &old["spec"]["clusterIPs"]);
        if !external(service) && !external(old) && before[0].is_string() && new[0] != before[0] {
            let why = "may not change once set";
            errors.push(FieldError::invalid("spec.clusterIPs[0]", new.clone(), why));
        }
        let asks = |service: &Value| object::int_at(service, "spec.healthCheckNodePort").unwrap_or(0);
        if has_health_check(old) && has_health_check(service) && asks(old) != asks(service) {
            errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
        }
        errors
    }

    fn prepare_through(&self, context: &Context<'_>, service: &mut Value, old: &Value) {
        keep_through(context, service, old);
        if let Some(balancer) = service.get_mut("status").and_then(|status| status.get_mut("loadBalancer")) {
            each(balancer, "ingress", |ingress| {
                if !object::text_at(ingress, "ip").is_empty() {
                    default_text(members(ingress), "ipMode", "VIP");
                }
            });
        }
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }
}

fn has_node_ports(service: &Value) -> bool {
    match object::text_at(service, "spec.type").as_str() {
        "NodePort" => true,
        "LoadBalancer" => object::is_true(service, "spec.allocateLoadBalancerNodePorts"),
        _ => false,
    }
}

/// Whether the API server gives it a port at which balancers ask whether a node has pods of it.
fn has_health_check(service: &Value) -> bool {
    object::text_at(service, "spec.type") == "LoadBalancer"
        && object::text_at(service, "spec.externalTrafficPolicy") == "Local"
}

/// Takes back the node ports that the service had, where the client only left them as they were.
fn forget_node_ports(service: &mut Value, before: &[Value]) {
    each(&mut service["spec"], "ports", |port| {
        if before.iter().any(|old| old["nodePort"] == port["nodePort"]) {
            members(port).remove("nodePort");
        }
    });
}

/// What of the addresses and ports that a service asks for can't be had.
fn refused(context: &Context<'_>, service: &Value, own: &str, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let had = |path: &str| old.map(|old| object::text_at(old, path)).unwrap_or_default();
    let address = object::text_at(service, "spec.clusterIP");
    if let Ok(ip) = address.parse::<IpAddr>()
        && had("spec.clusterIP") != address
    {
        let why = if !Ranges::ready(context.store).give(ip) {
            Some("the provided network does not match the current range")
        } else if is_taken(context.store, ip) || addresses(context.store, own).contains(&address) {
            Some("provided IP is already allocated")
        } else {
            None
        };
        if let Some(why) = why {
            let why = format!("failed to allocate IP {address}: {why}");
            errors.push(FieldError::invalid("spec.clusterIPs", json!([address]), why));
        }
    }
    let before: Vec<Value> = old.map(|old| object::list_at(old, "spec.ports").to_vec()).unwrap_or_default();
    let taken = node_ports(context.store, own);
    for (at, port) in object::list_at(service, "spec.ports").iter().enumerate() {
        let number = object::int_at(port, "nodePort").unwrap_or(0);
        if number == 0 || !has_node_ports(service) || before.iter().any(|old| old["nodePort"] == number) {
            continue;
        }
        let why = if !NODE_PORTS.contains(&number) {
            OUT_OF_RANGE
        } else if taken.contains(&number) {
            TAKEN
        } else {
            continue;
        };
        errors.push(FieldError::invalid(format!("spec.ports[{at}].nodePort"), number, why));
    }
    errors
}

/// Gives the service the addresses and ports that it needs and has not.
fn allocate(context: &Context<'_>, service: &mut Value, old: Option<&Value>) -> Result<()> {
    let name = object::text_at(service, "metadata.name");
    let own = object::text_at(service, "metadata.namespace") + "/" + &name;
    default_addresses(service);
    let mut errors = unfit_addresses(service);
    if errors.is_empty() {
        errors = refused(context, service, &own, old);
    }
    if !errors.is_empty() {
        return Err(Refusal::invalid(context.resource, &name, &errors));
    }
    if object::text_at(service, "spec.type") != "ExternalName" {
        let selects = object::at(service, "spec.selector").is_some();
        let spec = members_at(service, "spec");
        let mut address = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
        if address.is_empty() {
            address = free_address(context.store, &own)
                .ok_or_else(|| Refusal::internal("failed to allocate a serviceIP: range is full"))?;
        }
        let headless_by_hand = address == "None" && !selects;
        let families = if headless_by_hand { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        default_to(spec, "ipFamilies", families);
        default_text(
            spec,
            "ipFamilyPolicy",
            if headless_by_hand { "RequireDualStack" } else { "SingleStack" },
        );
        spec.insert("clusterIP".to_owned(), address.as_str().into());
        default_to(spec, "clusterIPs", json!([address]));
    }
    if has_node_ports(service) {
        let mut taken = node_ports(context.store, &own);
        let asked =
            object::list_at(service, "spec.ports").iter().filter_map(|port| port["nodePort"].as_i64());
        taken.extend(asked);
        let mut full = false;
        each(&mut service["spec"], "ports", |port| {
            if object::int_at(port, "nodePort").unwrap_or(0) == 0 {
                match NODE_PORTS.clone().find(|number| !taken.contains(number)) {
                    Some(number) => {
                        taken.push(number);
                        members(port).insert("nodePort".to_owned(), number.into());
                    }
                    None => full = true,
                }
            }
        });
        if full {
            return Err(Refusal::internal("failed to allocate a nodePort: range is full"));
        }
    }
    if has_health_check(service) && !old.is_some_and(has_health_check) {
        let mut taken = node_ports(context.store, &own);
        taken.extend(
            object::list_at(service, "spec.ports").iter().filter_map(|port| port["nodePort"].as_i64()),
        );
        let asked = object::int_at(service, "spec.healthCheckNodePort").unwrap_or(0);
        let port = health_check_port(asked, &taken).map_err(Refusal::internal)?;
        members_at(service, "spec").insert("healthCheckNodePort".to_owned(), port.into());
    }
    Ok(())
}

/// The port at which balancers ask: the one that is asked for (0 for any), if it can be had.
fn health_check_port(asked: i64, taken: &[i64]) -> std::result::Result<i64, String> {
    if asked == 0 {
        let free = NODE_PORTS.clone().find(|number| !taken.contains(number));
        return free.ok_or_else(|| "failed to allocate a HealthCheck NodePort 0: range is full".to_owned());
    }
    let why = match (NODE_PORTS.contains(&asked), taken.contains(&asked)) {
        (false, _) => OUT_OF_RANGE,
        (true, true) => TAKEN,
        (true, false) => return Ok(asked),
    };
    Err(format!("failed to allocate requested HealthCheck NodePort {asked}: {why}"))
}

/// Who knows only one address means the list of that one.
fn default_addresses(service: &mut Value) {
    let address = object::text_at(service, "spec.clusterIP");
    if !address.is_empty() && object::list_at(service, "spec.clusterIPs").is_empty() {
        members_at(service, "spec").insert("clusterIPs".to_owned(), json!([address]));
    }
}

/// What does not fit in the addresses that a service asks for.
fn unfit_addresses(service: &Value) -> Vec<FieldError> {
    if object::text_at(service, "spec.type") == "ExternalName" {
        return Vec::new();
    }
    let address = object::text_at(service, "spec.clusterIP");
    let list = object::list_at(service, "spec.clusterIPs");
    let mut errors = Vec::new();
    let mut wrong = |why: &str| errors.push(FieldError::invalid("spec.clusterIPs", list.to_vec(), why));
    match list {
        [] => {}
        _ if address.is_empty() => wrong("must be empty when `clusterIP` is not specified"),
        [first, ..] if *first != address.as_str() => wrong("first value must match `clusterIP`"),
        [_] => {}
        [first, ..] if first == "None" => wrong("'None' must be the first and only value"),
        [_, _, _, ..] => wrong("may only hold up to 2 values"),
        [_, _] => {
            let is_new =
                |ip: &Value| ip.as_str().and_then(|ip| ip.parse::<IpAddr>().ok()).map(|ip| ip.is_ipv6());
            if is_new(&list[0]) == is_new(&list[1]) {
                wrong("may specify no more than one IP for each IP family");
            }
        }
    }
    errors
}

/// What a service has been given that no other may have.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Given {
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    ports: Vec<GivenPort>,
    health_check_node_port: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenPort {
    node_port: Option<i64>,
}

/// The addresses of all other services.
fn addresses(store: &Store, own: &str) -> HashSet<String> {
    taken(store, own).filter_map(|given| given.cluster_ip).collect()
}

/// The ports of all other services.
fn node_ports(store: &Store, own: &str) -> Vec<i64> {
    let ports = |given: Given| {
        let ports = given.ports.into_iter().filter_map(|port| port.node_port);
        ports.chain(given.health_check_node_port).collect::<Vec<_>>()
    };
    taken(store, own).flat_map(ports).collect()
}

fn free_address(store: &Store, own: &str) -> Option<String> {
    let free = Ranges::ready(store).free(store, &addresses(store, own));
    free.map(|address| address.to_string())
}

/// What all other services have been given.
fn taken<'a>(store: &Store, own: &'a str) -> impl Iterator<Item = Given> + use<'a> {
    #[derive(Deserialize)]
    struct Service {
        #[serde(default)]
        spec: Given,
    }

    let services = store.snapshot(&"services".into(), "", None).map(|snapshot| snapshot.objects);
    let others = services.unwrap_or_default().into_iter().filter(move |other| other.key.to_string() != own);
    others.filter_map(|other| other.read::<Service>()).map(|service| service.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_address_and_the_list_say_the_same() {
        for (address, list, why) in [
            ("", json!([]), None),
            ("10.0.0.5", json!(["10.0.0.5"]), None),
            ("10.0.0.5", json!(["10.0.0.5", "fd00::5"]), None),
            ("", json!(["10.0.0.5"]), Some("must be empty when `clusterIP` is not specified")),
            ("10.0.0.5", json!(["10.0.0.6"]), Some("first value must match `clusterIP`")),
            (
                "10.0.0.5",
                json!(["10.0.0.5", "10.0.0.6"]),
                Some("may specify no more than one IP for each IP family"),
            ),
            ("None", json!(["None", "10.0.0.6"]), Some("'None' must be the first and only value")),
        ] {
            let service = json!({"spec": {"clusterIP": address, "clusterIPs": list}});
            let expected: Vec<FieldError> = why
                .map(|why| FieldError::invalid("spec.clusterIPs", list.clone(), why))
                .into_iter()
                .collect();
            assert_eq!(unfit_addresses(&service), expected, "{service}");
        }
    }

    #[test]
    fn a_port_for_health_checks_is_given_out_once() {
        let taken = [30_000, 30_002];
        assert_eq!(health_check_port(0, &taken), Ok(30_001));
        assert_eq!(health_check_port(30_005, &taken), Ok(30_005));
        for (asked, why) in [(30_002, TAKEN), (80, OUT_OF_RANGE)] {
            let expected = format!("failed to allocate requested HealthCheck NodePort {asked}: {why}");
            assert_eq!(health_check_port(asked, &taken), Err(expected));
        }
    }
}
