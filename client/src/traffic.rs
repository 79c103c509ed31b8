//! Classes of requests that do not share connections.

use http::{Method, Request};

/// What a request is to the connections: each class has its own, so that none waits behind another.
///
/// It is told by the request (see [`Traffic::of`]), or by a `Traffic` put among its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// Streams that stay open for minutes: many at once, hence spread over several connections.
    Watch,
    /// Gets and lists.
    Read,
    /// What changes objects.
    Write,
    /// Renewal of a lease. Never told by the request itself.
    Lease,
}

impl Traffic {
    /// The class of `request`.
    pub fn of<B>(request: &Request<B>) -> Self {
        if let Some(traffic) = request.extensions().get::<Traffic>() {
            return *traffic;
        }
        match *request.method() {
            Method::GET if is_watch(request) => Traffic::Watch,
            Method::GET | Method::HEAD | Method::OPTIONS => Traffic::Read,
            _ => Traffic::Write,
        }
    }
}

/// Whether the query asks for a watch, by the API server's reading of booleans.
pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::GET
        && query.split('&').any(|parameter| matches!(parameter, "watch" | "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_is_told_by_method_and_query_unless_the_request_says_otherwise() {
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/pods?watch=true&resourceVersion=1", Traffic::Watch),
            (Method::GET, "/api/v1/pods?resourceVersion=1&watch=1", Traffic::Watch),
            (Method::GET, "/api/v1/pods?watch=false", Traffic::Read),
            (Method::GET, "/api/v1/namespaces/watch=true/pods", Traffic::Read),
            (Method::POST, "/api/v1/namespaces/a/pods", Traffic::Write),
            (Method::DELETE, "/api/v1/pods?watch=true", Traffic::Write),
        ] {
            let mut request = Request::builder().method(method.clone()).uri(uri).body(()).unwrap();
            assert_eq!(Traffic::of(&request), expected, "{method} {uri}");
            request.extensions_mut().insert(Traffic::Lease);
            assert_eq!(Traffic::of(&request), Traffic::Lease);
        }
    }
}
