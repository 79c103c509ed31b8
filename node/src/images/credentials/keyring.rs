//! Which logins are tried for which image.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::Secret;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::docker_config::{self, Login, Logins};
use super::glob;
use crate::cri::v1;
use crate::kuberuntime::go_json;

/// A login, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// What to log in with.
    pub login: Login,
    /// The secret that it is from; `None` for one of the node, which every pod may use.
    pub secret: Option<SecretCoordinates>,
}

/// Which secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretCoordinates {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// A pull secret can't be used. It won't do before the secret is changed.
#[derive(Debug, thiserror::Error)]
#[error("image pull secret \"{namespace}/{name}\": {key}: {source}")]
pub struct Error {
    /// The secret's namespace.
    pub namespace: String,
    /// The secret's name.
    pub name: String,
    /// Where in it.
    pub key: &'static str,
    /// What is wrong there.
    pub source: docker_config::Error,
}

/// Credentials by the registry, or the path in one, that they are for.
#[derive(Debug, Default)]
pub struct Keyring {
    /// By host, port and path, without scheme. Those of one place in the order in which they were added.
    places: BTreeMap<String, Vec<Credential>>,
}

/// Docker Hub's name in files of logins.
const DEFAULT_REGISTRY: &str = "index.docker.io";

impl Keyring {
    /// The logins of those of the secrets that have some: types `kubernetes.io/dockerconfigjson` and
    /// `kubernetes.io/dockercfg`. Others are passed over.
    ///
    /// # Errors
    /// One is broken; as upstream, none is used then.
    pub fn from_secrets(secrets: &[Secret]) -> Result<Self, Error> {
        type Parse = fn(&[u8]) -> Result<Logins, docker_config::Error>;
        let mut keyring = Self::default();
        for secret in secrets {
            let (key, parse): (&'static str, Parse) = match secret.type_.as_deref() {
                Some("kubernetes.io/dockerconfigjson") => {
                    (".dockerconfigjson", docker_config::parse_config_json)
                }
                Some("kubernetes.io/dockercfg") => (".dockercfg", docker_config::parse_dockercfg),
                _ => continue,
            };
            let data = secret.data.as_ref().and_then(|data| data.get(key)).filter(|data| !data.0.is_empty());
            let Some(data) = data else { continue };
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let coordinates = SecretCoordinates {
                namespace: text(&secret.metadata.namespace),
                name: text(&secret.metadata.name),
                uid: text(&secret.metadata.uid),
            };
            match parse(&data.0) {
                Ok(logins) => keyring.add(Some(&coordinates), logins),
                Err(source) => {
                    let SecretCoordinates { namespace, name, .. } = coordinates;
                    return Err(Error { namespace, name, key, source });
                }
            }
        }
        Ok(keyring)
    }

    /// Adds logins by what a file calls their registries; what is no registry is passed over.
    pub(super) fn add(&mut self, secret: Option<&SecretCoordinates>, logins: Logins) {
        for (registry, login) in logins {
            let Some(place) = place(&registry) else {
                tracing::warn!(
                    registry,
                    ?secret,
                    "An entry of a file of registry logins is no address: ignored"
                );
                continue;
            };
            self.places.entry(place).or_default().push(Credential { login, secret: secret.cloned() });
        }
    }

    /// The credentials to try for a repository with its host, those of the most specific place first.
    pub fn lookup(&self, repository: &str) -> Vec<Credential> {
        let fitting = self.places.iter().rev().filter(|(place, _)| place_matches(place, repository));
        let found: Vec<_> = fitting.flat_map(|(_, credentials)| credentials).cloned().collect();
        if found.is_empty() && is_of_default_registry(repository) {
            return self.places.get(DEFAULT_REGISTRY).cloned().unwrap_or_default();
        }
        found
    }
}

impl Credential {
    /// As the runtime takes it.
    pub fn auth(&self) -> v1::AuthConfig {
        v1::AuthConfig {
            username: self.login.username.clone(),
            password: self.login.password.clone(),
            ..Default::default()
        }
    }

    /// The login's hash, as upstream's records of pulled images have it.
    pub fn hash(&self) -> String {
        #[derive(Serialize)]
        struct AuthConfig<'a> {
            #[serde(skip_serializing_if = "str::is_empty")]
            username: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            password: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            email: &'a str,
        }
        let Login { username, password, email } = &self.login;
        sha256(go_json::to_string(&AuthConfig { username, password, email }).as_bytes())
    }
}

/// In hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Host, port and path of a registry's address, with or without a scheme. The path of Docker's own API versions counts as
/// none.
fn place(address: &str) -> Option<String> {
    let rest =
        address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or(address);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let allowed =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(c);
    let port =
        if host.starts_with('[') { host.rsplit(']').next() } else { host.find(':').map(|at| &host[at..]) };
    let port_is_good = port.unwrap_or_default().trim_start_matches(':').bytes().all(|b| b.is_ascii_digit());
    if !host.chars().all(allowed) || !port_is_good || path.chars().any(char::is_control) {
        return None;
    }
    let path = if path.starts_with("/v1/") || path.starts_with("/v2/") { &path[3..] } else { path };
    Some(if path == "/" { host.to_owned() } else { format!("{host}{path}") })
}

/// Whether logins for `place` are for `repository`: each part of the host fits its pattern, the ports are the same, and the
/// place's path is what the repository's begins with.
fn place_matches(place: &str, repository: &str) -> bool {
    let split = |text: &str| {
        let (host, path) = text.find('/').map_or((text, ""), |at| text.split_at(at));
        let (host, port) = host_and_port(host);
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let ((pattern, pattern_port, prefix), (host, port, path)) = (split(place), split(repository));
    let (patterns, parts): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), host.split('.').collect());
    pattern_port == port
        && patterns.len() == parts.len()
        && path.starts_with(&prefix)
        && patterns.iter().zip(&parts).all(|(pattern, part)| glob::matches(pattern, part))
}

/// A colon in an address of IPv6 without brackets is none before a port.
fn host_and_port(text: &str) -> (&str, &str) {
    if let Some(rest) = text.strip_prefix('[') {
        return match rest.split_once("]:") {
            Some((host, port)) if !port.contains(':') => (host, port),
            _ => (text, ""),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, port),
        _ => (text, ""),
    }
}

/// Docker Hub's images are those without a host, or with one of its two names.
fn is_of_default_registry(repository: &str) -> bool {
    match repository.split_once('/') {
        Some(("", _)) => false,
        Some(("docker.io" | DEFAULT_REGISTRY, _)) => true,
        Some((first, _)) => !first.contains(['.', ':']),
        None => !repository.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn ring_of(places: &[&str]) -> Keyring {
        let mut keyring = Keyring::default();
        for place in places {
            let login = Login { username: (*place).into(), ..Default::default() };
            keyring.add(None, Logins::from([((*place).to_owned(), login)]));
        }
        keyring
    }

    fn secret(name: &str, type_: &str, key: &str, data: &str) -> Secret {
        let mut secret = Secret { type_: Some(type_.into()), ..Default::default() };
        secret.metadata.name = Some(name.into());
        secret.metadata.namespace = Some("shop".into());
        secret.metadata.uid = Some(format!("uid-{name}"));
        secret.data = Some([(key.to_owned(), ByteString(data.into()))].into());
        secret
    }

    #[test]
    fn the_most_specific_place_comes_first_and_globs_fit_part_by_part() {
        for (places, repository, expected) in [
            (
                &["reg.io", "reg.io/team", "reg.io/other"][..],
                "reg.io/team/app",
                &["reg.io/team", "reg.io"][..],
            ),
            (&["reg.io"], "reg.io:5000/app", &[]),
            (&["reg.io:5000"], "reg.io:5000/app", &["reg.io:5000"]),
            (&["*.reg.io"], "eu.reg.io/app", &["*.reg.io"]),
            (&["*.reg.io"], "a.eu.reg.io/app", &[]),
            (&["*.io"], "reg.io/app", &["*.io"]),
            (&["prefix-*.reg.io/a"], "prefix-1.reg.io/ab", &["prefix-*.reg.io/a"]),
            (&["https://reg.io/v1/"], "reg.io/app", &["https://reg.io/v1/"]),
            (&["http://reg.io/v2/team"], "reg.io/team/app", &["http://reg.io/v2/team"]),
            (&["reg.io/v1"], "reg.io/app", &[]),
            (&["https://index.docker.io/v1/"], "docker.io/library/app", &["https://index.docker.io/v1/"]),
            (&["docker.io", "index.docker.io"], "docker.io/library/app", &["docker.io"]),
            (&["index.docker.io"], "reg.io/app", &[]),
            (&["re g.io", "reg.io:port"], "reg.io/app", &[]),
            (&["[::1]:5000"], "[::1]:5000/app", &["[::1]:5000"]),
        ] {
            let found: Vec<_> =
                ring_of(places).lookup(repository).into_iter().map(|found| found.login.username).collect();
            assert_eq!(found, expected, "{places:?} {repository}");
        }
    }

    #[test]
    fn secrets_of_both_types_give_logins_in_their_order() {
        let entry = |user: &str| format!(r#"{{"reg.io": {{"username": "{user}", "password": "p"}}}}"#);
        let json = |user| format!(r#"{{"auths": {}}}"#, entry(user));
        let secrets = [
            secret("a", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json("one")),
            secret("b", "kubernetes.io/dockercfg", ".dockercfg", &entry("two")),
            secret("c", "kubernetes.io/dockercfg", ".dockerconfigjson", &json("wrong type")),
            secret("d", "Opaque", ".dockercfg", &entry("opaque")),
            secret("e", "kubernetes.io/dockercfg", ".dockercfg", ""),
        ];
        let found = Keyring::from_secrets(&secrets).unwrap().lookup("reg.io/app");
        let told: Vec<_> = found
            .iter()
            .map(|found| (found.login.username.as_str(), found.secret.as_ref().unwrap().uid.as_str()))
            .collect();
        assert_eq!(told, [("one", "uid-a"), ("two", "uid-b")]);
    }

    #[test]
    fn a_broken_secret_is_named() {
        let broken = secret("a", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{");
        let error = Keyring::from_secrets(&[broken]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "image pull secret \"shop/a\": .dockerconfigjson: not a file of registry logins: line 1, column 1"
        );
    }

    #[test]
    fn a_logins_hash_is_upstreams() {
        let login = Login { username: "user".into(), password: "password".into(), email: String::new() };
        let credential = Credential { login, secret: None };
        assert_eq!(credential.hash(), "a55436fc140d516560d072c5fe8700385ce9f41629abf65c1edcbcb39fac691d");
    }
}
