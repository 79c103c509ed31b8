//! What a path leads to.

use http::Method;
use steersman_api::Uid;

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    Healthz,
    /// One check of it.
    HealthzCheck(Check),
    Pods,
    RunningPods,
    Configz,
    Metrics,
    /// What pods and containers use.
    ResourceMetrics,
    /// What probes of pods found.
    ProbeMetrics,
    ContainerLogs(ContainerPath),
    Exec(ContainerPath),
    Attach(ContainerPath),
    Run(ContainerPath),
    PortForward(PodPath),
    /// Something of the kubelet's that is not offered here, and the words for it.
    Disabled(&'static str),
    /// The path is known, the method is not for it.
    WrongMethod,
    NotFound,
}

/// The checks of health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Ping,
    Log,
    SyncLoop,
}

/// A pod, as a path names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PodPath {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Option<Uid>,
}

/// A container, as a path names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerPath {
    pub(super) pod: PodPath,
    pub(super) container: String,
}

/// What all paths that look into containers say where that is switched off.
pub(super) const DEBUGGING_DISABLED: &str = "Debug endpoints are disabled.";

/// Where `path`, which is decoded, leads. Paths are taken literally: an empty segment, `.` and `..` lead nowhere.
pub(super) fn route(method: &Method, path: &str) -> Route {
    let Some(path) = path.strip_prefix('/') else { return Route::NotFound };
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Vec<&str> = path.split('/').collect();
    if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
        return Route::NotFound;
    }
    let (root, rest) = (segments[0], &segments[1..]);
    let allowing = |methods: &[Method], route: Option<Route>| match route {
        Some(_) if !methods.contains(method) => Route::WrongMethod,
        route => route.unwrap_or(Route::NotFound),
    };
    let streamed = [Method::GET, Method::POST];
    match (root, rest) {
        ("healthz", []) => Route::Healthz,
        ("healthz", ["ping"]) => Route::HealthzCheck(Check::Ping),
        ("healthz", ["log"]) => Route::HealthzCheck(Check::Log),
        ("healthz", ["syncloop"]) => Route::HealthzCheck(Check::SyncLoop),
        ("pods", []) => allowing(&[Method::GET], Some(Route::Pods)),
        ("runningpods", []) => allowing(&[Method::GET], Some(Route::RunningPods)),
        ("configz", []) => allowing(&[Method::GET], Some(Route::Configz)),
        ("metrics", []) => allowing(&[Method::GET], Some(Route::Metrics)),
        ("metrics", ["resource"]) => allowing(&[Method::GET], Some(Route::ResourceMetrics)),
        ("metrics", ["probes"]) => allowing(&[Method::GET], Some(Route::ProbeMetrics)),
        ("containerLogs", [_, _, _]) => allowing(&[Method::GET], container(rest).map(Route::ContainerLogs)),
        ("exec", _) => allowing(&streamed, container(rest).map(Route::Exec)),
        ("attach", _) => allowing(&streamed, container(rest).map(Route::Attach)),
        ("run", _) => allowing(&[Method::POST], container(rest).map(Route::Run)),
        ("portForward", [namespace, name]) => {
            allowing(&streamed, Some(Route::PortForward(pod(namespace, name, None))))
        }
        ("portForward", [namespace, name, uid]) => {
            allowing(&streamed, Some(Route::PortForward(pod(namespace, name, Some(uid)))))
        }
        ("checkpoint", [_, _, _]) => Route::Disabled("checkpoint endpoint is disabled."),
        ("logs", _) => Route::Disabled("logs endpoint is disabled."),
        ("debug", ["pprof", ..]) => Route::Disabled("profiling endpoint is disabled."),
        ("debug", ["flags", ..]) => Route::Disabled("flags endpoint is disabled."),
        _ => Route::NotFound,
    }
}

/// The same, on a node that lets nobody look into its containers (`enableDebuggingHandlers: false`).
pub(super) fn route_without_debugging(method: &Method, path: &str) -> Route {
    match route(method, path) {
        Route::RunningPods
        | Route::ContainerLogs(_)
        | Route::Exec(_)
        | Route::Attach(_)
        | Route::Run(_)
        | Route::PortForward(_)
        | Route::Disabled(_) => Route::Disabled(DEBUGGING_DISABLED),
        Route::Configz => Route::NotFound,
        other => other,
    }
}

fn pod(namespace: &str, name: &str, uid: Option<&str>) -> PodPath {
    PodPath { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.map(Uid::from) }
}

fn container(segments: &[&str]) -> Option<ContainerPath> {
    let (pod, container) = match segments {
        [namespace, name, container] => (pod(namespace, name, None), container),
        [namespace, name, uid, container] => (pod(namespace, name, Some(uid)), container),
        _ => return None,
    };
    Some(ContainerPath { pod, container: (*container).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uid: Option<&str>) -> ContainerPath {
        ContainerPath { pod: pod("ns", "p", uid), container: "c".to_owned() }
    }

    #[test]
    fn paths_lead_where_upstream_has_them() {
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, leads_to) in [
            (&get, "/healthz", Route::Healthz),
            (&get, "/healthz/ping", Route::HealthzCheck(Check::Ping)),
            (&get, "/healthz/syncloop", Route::HealthzCheck(Check::SyncLoop)),
            (&get, "/healthz/log", Route::HealthzCheck(Check::Log)),
            (&get, "/healthz/other", Route::NotFound),
            (&get, "/pods", Route::Pods),
            (&get, "/pods/", Route::Pods),
            (&post, "/pods", Route::WrongMethod),
            (&get, "/runningpods/", Route::RunningPods),
            (&get, "/configz", Route::Configz),
            (&get, "/metrics", Route::Metrics),
            (&get, "/metrics/resource", Route::ResourceMetrics),
            (&get, "/metrics/probes", Route::ProbeMetrics),
            (&get, "/metrics/cadvisor", Route::NotFound),
            (&get, "/stats/summary", Route::NotFound),
            (&get, "/containerLogs/ns/p/c", Route::ContainerLogs(of(None))),
            (&get, "/containerLogs/ns/p/u/c", Route::NotFound),
            (&get, "/exec/ns/p/c", Route::Exec(of(None))),
            (&post, "/exec/ns/p/u/c", Route::Exec(of(Some("u")))),
            (&Method::PUT, "/exec/ns/p/c", Route::WrongMethod),
            (&get, "/exec/ns/p", Route::NotFound),
            (&get, "/exec/ns/../c", Route::NotFound),
            (&get, "/exec//p/c", Route::NotFound),
            (&get, "/pods/../exec/ns/p/c", Route::NotFound),
            (&post, "/attach/ns/p/c", Route::Attach(of(None))),
            (&post, "/attach/ns/p/u/c", Route::Attach(of(Some("u")))),
            (&post, "/run/ns/p/c", Route::Run(of(None))),
            (&post, "/run/ns/p/u/c", Route::Run(of(Some("u")))),
            (&get, "/run/ns/p/c", Route::WrongMethod),
            (&post, "/portForward/ns/p", Route::PortForward(pod("ns", "p", None))),
            (&get, "/portForward/ns/p/u", Route::PortForward(pod("ns", "p", Some("u")))),
            (&get, "/portForward/ns/p/u/x", Route::NotFound),
            (&get, "/logs/", Route::Disabled("logs endpoint is disabled.")),
            (&get, "/logs/syslog", Route::Disabled("logs endpoint is disabled.")),
            (&post, "/checkpoint/ns/p/c", Route::Disabled("checkpoint endpoint is disabled.")),
            (&get, "/debug/pprof/heap", Route::Disabled("profiling endpoint is disabled.")),
            (&get, "/", Route::NotFound),
            (&get, "", Route::NotFound),
            (&get, "*", Route::NotFound),
        ] {
            assert_eq!(route(method, path), leads_to, "{method} {path}");
        }
    }

    #[test]
    fn without_debugging_nobody_looks_into_containers() {
        let disabled = Route::Disabled(DEBUGGING_DISABLED);
        for path in ["/runningpods/", "/exec/ns/p/c", "/containerLogs/ns/p/c", "/portForward/ns/p", "/logs/"]
        {
            assert_eq!(route_without_debugging(&Method::GET, path), disabled, "{path}");
        }
        assert_eq!(route_without_debugging(&Method::POST, "/run/ns/p/c"), disabled);
        assert_eq!(route_without_debugging(&Method::GET, "/configz"), Route::NotFound);
        assert_eq!(route_without_debugging(&Method::GET, "/pods"), Route::Pods);
    }
}
