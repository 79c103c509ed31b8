//! What a user must be allowed to do to make a request.

use http::Method;

/// The verb that goes with a method.
pub(super) fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The subresources of the node of which a user needs one for `path`, which is decoded; the narrowest first.
pub(super) fn subresources(path: &str) -> &'static [&'static str] {
    let below = |root| is_below(path, root);
    if below("/pods") || below("/runningpods") {
        &["pods", "proxy"]
    } else if below("/healthz") {
        &["healthz", "proxy"]
    } else if below("/configz") {
        &["configz", "proxy"]
    } else if below("/stats") {
        &["stats"]
    } else if below("/metrics") {
        &["metrics"]
    } else if below("/logs") {
        &["log"]
    } else if below("/checkpoint") {
        &["checkpoint"]
    } else if below("/statusz") {
        &["statusz"]
    } else if below("/flagz") {
        &["configz"]
    } else {
        &["proxy"]
    }
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_need_upstreams_subresources() {
        for (path, needed) in [
            ("/pods", &["pods", "proxy"][..]),
            ("/pods/", &["pods", "proxy"]),
            ("/podsx", &["proxy"]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/runningpods", &["pods", "proxy"]),
            ("/healthz", &["healthz", "proxy"]),
            ("/healthz/syncloop", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/stats/summary", &["stats"]),
            ("/metrics", &["metrics"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/logs/", &["log"]),
            ("/checkpoint/ns/p/c", &["checkpoint"]),
            ("/statusz", &["statusz"]),
            ("/flagz", &["configz"]),
            ("/exec/ns/p/c", &["proxy"]),
            ("/attach/ns/p/c", &["proxy"]),
            ("/run/ns/p/c", &["proxy"]),
            ("/portForward/ns/p", &["proxy"]),
            ("/containerLogs/ns/p/c", &["proxy"]),
            ("/debug/pprof/", &["proxy"]),
            ("/", &["proxy"]),
            ("", &["proxy"]),
        ] {
            assert_eq!(subresources(path), needed, "{path}");
        }
    }

    #[test]
    fn methods_have_upstreams_verbs() {
        for (method, of_it) in [
            (Method::GET, "get"),
            (Method::POST, "create"),
            (Method::PUT, "update"),
            (Method::PATCH, "patch"),
            (Method::DELETE, "delete"),
            (Method::HEAD, ""),
        ] {
            assert_eq!(verb(&method), of_it, "{method}");
        }
    }
}
