//! The classes of requests, which do not share connections.

use http::{Method, Request};

/// The class of a request. Each class has its own connections, so that no class waits behind another.
///
/// [`Traffic::of`] determines the class from the request, unless the request's extensions contain a `Traffic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// Watches: many streams that stay open for minutes, so they are spread over several connections.
    Watch,
    /// Watches whose events the transport reads in batches. The transport's
    /// [options](crate::transport::Options::batched_watches) select them; [`Traffic::of`] never returns this class.
    BatchedWatch,
    /// Gets and lists.
    Read,
    /// Requests that change objects.
    Write,
    /// Renewals of a lease. Only the request's extensions can tell this class.
    Lease,
}

impl Traffic {
    /// Returns the class of `request`.
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

/// Whether the query asks for a watch, with booleans as the API server reads them.
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
