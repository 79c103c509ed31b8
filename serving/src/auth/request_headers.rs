//! Users whom a trusted proxy names in headers, as the aggregation layer of the API server does.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::RwLock;
use percent_encoding::percent_decode_str;

use super::client_ca::ClientCa;
use super::client_certificates::ClientCertificates;
use super::user::User;

/// The headers in which proxies name users, and the proxies that may do so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderNames {
    /// Headers with the user's name. The first one that has a value counts.
    pub users: Vec<String>,
    /// Headers with the user's uid. The first one that has a value counts.
    pub uids: Vec<String>,
    /// Headers with the user's groups. All values count.
    pub groups: Vec<String>,
    /// Prefixes of headers with further facts about the user.
    pub extra_prefixes: Vec<String>,
    /// The common names of the proxies' certificates. If empty, any certificate of the authorities will do.
    pub allowed_proxies: Vec<String>,
}

/// Proxies that name users in headers. A proxy shows a client certificate of certain authorities.
#[derive(Debug)]
pub struct RequestHeaders {
    authorities: Arc<ClientCa>,
    names: RwLock<Arc<HeaderNames>>,
}

impl RequestHeaders {
    /// Proxies with certificates of these authorities.
    pub fn new(authorities: Arc<ClientCa>, names: HeaderNames) -> Self {
        Self { authorities, names: RwLock::new(Arc::new(names)) }
    }

    /// Replaces the names of headers and proxies.
    pub(super) fn set_names(&self, names: HeaderNames) {
        *self.names.write() = Arc::new(names);
    }

    /// The authorities of the proxies' certificates.
    pub(super) fn authorities(&self) -> &Arc<ClientCa> {
        &self.authorities
    }

    /// Whether a proxy made the connection.
    pub(super) async fn is_proxy(&self, certificates: &ClientCertificates) -> bool {
        let names = self.names.read().clone();
        matches!(self.proxy(certificates, &names).await, Ok(true))
    }

    /// The user whom the headers of a request name, if a proxy sent it and named one.
    ///
    /// # Errors
    /// If the connection's certificate is not that of a proxy.
    pub(super) async fn user(
        &self,
        certificates: &ClientCertificates,
        headers: &HeaderMap,
    ) -> Result<Option<User>, String> {
        let names = self.names.read().clone();
        match self.proxy(certificates, &names).await? {
            true => Ok(named_user(&names, headers)),
            false => Ok(None),
        }
    }

    /// Whether the connection's certificate is that of a proxy. `false` if there are no authorities.
    async fn proxy(&self, certificates: &ClientCertificates, names: &HeaderNames) -> Result<bool, String> {
        let Some(common_name) = self.authorities.proxy(certificates).await? else { return Ok(false) };
        if names.allowed_proxies.is_empty() || names.allowed_proxies.contains(&common_name) {
            return Ok(true);
        }
        Err(format!("x509: subject with cn={common_name} is not in the allowed list"))
    }
}

fn named_user(names: &HeaderNames, headers: &HeaderMap) -> Option<User> {
    let first = |names: &[String]| {
        let mut values = names.iter().filter_map(|name| headers.get(&**name)?.to_str().ok());
        values.find(|value| !value.is_empty()).map(str::to_owned)
    };
    let values = names.groups.iter().flat_map(|name| headers.get_all(&**name));
    let groups = values.filter_map(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for prefix in &names.extra_prefixes {
        let prefix = prefix.to_ascii_lowercase();
        // Names of headers are in lower case here.
        for (name, value) in headers {
            let Some(key) = name.as_str().strip_prefix(&*prefix) else { continue };
            let key = percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Into::into);
            let Ok(value) = value.to_str().map(str::to_owned) else { continue };
            match extra.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => extra.push((key, vec![value])),
            }
        }
    }
    extra.sort();
    Some(User {
        name: first(&names.users)?,
        uid: first(&names.uids).unwrap_or_default(),
        groups: groups.map(str::to_owned).collect(),
        extra,
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn headers_name_the_user() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let names = HeaderNames {
            users: list(&["X-Remote-User", "X-Other-User"]),
            uids: list(&["X-Remote-Uid"]),
            groups: list(&["X-Remote-Group"]),
            extra_prefixes: list(&["X-Remote-Extra-"]),
            allowed_proxies: Vec::new(),
        };
        let named = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            named_user(&names, &headers.collect())
        };
        assert_eq!(named(&[]), None);
        assert_eq!(named(&[("x-remote-group", "g")]), None);
        assert_eq!(named(&[("x-remote-user", "")]), None);
        assert_eq!(named(&[("x-remote-user", ""), ("x-other-user", "b")]).unwrap().name, "b");
        let user = named(&[
            ("x-remote-user", "a"),
            ("x-other-user", "b"),
            ("x-remote-uid", "1"),
            ("x-remote-group", "g"),
            ("x-remote-group", ""),
            ("x-remote-group", "h"),
            ("x-remote-extra-scopes", "s"),
            ("x-remote-extra-scopes", "t"),
            ("x-remote-extra-a%2fb", "c"),
        ]);
        let extra = vec![("a/b".to_owned(), list(&["c"])), ("scopes".to_owned(), list(&["s", "t"]))];
        let expected = User { name: "a".into(), uid: "1".into(), groups: list(&["g", "h"]), extra };
        assert_eq!(user, Some(expected));
    }
}
