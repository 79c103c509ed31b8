//! Compares requests with the rights that the controllers declare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{Choice, Registry, Selection};

use crate::audit::{Origin, Request, SHIPPED};

/// A forbidden request does not count if the API server allowed the same before, or allows it within this time: the same verb and
/// resource, in the same namespace, for the same client of a manager.
///
/// The roles of a test's API server stay the same after its start. So nothing but the API server's caches changes the answer, which
/// are empty after each start, and a right that the role lacks is never allowed.
pub(crate) const REPEATED_WITHIN: SignedDuration = SignedDuration::from_secs(15);

/// How long a controller may go on to update a status because such an API server has told it that it may not patch it: until its
/// next write is forbidden.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(60);

/// The client of all caches, and of reads that take the place of a fuller cache. It serves all controllers.
const CACHES: &str = "shared-informers";
/// The client of the controller that has no service account.
const TOKENS: &str = "tokens-controller";
/// The rights that every controller has, in order to record events, have this in the place of the controller.
const ALL: &str = "all controllers";

/// Refusals with the code 403 that come from admission plugins and say nothing about the manager's rights.
const NO_RIGHTS: &[&str] = &[
    "because it is being terminated",
    "exceeded quota",
    "failed quota",
    "no PriorityClass with name",
    "not yet ready to handle request",
];

/// One verb on one resource, as a controller declares it: with wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Declared {
    pub(crate) controller: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) verb: &'static str,
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, group, resource, verb } = self;
        write!(f, "{verb} {resource} of \"{group}\" for {controller}")
    }
}

/// A controller of this program.
struct Row {
    name: &'static str,
    client: &'static str,
    rules: &'static [Rule],
}

/// A request, as far as its repetition is like it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    server: String,
    user: String,
    client: String,
    verb: String,
    group: String,
    resource: String,
    namespace: String,
}

impl Asked {
    fn of(origin: Origin<'_>, request: &Request) -> Self {
        Self {
            server: origin.server.to_owned(),
            user: request.user.username.clone(),
            client: request.client().to_owned(),
            verb: request.verb.clone(),
            group: request.object.group.clone(),
            resource: request.resource(),
            namespace: request.object.namespace.clone(),
        }
    }
}

/// What the requests show.
pub(crate) struct Proof {
    registry: Registry,
    rows: Vec<Row>,
    declared: BTreeSet<Declared>,
    used: BTreeSet<Declared>,
    requests: usize,
    /// The forbidden requests that were not allowed later: the time of each, and its path.
    forbidden: BTreeMap<Asked, Vec<(Timestamp, String)>>,
    /// The requests that were allowed.
    allowed: BTreeSet<Asked>,
    /// When each API server forbade a request that it also allowed: its caches were empty then.
    cold: BTreeMap<String, Vec<Timestamp>>,
    /// Faults of other kinds, each once.
    others: BTreeMap<String, String>,
}

impl Proof {
    pub(crate) fn new(registry: &Registry) -> Self {
        let here = registry.rows().iter().filter(|row| row.is_here());
        let rows =
            here.map(|row| Row { name: row.name, client: row.account().unwrap_or(TOKENS), rules: row.rules });
        let rows: Vec<_> = rows.collect();
        let rules = rows.iter().flat_map(|row| row.rules.iter().map(|rule| (row.name, rule)));
        let rules = rules.chain(steersman_controllers::EVENTS.iter().map(|rule| (ALL, rule)));
        let declared = rules.flat_map(|(controller, rule)| rights(controller, rule)).collect();
        Self {
            registry: registry.clone(),
            rows,
            declared,
            used: BTreeSet::new(),
            requests: 0,
            forbidden: BTreeMap::new(),
            allowed: BTreeSet::new(),
            cold: BTreeMap::new(),
            others: BTreeMap::new(),
        }
    }

    /// Takes the next request of an API server.
    pub(crate) fn add(&mut self, origin: Origin<'_>, request: &Request) {
        let is_shipped = request.user.username == SHIPPED;
        // Other roles forbid what the role of the manifests allows.
        if !is_shipped && request.is_forbidden() {
            return;
        }
        self.requests += usize::from(is_shipped);
        let asked = Asked::of(origin, request);
        if request.is_forbidden() {
            if request.goes_on() {
                return;
            }
            if self.allowed.contains(&asked) {
                return self.cold.entry(asked.server).or_default().push(request.received);
            }
            let times = self.forbidden.entry(asked).or_default();
            return times.push((request.received, request.uri.clone()));
        }
        if let Some(times) = self.forbidden.get_mut(&asked) {
            let repeated =
                times.extract_if(.., |(time, _)| request.received.duration_since(*time) <= REPEATED_WITHIN);
            self.cold.entry(asked.server.clone()).or_default().extend(repeated.map(|(time, _)| time));
        }
        let refusal = &*request.response.message;
        if is_shipped && request.response.code == 403 && !NO_RIGHTS.iter().any(|why| refusal.contains(why)) {
            let fault = format!("refused to {}: {} {}", asked.client, asked.verb, asked.resource);
            self.others.insert(fault, format!("{refusal} ({})", request.uri));
        }
        let covered = self.cover(origin.controllers, request, &asked);
        if is_shipped && !covered && request.is_allowed_by_role() && !is_of_the_process(request) {
            let Asked { client, verb, group, resource, .. } = &asked;
            let fault = format!("not declared for {client}: {verb} {resource} of \"{group}\"");
            self.others.insert(fault, format!("such as {}", request.uri));
        }
        self.allowed.insert(asked);
    }

    /// Marks the rights that the request used, and returns whether its controller declares one.
    fn cover(&mut self, controllers: Option<&Selection>, request: &Request, asked: &Asked) -> bool {
        let all = steersman_controllers::EVENTS.iter().map(|rule| (ALL, rule));
        let runs = |row: &&Row| {
            let mut table = self.registry.rows().iter();
            controllers.is_none_or(|selection| {
                table.any(|known| known.name == row.name && selection.choice(known) != Choice::Disabled)
            })
        };
        let asks = |row: &&Row| asked.client == CACHES || asked.client == row.client;
        let rows = self.rows.iter().filter(asks).filter(runs);
        let rules = rows.flat_map(|row| row.rules.iter().map(|rule| (row.name, rule))).chain(all);
        let before = rules.filter(|(_, rule)| allows_name(rule, &request.object.name));
        let used: Vec<_> = before
            .flat_map(|(controller, rule)| rights(controller, rule))
            .filter(|right| allows(right, asked))
            .collect();
        let covered = !used.is_empty();
        self.used.extend(used);
        covered
    }

    /// The number of requests under the role of the manifests.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// The number of requests that were forbidden, and allowed before or when they were repeated.
    pub(crate) fn excused(&self) -> usize {
        self.cold.values().map(Vec::len).sum()
    }

    /// Whether an API server forbade a request because its caches were empty, though the request was not repeated: it forbade, at
    /// about that time, others that it allows, and the controllers declare the right.
    fn was_cold(&self, asked: &Asked, at: Timestamp) -> bool {
        let asks = |right: &Declared| {
            let is_its = |row: &Row| {
                row.name == right.controller && (asked.client == CACHES || asked.client == row.client)
            };
            right.controller == ALL || self.rows.iter().any(is_its)
        };
        let some = |allows: fn(&Declared, &Asked) -> bool| {
            self.declared.iter().any(|right| allows(right, asked) && asks(right))
        };
        // Every user may read paths such as `/version`, by a role of the API server's own.
        let within = if asked.resource.is_empty() || some(allows) {
            REPEATED_WITHIN
        } else if some(stands_for_patch) {
            REMEMBERED
        } else {
            return false;
        };
        let times = self.cold.get(&asked.server);
        times.is_some_and(|times| times.iter().any(|cold| at.duration_since(*cold).abs() <= within))
    }

    /// The rights of all controllers.
    pub(crate) fn declared(&self) -> &BTreeSet<Declared> {
        &self.declared
    }

    /// The rights that some request used.
    pub(crate) fn used(&self) -> &BTreeSet<Declared> {
        &self.used
    }

    /// What should not have happened, a line for each kind of request.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut forbidden = BTreeMap::<String, (usize, String)>::new();
        for (asked, times) in &self.forbidden {
            let times: Vec<_> = times.iter().filter(|(time, _)| !self.was_cold(asked, *time)).collect();
            let Some((time, uri)) = times.first() else { continue };
            let Asked { client, verb, group, resource, server, .. } = asked;
            let what = format!("forbidden to {client}: {verb} {resource} of \"{group}\"");
            forbidden.entry(what).or_insert((0, format!("{uri} at {time}, {server}"))).0 += times.len();
        }
        let forbidden = forbidden
            .into_iter()
            .map(|(what, (count, example))| format!("{what}: {count} times, such as {example}"));
        forbidden.chain(self.others.iter().map(|(what, example)| format!("{what}: {example}"))).collect()
    }
}

/// The rights of a rule, one by one.
fn rights(controller: &'static str, rule: &Rule) -> Vec<Declared> {
    let mut rights = Vec::new();
    for &group in rule.groups {
        for &resource in rule.resources {
            rights.extend(rule.verbs.iter().map(|&verb| Declared { controller, group, resource, verb }));
        }
    }
    rights
}

/// Whether a right allows what was asked, as RBAC decides it.
fn allows(right: &Declared, asked: &Asked) -> bool {
    let resource = right.resource == "*"
        || right.resource == asked.resource
        || right.resource.strip_prefix("*/").is_some_and(|subresource| {
            asked.resource.split_once('/').is_some_and(|(_, asked)| asked == subresource)
        });
    resource && right.verb == asked.verb && (right.group == "*" || right.group == asked.group)
}

/// Whether the right is to patch a status that the request reads or updates. A controller that hears from such an API server that it
/// may not patch a status reads the object and updates the status, for which the role has no right.
fn stands_for_patch(right: &Declared, asked: &Asked) -> bool {
    let status = match &*asked.verb {
        "update" => asked.resource.clone(),
        "get" => format!("{}/status", asked.resource),
        _ => return false,
    };
    (right.verb, right.resource, right.group) == ("patch", &*status, &*asked.group)
        && status.ends_with("/status")
}

fn allows_name(rule: &Rule, name: &str) -> bool {
    rule.names.is_empty() || rule.names.contains(&name)
}

/// Whether a role in `manifests/controller-manager/rbac.yaml` allows the request as well: what the process needs for leader election
/// and for its secure port.
fn is_of_the_process(request: &Request) -> bool {
    let object = &request.object;
    let in_kube_system = object.namespace == "kube-system";
    match (&*object.group, &*object.resource) {
        ("coordination.k8s.io", "leases") => in_kube_system && request.client() == "leader-election",
        ("authentication.k8s.io", "tokenreviews") | ("authorization.k8s.io", "subjectaccessreviews") => {
            request.verb == "create"
        }
        ("", "configmaps") => in_kube_system && object.name == "extension-apiserver-authentication",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Log {
        proof: Proof,
        registry: Registry,
    }

    impl Log {
        fn new() -> Self {
            let registry = steersman_controllers::builtin();
            Self { proof: Proof::new(&registry), registry }
        }

        /// A request of a manager that runs these controllers. `at` is its second, `decision` is RBAC's.
        fn add(
            &mut self,
            controllers: &str,
            client: &str,
            what: (&str, &str, &str),
            at: u32,
            decision: &str,
        ) {
            let (verb, group, resource) = what;
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let request = serde_json::from_value(json!({
                "user": {"username": SHIPPED, "uid": "steersman-controller-manager-0"},
                "userAgent": format!("steersman/v0 (linux/amd64) kubernetes/{client}"),
                "stage": "ResponseComplete",
                "verb": verb,
                "requestURI": "/path",
                "objectRef":
                    {"apiGroup": group, "resource": resource, "subresource": subresource, "namespace": "a"},
                "requestReceivedTimestamp": format!("2026-01-01T00:00:{at:02}.000001Z"),
                "annotations": {
                    "authorization.k8s.io/decision": decision,
                    "authorization.k8s.io/reason": "RBAC: allowed by ClusterRoleBinding \"a\" of \
                        ClusterRole \"steersman-controller-manager\" to ServiceAccount \"b\"",
                },
            }));
            let items: Vec<_> = controllers.split(',').collect();
            let selection = Selection::parse(&items, &self.registry).unwrap();
            let origin = Origin { server: "1.2", controllers: Some(&selection) };
            self.proof.add(origin, &request.unwrap());
        }

        fn uses(&self, controller: &str, resource: &str, verb: &str) -> bool {
            let is_it = |right: &Declared| {
                (right.controller, right.resource, right.verb) == (controller, resource, verb)
            };
            assert!(self.proof.declared().iter().any(is_it), "{controller}: {verb} {resource}");
            self.proof.used().iter().any(is_it)
        }
    }

    const DELETE: (&str, &str, &str) = ("delete", "", "pods");

    #[test]
    fn a_request_uses_the_rights_of_its_own_controller() {
        let mut log = Log::new();
        log.add("*", "job-controller", DELETE, 0, "allow");
        assert!(log.uses("job-controller", "pods", "delete"));
        assert!(!log.uses("statefulset-controller", "pods", "delete"));
        assert!(!log.uses("garbage-collector-controller", "*", "delete"));
        log.add("garbage-collector-controller", "generic-garbage-collector", DELETE, 0, "allow");
        assert!(log.uses("garbage-collector-controller", "*", "delete"));
        log.add("*", "horizontal-pod-autoscaler", ("get", "apps", "deployments/scale"), 0, "allow");
        assert!(log.uses("horizontal-pod-autoscaler-controller", "*/scale", "get"));
        assert_eq!(log.proof.faults(), [""; 0]);
    }

    #[test]
    fn the_lists_of_caches_use_the_rights_of_the_controllers_that_run() {
        let mut log = Log::new();
        log.add("job-controller,cronjob", "shared-informers", ("list", "batch", "jobs"), 0, "allow");
        assert!(log.uses("job-controller", "jobs", "list") && log.uses("cronjob-controller", "jobs", "list"));
        assert!(!log.uses("ttl-after-finished-controller", "jobs", "list"));
    }

    #[test]
    fn a_request_that_only_another_controllers_rules_allow_is_a_fault() {
        let mut log = Log::new();
        log.add("*", "job-controller", ("get", "", "secrets"), 0, "allow");
        log.add("job", "shared-informers", ("list", "", "secrets"), 0, "allow");
        let faults = log.proof.faults();
        assert_eq!(
            faults,
            [
                "not declared for job-controller: get secrets of \"\": such as /path",
                "not declared for shared-informers: list secrets of \"\": such as /path",
            ]
        );
    }

    #[test]
    fn a_forbidden_request_counts_unless_the_same_is_allowed_before_or_soon_after() {
        let mut log = Log::new();
        log.add("job", "job-controller", DELETE, 1, "forbid");
        log.add("job", "job-controller", ("patch", "", "pods"), 2, "allow");
        assert_eq!(log.proof.faults().len(), 1, "another verb is no repetition");
        log.add("job", "job-controller", DELETE, 15, "allow");
        assert_eq!((log.proof.faults(), log.proof.excused()), (Vec::new(), 1));
        log.add("job", "job-controller", DELETE, 20, "forbid");
        assert_eq!((log.proof.faults(), log.proof.excused()), (Vec::new(), 2));

        let mut log = Log::new();
        log.add("job", "job-controller", DELETE, 20, "forbid");
        log.add("job", "job-controller", DELETE, 40, "allow");
        let fault = "forbidden to job-controller: delete pods of \"\": 1 times, such as /path at \
                     2026-01-01T00:00:20.000001Z, 1.2";
        assert_eq!(log.proof.faults(), [fault], "it comes too late");
    }

    #[test]
    fn what_is_not_repeated_counts_unless_the_server_forbids_what_it_allows_at_about_that_time() {
        let rollout: [(&str, &str, &str); 3] =
            [("create", "", "pods"), ("update", "batch", "jobs/status"), ("get", "", "secrets")];
        let mut log = Log::new();
        for what in rollout {
            log.add("job", "job-controller", what, 10, "forbid");
        }
        assert_eq!(log.proof.faults().len(), 3);
        log.add("job", "job-controller", DELETE, 12, "forbid");
        log.add("job", "job-controller", DELETE, 13, "allow");
        let faults = log.proof.faults();
        assert!(faults.len() == 1 && faults[0].contains("get secrets"), "no rule allows it: {faults:?}");
        log.add("job", "job-controller", rollout[0], 40, "forbid");
        assert_eq!(log.proof.faults().len(), 2, "the server is warm by then");
    }

    #[test]
    fn what_every_controller_may_do_is_declared_for_all() {
        let mut log = Log::new();
        log.add("job", "cidrAllocator", ("create", "", "events"), 0, "allow");
        assert!(log.uses("all controllers", "events", "create"));
        assert_eq!(log.proof.faults(), [""; 0]);
    }
}
