//! What containers, pods and claims may ask for in their namespace, and get where they do not say (upstream's plugin
//! `LimitRanger`). Pure.

use serde_json::{Map, Value};
use steersman_api::Quantity;

use super::amounts::{self, Amounts};
use crate::object::{self, at, list_at, members_at, text_at};

/// Tells what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Amounts up to here are compared by thousandths.
const MOST_IN_MILLI: i64 = i64::MAX / 1000;

/// Fills in what the containers of a new pod do not say.
pub(super) fn fill<'a>(ranges: impl IntoIterator<Item = &'a Value>, pod: &mut Value) {
    for range in ranges {
        let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
        for limit in of_kind(range, "Container") {
            requests.extend(amounts::read(limit.get("defaultRequest")));
            limits.extend(amounts::read(limit.get("default")));
        }
        let mut told = Vec::new();
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = members_at(pod, "spec").get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let name = text_at(container, "name");
                for (kind, noun, amounts) in
                    [("requests", "request", &requests), ("limits", "limit", &limits)]
                {
                    let set = fill_in(container, kind, amounts);
                    if !set.is_empty() {
                        told.push(format!("{} {noun} for {what} {name}", set.join(", ")));
                    }
                }
            }
        }
        if !told.is_empty() {
            let text = format!("LimitRanger plugin set: {}", told.join("; "));
            members_at(pod, "metadata.annotations").insert(ANNOTATION.to_owned(), text.into());
        }
    }
}

/// What of the amounts was missing.
fn fill_in(container: &mut Value, kind: &str, amounts: &Amounts) -> Vec<String> {
    let mut set = Vec::new();
    if amounts.is_empty() {
        return set;
    }
    let said = members_at(container, "resources").entry(kind).or_insert_with(|| Map::new().into());
    let said = object::members(said);
    for (name, amount) in amounts {
        if !said.contains_key(name) {
            said.insert(name.clone(), amount.to_string().into());
            set.push(name.clone());
        }
    }
    set
}

/// Why a pod may not be: what breaks the first of the ranges that it breaks.
pub(super) fn check_pod<'a>(ranges: impl IntoIterator<Item = &'a Value>, pod: &Value) -> Result<(), String> {
    let spec = &pod["spec"];
    let of = |of: &Value, kind: &str| amounts::read(at(of, "resources").and_then(|all| all.get(kind)));
    let containers: Vec<(Amounts, Amounts)> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| list_at(spec, list))
        .map(|container| (of(container, "requests"), of(container, "limits")))
        .collect();
    let whole = [(amounts::of_pod(spec, "requests"), amounts::of_pod(spec, "limits"))];
    first_broken(ranges, |range| {
        let mut broken = Vec::new();
        // In the order of the range.
        for limit in list_at(range, "spec.limits") {
            let kind = text_at(limit, "type");
            let bounded = match kind.as_str() {
                "Container" => &containers[..],
                "Pod" => &whole[..],
                _ => continue,
            };
            for (requests, limits) in bounded {
                let of = Bounded { kind: &kind, requests, limits };
                let each = |bound: &str| amounts::read(limit.get(bound)).into_iter();
                broken.extend(each("min").filter_map(|(name, bound)| of.below(&name, bound)));
                broken.extend(each("max").filter_map(|(name, bound)| of.above(&name, bound)));
                broken.extend(
                    each("maxLimitRequestRatio").filter_map(|(name, bound)| of.out_of_ratio(&name, bound)),
                );
            }
        }
        broken
    })
}

/// Why a claim may not be.
pub(super) fn check_claim<'a>(
    ranges: impl IntoIterator<Item = &'a Value>,
    claim: &Value,
) -> Result<(), String> {
    let requests = amounts::read(at(claim, "spec.resources.requests"));
    first_broken(ranges, |range| {
        let kind = "PersistentVolumeClaim";
        let of = Bounded { kind, requests: &requests, limits: &Amounts::new() };
        let mut broken = Vec::new();
        for limit in of_kind(range, kind) {
            let each = |bound: &str| amounts::read(limit.get(bound)).into_iter();
            broken.extend(each("min").filter_map(|(name, bound)| of.below(&name, bound)));
            broken.extend(each("max").filter_map(|(name, bound)| of.above_in_requests(&name, bound)));
        }
        broken
    })
}

fn of_kind<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    list_at(range, "spec.limits").iter().filter(move |limit| limit["type"] == kind)
}

fn first_broken<'a>(
    ranges: impl IntoIterator<Item = &'a Value>,
    broken: impl Fn(&Value) -> Vec<String>,
) -> Result<(), String> {
    for range in ranges {
        let mut all: Vec<String> = Vec::new();
        for why in broken(range) {
            if !all.contains(&why) {
                all.push(why);
            }
        }
        match all.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            all => return Err(format!("[{}]", all.join(", "))),
        }
    }
    Ok(())
}

/// What is held to bounds.
struct Bounded<'a> {
    /// As the range names it.
    kind: &'a str,
    requests: &'a Amounts,
    limits: &'a Amounts,
}

impl Bounded<'_> {
    fn below(&self, name: &str, bound: Quantity) -> Option<String> {
        let usage = format!("minimum {name} usage per {} is {bound}", self.kind);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{usage}.  No request is specified"));
        };
        let limit = self.limits.get(name);
        let [asked, limited, least] = alike([*request, limit.copied().unwrap_or_default(), bound]);
        match limit {
            _ if asked < least => Some(format!("{usage}, but request is {request}")),
            Some(limit) if limited < least => Some(format!("{usage}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above(&self, name: &str, bound: Quantity) -> Option<String> {
        let usage = format!("maximum {name} usage per {} is {bound}", self.kind);
        let Some(limit) = self.limits.get(name) else {
            return Some(format!("{usage}.  No limit is specified"));
        };
        let request = self.requests.get(name);
        let [asked, limited, most] = alike([request.copied().unwrap_or_default(), *limit, bound]);
        match request {
            _ if limited > most => Some(format!("{usage}, but limit is {limit}")),
            Some(request) if asked > most => Some(format!("{usage}, but request is {request}")),
            _ => None,
        }
    }

    fn above_in_requests(&self, name: &str, bound: Quantity) -> Option<String> {
        let usage = format!("maximum {name} usage per {} is {bound}", self.kind);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{usage}.  No request is specified"));
        };
        let [asked, _, most] = alike([*request, Quantity::default(), bound]);
        (asked > most).then(|| format!("{usage}, but request is {request}"))
    }

    fn out_of_ratio(&self, name: &str, bound: Quantity) -> Option<String> {
        let ratio = format!("{name} max limit to request ratio per {} is {bound}", self.kind);
        let of = |amounts: &Amounts| amounts.get(name).copied().unwrap_or_default();
        let (request, limit) = (of(self.requests), of(self.limits));
        let [asked, limited, _] = alike([request, limit, bound]);
        if asked == 0 {
            return Some(format!("{ratio}, but no request is specified or request is 0"));
        }
        if limited == 0 {
            return Some(format!("{ratio}, but no limit is specified or limit is 0"));
        }
        #[expect(clippy::cast_precision_loss, reason = "upstream compares them so")]
        let (provided, most) = {
            let milli = bound.value() <= MOST_IN_MILLI;
            let most = if milli { bound.milli_value() as f64 / 1000.0 } else { bound.value() as f64 };
            (limited as f64 / asked as f64, most)
        };
        (provided > most).then(|| format!("{ratio}, but provided ratio is {provided:.6}"))
    }
}

/// In a unit that all of them can be told in.
fn alike(amounts: [Quantity; 3]) -> [i64; 3] {
    if amounts.iter().all(|amount| amount.value() <= MOST_IN_MILLI) {
        amounts.map(Quantity::milli_value)
    } else {
        amounts.map(Quantity::value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limits: Value) -> Value {
        json!({"spec": {"limits": limits}})
    }

    fn pod(resources: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "resources": resources}]}})
    }

    #[test]
    fn what_is_not_said_is_filled_in_and_told() {
        let ranges = [range(json!([{
            "type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m"},
        }]))];
        let mut pod = pod(json!({"limits": {"cpu": "2"}}));
        pod["spec"]["initContainers"] = json!([{"name": "i"}]);
        fill(&ranges, &mut pod);
        let resources = |list: &str| pod["spec"][list][0]["resources"].clone();
        assert_eq!(
            resources("containers"),
            json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m"}})
        );
        assert_eq!(
            resources("initContainers"),
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}})
        );
        let told = "LimitRanger plugin set: cpu request for container a; memory limit for container a; \
            cpu request for init container i; cpu, memory limit for init container i";
        assert_eq!(pod["metadata"]["annotations"][ANNOTATION], told);
        let before = pod.clone();
        fill(&ranges, &mut pod);
        assert_eq!(pod, before, "all is said now");
    }

    #[test]
    fn what_breaks_a_bound_is_told_in_upstreams_words() {
        let bounds = |of: Value| vec![range(json!([of]))];
        let resources = |request: &str, limit: &str| {
            let mut resources = json!({});
            for (kind, amount) in [("requests", request), ("limits", limit)] {
                if !amount.is_empty() {
                    resources[kind] = json!({"cpu": amount});
                }
            }
            resources
        };
        for (of, request, limit, why) in [
            (json!({"min": {"cpu": "100m"}}), "100m", "1", ""),
            (
                json!({"min": {"cpu": "100m"}}),
                "",
                "",
                "minimum cpu usage per Container is 100m.  No request is specified",
            ),
            (
                json!({"min": {"cpu": "100m"}}),
                "50m",
                "1",
                "minimum cpu usage per Container is 100m, but request is 50m",
            ),
            (
                json!({"min": {"cpu": "1"}}),
                "1",
                "500m",
                "minimum cpu usage per Container is 1, but limit is 500m",
            ),
            (json!({"max": {"cpu": "1"}}), "1", "1", ""),
            (
                json!({"max": {"cpu": "1"}}),
                "1",
                "",
                "maximum cpu usage per Container is 1.  No limit is specified",
            ),
            (json!({"max": {"cpu": "1"}}), "1", "2", "maximum cpu usage per Container is 1, but limit is 2"),
            (
                json!({"max": {"cpu": "1"}}),
                "2",
                "1",
                "maximum cpu usage per Container is 1, but request is 2",
            ),
            (json!({"maxLimitRequestRatio": {"cpu": "2"}}), "1", "2", ""),
            (
                json!({"maxLimitRequestRatio": {"cpu": "2"}}),
                "",
                "2",
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ),
            (
                json!({"maxLimitRequestRatio": {"cpu": "2"}}),
                "1",
                "",
                "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
            ),
            (
                json!({"maxLimitRequestRatio": {"cpu": "1500m"}}),
                "300m",
                "500m",
                "cpu max limit to request ratio per Container is 1500m, but provided ratio is 1.666667",
            ),
            (
                json!({"min": {"cpu": "2"}, "max": {"cpu": "1"}}),
                "1500m",
                "2",
                "[minimum cpu usage per Container is 2, but request is 1500m, \
                 maximum cpu usage per Container is 1, but limit is 2]",
            ),
        ] {
            let mut of = of;
            of["type"] = "Container".into();
            let found = check_pod(&bounds(of.clone()), &pod(resources(request, limit)));
            assert_eq!(found.err().unwrap_or_default(), why, "{of} {request} {limit}");
        }
        let whole = bounds(json!({"type": "Pod", "max": {"cpu": "1"}}));
        let two = json!({"spec": {"containers": [
            {"resources": resources("600m", "600m")}, {"resources": resources("600m", "600m")},
        ]}});
        let why = "maximum cpu usage per Pod is 1, but limit is 1200m";
        assert_eq!(check_pod(&whole, &two), Err(why.to_owned()));
    }

    #[test]
    fn a_claim_is_held_to_what_it_requests() {
        let ranges = [range(json!([{
            "type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"},
        }]))];
        for (storage, why) in [
            ("1Gi", ""),
            ("2Gi", ""),
            ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
            ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ] {
            let claim = json!({"spec": {"resources": {"requests": {"storage": storage}}}});
            assert_eq!(check_claim(&ranges, &claim).err().unwrap_or_default(), why, "{storage}");
        }
    }
}
