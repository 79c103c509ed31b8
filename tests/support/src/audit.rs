//! What the API server's audit log says of the managers' requests.

use std::collections::BTreeSet;

use serde_json::Value;

const ACCOUNT: &str = "system:serviceaccount:kube-system:";
/// kube-controller-manager's own user, whose token is [`MANAGER_TOKEN`](super::real::MANAGER_TOKEN).
pub const MANAGER: &str = "system:kube-controller-manager";

/// The requests of a manager and its controllers: the user's name without its prefix, and the logged request.
pub fn requests(log: &[Value]) -> impl Iterator<Item = (&str, &Value)> {
    log.iter().filter_map(|request| {
        let user = request["user"]["username"].as_str()?;
        (user == MANAGER).then_some(user).or(user.strip_prefix(ACCOUNT)).map(|user| (user, request))
    })
}

/// The verb and the resource of a request.
pub fn action(request: &Value) -> String {
    let object = &request["objectRef"];
    let resource = object["resource"].as_str().or(request["requestURI"].as_str()).unwrap_or_default();
    let subresource = object["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
    format!("{} {resource}{subresource}", request["verb"].as_str().unwrap_or_default())
}

/// Whether a request may change something.
pub fn is_write(request: &Value) -> bool {
    !matches!(request["verb"].as_str(), Some("get" | "list" | "watch"))
}

/// The requests of the managers that the API server has forbidden, each as user, verb, resource and path.
///
/// Creations in a namespace that is being deleted do not count: managers can't know of each deletion in time.
pub fn forbidden(log: &[Value]) -> BTreeSet<String> {
    let is_forbidden = |request: &Value| {
        let response = &request["responseStatus"];
        let too_late = response["message"].as_str().is_some_and(|why| why.contains("is being terminated"));
        request["annotations"]["authorization.k8s.io/decision"] == "forbid"
            || (response["code"] == 403 && !too_late)
    };
    requests(log)
        .filter(|(_, request)| is_forbidden(request))
        .map(|(user, request)| format!("{user}: {} {}", action(request), request["requestURI"]))
        .collect()
}
