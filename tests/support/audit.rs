//! What the API server's audit log says of the managers' requests.

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
