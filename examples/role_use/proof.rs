//! Compares requests with the rights that the controllers declare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{Choice, Registry, Selection};

use crate::audit::{Origin, Request, SHIPPED};

/// How long a controller may read an object and update its status, instead of patching it, after the API server last forbade what the
/// role allows. A server that has not read its roles yet answers in a review that the controller may not patch.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(60);

/// The paths that every user may get, by the API server's own ClusterRole `system:discovery`.
const DISCOVERY: &[&str] = &["/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version"];

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

/// What was asked, by which client of a manager.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    client: String,
    verb: String,
    group: String,
    resource: String,
}

impl Asked {
    fn of(request: &Request) -> Self {
        Self {
            client: request.client().to_owned(),
            verb: request.verb.clone(),
            group: request.object.group.clone(),
            resource: request.resource(),
        }
    }

    /// The patch of a status in whose place this may be asked: a controller to which the API server says, in a review, that it may
    /// not patch a status reads the object and updates the status. The role allows neither.
    fn instead_of(&self) -> Option<Self> {
        let resource = match &*self.verb {
            "update" => self.resource.clone(),
            "get" => format!("{}/status", self.resource),
            _ => return None,
        };
        resource.ends_with("/status").then(|| Self { verb: "patch".to_owned(), resource, ..self.clone() })
    }
}

/// What the requests show.
pub(crate) struct Proof {
    registry: Registry,
    rows: Vec<Row>,
    declared: BTreeSet<Declared>,
    used: BTreeSet<Declared>,
    requests: usize,
    /// The number of refusals that say nothing about the role.
    excused: usize,
    /// When each API server, by its name, last forbade what the role allows.
    without_roles: BTreeMap<String, Timestamp>,
    /// What was allowed because the process needs it, not a controller.
    of_process: BTreeSet<Asked>,
    /// What was forbidden though the process needs it: how often, and an example.
    process_lacks: BTreeMap<Asked, (usize, String)>,
    /// The other faults, each once: how often, and an example.
    faults: BTreeMap<String, (usize, String)>,
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
            excused: 0,
            without_roles: BTreeMap::new(),
            of_process: BTreeSet::new(),
            process_lacks: BTreeMap::new(),
            faults: BTreeMap::new(),
        }
    }

    /// Takes the next request of an API server.
    pub(crate) fn add(&mut self, origin: Origin<'_>, request: &Request) {
        let is_shipped = request.user.username == SHIPPED;
        let asked = Asked::of(request);
        if request.is_forbidden() {
            // Other roles forbid what the role of the manifests allows.
            if is_shipped && !request.goes_on() {
                self.requests += 1;
                self.add_forbidden(origin, request, asked);
            }
            return;
        }
        self.requests += usize::from(is_shipped);
        let rights = self.rights_to(origin.controllers, request, &asked);
        let declared = !rights.is_empty();
        self.used.extend(rights);
        if !is_shipped {
            return;
        }
        let Asked { client, verb, group, resource } = &asked;
        let refusal = &*request.response.message;
        if request.response.code == 403 && !NO_RIGHTS.iter().any(|why| refusal.contains(why)) {
            let what = format!("refused to {client}: {verb} {resource} of \"{group}\"");
            self.fault(what, &format!("{} ({refusal})", request.uri));
        }
        let needed = !declared && request.is_allowed_by_role();
        if is_of_the_process(request) {
            self.of_process.insert(asked);
        } else if needed && self.stands_for_patch(origin, request, &asked) {
            self.excused += 1;
        } else if needed {
            let what = format!("not declared for {client}: {verb} {resource} of \"{group}\"");
            self.fault(what, &request.uri);
        }
    }

    /// Takes a request that RBAC forbade. The role of a test's API server has exactly the rights that the controllers declare. So one
    /// that forbids such a right has not read its roles yet, and the refusal says nothing; any other is a fault.
    fn add_forbidden(&mut self, origin: Origin<'_>, request: &Request, asked: Asked) {
        let declared = !self.rights_to(origin.controllers, request, &asked).is_empty();
        if declared || is_for_every_user(request) {
            self.without_roles.insert(origin.server.to_owned(), request.received);
            self.excused += 1;
        } else if self.stands_for_patch(origin, request, &asked) {
            self.excused += 1;
        } else if is_of_the_process(request) {
            let lack = self.process_lacks.entry(asked).or_insert((0, request.uri.clone()));
            lack.0 += 1;
        } else {
            let Asked { client, verb, group, resource } = &asked;
            let what = format!("forbidden to {client}: {verb} {resource} of \"{group}\"");
            self.fault(what, &format!("{} at {}, {}", request.uri, request.received, origin.server));
        }
    }

    fn fault(&mut self, what: String, example: &str) {
        self.faults.entry(what).or_insert((0, example.to_owned())).0 += 1;
    }

    /// Whether the controller may patch the status that it reads or updates here, and the API server lately may have denied it that.
    fn stands_for_patch(&self, origin: Origin<'_>, request: &Request, asked: &Asked) -> bool {
        let Some(patch) = asked.instead_of() else { return false };
        let without_roles = self.without_roles.get(origin.server);
        let lately = without_roles.is_some_and(|at| request.received.duration_since(*at) <= REMEMBERED);
        lately && !self.rights_to(origin.controllers, request, &patch).is_empty()
    }

    /// The rights to what the request asks that are declared for its controller, where that runs.
    fn rights_to(&self, controllers: Option<&Selection>, request: &Request, asked: &Asked) -> Vec<Declared> {
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
        rules
            .filter(|(_, rule)| allows_name(rule, &request.object.name))
            .flat_map(|(controller, rule)| rights(controller, rule))
            .filter(|right| allows(right, asked))
            .collect()
    }

    /// The number of requests under the role of the manifests.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// The number of refusals that say nothing about the role, since they came from API servers that had not read it yet; and of
    /// requests that were made because of such a refusal.
    pub(crate) fn excused(&self) -> usize {
        self.excused
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
        let process = self.process_lacks.iter().filter(|(asked, _)| !self.of_process.contains(asked));
        let process = process.map(|(asked, lack)| {
            let Asked { client, verb, group, resource } = asked;
            (format!("never allowed to {client}: {verb} {resource} of \"{group}\""), lack)
        });
        let others = self.faults.iter().map(|(what, fault)| (what.clone(), fault));
        let line =
            |(what, (count, example)): (String, &_)| format!("{what}: {count} times, such as {example}");
        process.chain(others).map(line).collect()
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

/// Whether every user may ask this: what the API server says of itself, and what the user may do, by the API server's own ClusterRole
/// `system:basic-user`.
fn is_for_every_user(request: &Request) -> bool {
    let (group, resource) = (&*request.object.group, &*request.object.resource);
    let path = request.uri.split('?').next().unwrap_or_default();
    let is_at =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match &*request.verb {
        "get" => resource.is_empty() && DISCOVERY.iter().any(|root| is_at(root)),
        "create" => (group, resource) == ("authorization.k8s.io", "selfsubjectaccessreviews"),
        _ => false,
    }
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
            self.add_at(controllers, client, what, "/path", at, decision);
        }

        fn add_at(
            &mut self,
            controllers: &str,
            client: &str,
            (verb, group, resource): (&str, &str, &str),
            path: &str,
            at: u32,
            decision: &str,
        ) {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let (minute, second) = (at / 60, at % 60);
            let request = serde_json::from_value(json!({
                "user": {"username": SHIPPED, "uid": "steersman-controller-manager-0"},
                "userAgent": format!("steersman/v0 (linux/amd64) kubernetes/{client}"),
                "stage": "ResponseComplete",
                "verb": verb,
                "requestURI": path,
                "objectRef":
                    {"apiGroup": group, "resource": resource, "subresource": subresource, "namespace": "kube-system"},
                "requestReceivedTimestamp": format!("2026-01-01T00:{minute:02}:{second:02}.000001Z"),
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
                "not declared for job-controller: get secrets of \"\": 1 times, such as /path",
                "not declared for shared-informers: list secrets of \"\": 1 times, such as /path",
            ]
        );
    }

    #[test]
    fn a_refusal_counts_unless_the_role_has_the_right() {
        let mut log = Log::new();
        log.add("job", "job-controller", DELETE, 1, "forbid");
        log.add("job", "job-controller", ("create", "", "events"), 1, "forbid");
        assert_eq!((log.proof.faults(), log.proof.excused()), (Vec::new(), 2));
        assert!(!log.uses("job-controller", "pods", "delete"), "it got nothing");
        for at in [2, 3] {
            log.add("job", "job-controller", ("get", "", "secrets"), at, "forbid");
        }
        log.add("-job,cronjob", "job-controller", DELETE, 4, "forbid");
        assert_eq!(
            log.proof.faults(),
            [
                "forbidden to job-controller: delete pods of \"\": 1 times, such as /path at \
                 2026-01-01T00:00:04.000001Z, 1.2",
                "forbidden to job-controller: get secrets of \"\": 2 times, such as /path at \
                 2026-01-01T00:00:02.000001Z, 1.2",
            ]
        );
    }

    #[test]
    fn a_status_is_updated_where_an_api_server_had_not_read_its_roles_lately() {
        const PATCH: (&str, &str, &str) = ("patch", "", "resourcequotas/status");
        const REVIEW: (&str, &str, &str) = ("create", "authorization.k8s.io", "selfsubjectaccessreviews");
        const UNDECLARED: (&str, &str, &str) = ("delete", "", "nodes");
        const INSTEAD: [(&str, &str, &str); 2] =
            [("get", "", "resourcequotas"), ("update", "", "resourcequotas/status")];
        const OF_OTHERS: (&str, &str, &str) = ("update", "apps", "replicasets/status");
        let add = |log: &mut Log, what, at, decision| {
            log.add("resourcequota", "resourcequota-controller", what, at, decision);
        };
        // The role of another controller may allow to read it: with wildcards.
        for decisions in [["forbid", "forbid"], ["allow", "forbid"], ["allow", "allow"]] {
            for (before, decision, at, faults) in [
                (PATCH, "forbid", 60, 0),
                (REVIEW, "forbid", 60, 0),
                (PATCH, "forbid", 61, 2),
                (PATCH, "allow", 1, 2),
                (UNDECLARED, "forbid", 1, 3),
            ] {
                let mut log = Log::new();
                add(&mut log, before, 0, decision);
                for (what, decision) in INSTEAD.into_iter().zip(decisions) {
                    add(&mut log, what, at, decision);
                }
                let found = log.proof.faults();
                assert_eq!(
                    found.len(),
                    faults,
                    "{before:?}: {decision}, {decisions:?} after {at} s: {found:?}"
                );
            }
        }
        let mut log = Log::new();
        add(&mut log, REVIEW, 0, "forbid");
        add(&mut log, OF_OTHERS, 1, "forbid");
        assert_eq!(log.proof.faults().len(), 1, "a status that the controller may not patch");
    }

    #[test]
    fn what_the_process_needs_is_a_fault_if_it_is_never_allowed() {
        let mut log = Log::new();
        let lease = ("update", "coordination.k8s.io", "leases");
        log.add("job", "leader-election", lease, 0, "forbid");
        let fault = "never allowed to leader-election: update leases of \"coordination.k8s.io\": 1 times, such as /path";
        assert_eq!(log.proof.faults(), [fault]);
        log.add("job", "leader-election", lease, 40, "allow");
        assert_eq!(log.proof.faults(), [""; 0]);
    }

    #[test]
    fn every_user_may_ask_what_an_api_server_serves_and_what_the_user_may_do() {
        let mut log = Log::new();
        let review = ("create", "authorization.k8s.io", "selfsubjectaccessreviews");
        log.add("resourcequota", "resourcequota-controller", review, 0, "forbid");
        for path in ["/version", "/api?timeout=32s", "/apis/batch/v1"] {
            log.add_at("job", "job-controller", ("get", "", ""), path, 0, "forbid");
        }
        assert_eq!(log.proof.faults(), [""; 0]);
        for path in ["/metrics", "/apish"] {
            log.add_at("job", "job-controller", ("get", "", ""), path, 0, "forbid");
        }
        assert_eq!(log.proof.faults().len(), 1);
    }

    #[test]
    fn what_every_controller_may_do_is_declared_for_all() {
        let mut log = Log::new();
        log.add("job", "cidrAllocator", ("create", "", "events"), 0, "allow");
        assert!(log.uses("all controllers", "events", "create"));
        assert_eq!(log.proof.faults(), [""; 0]);
    }
}
