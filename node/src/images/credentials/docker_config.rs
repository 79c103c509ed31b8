//! Docker's two forms of a file of logins.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

/// A login at a registry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Login {
    /// Who logs in.
    pub username: String,
    /// With what.
    pub password: String,
    /// Kept only since it counts in the login's hash.
    pub email: String,
}

/// Why a file of logins can't be used. The messages tell nothing of what the file holds.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not of the form.
    #[error("not a file of registry logins: line {line}, column {column}")]
    Parse {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// An entry's `auth` is not base64.
    #[error("the auth field of {0:?} is not base64")]
    AuthEncoding(String),
    /// An entry's `auth` has no colon.
    #[error("unable to parse auth field of {0:?}, must be formatted as base64(username:password)")]
    AuthForm(String),
}

/// Logins by registry, with or without a path, as the file names them.
pub(super) type Logins = BTreeMap<String, Login>;

type Entries = BTreeMap<String, Option<Entry>>;

/// An object as Go reads one: its members are named without regard to case, a later one goes before an earlier one, and
/// `null` is what is not there.
trait Members: Default {
    /// What is expected, for messages.
    const WHAT: &str;

    /// Takes the value of a member, in lower case; passes over those that it does not know.
    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, from: &mut A) -> Result<(), A::Error>;
}

struct AsInGo<T>(PhantomData<T>);

impl<'de, T: Members> Visitor<'de> for AsInGo<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<T, A::Error> {
        let mut read = T::default();
        while let Some(name) = from.next_key::<String>()? {
            read.take(&name.to_ascii_lowercase(), &mut from)?;
        }
        Ok(read)
    }
}

#[derive(Default)]
struct ConfigJson {
    auths: Entries,
}

impl Members for ConfigJson {
    const WHAT: &str = "a file of logins";

    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, from: &mut A) -> Result<(), A::Error> {
        match name {
            "auths" => match from.next_value::<Option<Entries>>()? {
                // Go goes on with the map it has.
                Some(more) => self.auths.extend(more),
                None => self.auths.clear(),
            },
            _ => _ = from.next_value::<IgnoredAny>()?,
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for ConfigJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(AsInGo(PhantomData))
    }
}

#[derive(Default)]
struct Entry {
    username: String,
    password: String,
    email: String,
    auth: String,
}

impl Members for Entry {
    const WHAT: &str = "a login";

    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, from: &mut A) -> Result<(), A::Error> {
        let member = match name {
            "username" => &mut self.username,
            "password" => &mut self.password,
            "email" => &mut self.email,
            "auth" => &mut self.auth,
            _ => {
                from.next_value::<IgnoredAny>()?;
                return Ok(());
            }
        };
        if let Some(text) = from.next_value()? {
            *member = text;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(AsInGo(PhantomData))
    }
}

/// `config.json`: the logins are under `auths`.
pub(super) fn parse_config_json(bytes: &[u8]) -> Result<Logins, Error> {
    let config: Option<ConfigJson> = serde_json::from_slice(bytes).map_err(parse_error)?;
    logins(config.unwrap_or_default().auths)
}

/// `.dockercfg`: nothing but logins.
pub(super) fn parse_dockercfg(bytes: &[u8]) -> Result<Logins, Error> {
    let entries: Option<Entries> = serde_json::from_slice(bytes).map_err(parse_error)?;
    logins(entries.unwrap_or_default())
}

/// serde's own message can quote the text, which is secret.
#[allow(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn parse_error(error: serde_json::Error) -> Error {
    Error::Parse { line: error.line(), column: error.column() }
}

fn logins(entries: Entries) -> Result<Logins, Error> {
    entries
        .into_iter()
        .map(|(registry, entry)| {
            let login = login(&registry, entry.unwrap_or_default())?;
            Ok((registry, login))
        })
        .collect()
}

/// `auth` wins over user name and password.
fn login(registry: &str, Entry { username, password, email, auth }: Entry) -> Result<Login, Error> {
    if auth.is_empty() {
        return Ok(Login { username, password, email });
    }
    // Docker writes it with padding, other tools without.
    let engine = if auth.trim().ends_with('=') { STANDARD } else { STANDARD_NO_PAD };
    // Go's decoder skips line ends.
    let text: String = auth.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let decoded = engine.decode(text).map_err(|_| Error::AuthEncoding(registry.to_owned()))?;
    let decoded = String::from_utf8_lossy(&decoded);
    let (username, password) = decoded.split_once(':').ok_or_else(|| Error::AuthForm(registry.to_owned()))?;
    Ok(Login { username: username.to_owned(), password: password.to_owned(), email })
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(username: &str, password: &str) -> Login {
        Login { username: username.into(), password: password.into(), email: String::new() }
    }

    #[test]
    fn both_forms_are_read_with_auth_or_in_the_clear() {
        for (entry, expected) in [
            (r#"{"auth": "dXNlcjpwYXNzd29yZA=="}"#, login("user", "password")),
            (r#"{"auth": "dXNlcjpwYXNzd29yZA"}"#, login("user", "password")),
            (r#"{"username": "u", "password": "p:q"}"#, login("u", "p:q")),
            (r#"{"username": "u", "password": "p", "auth": "dXNlcjpwYTpzcw=="}"#, login("user", "pa:ss")),
            (r#"{"unknown": 1}"#, login("", "")),
            // As Go reads JSON.
            (r#"{"username": "u", "password": "p", "email": null, "auth": null}"#, login("u", "p")),
            (r#"{"Username": "u", "PASSWORD": "p"}"#, login("u", "p")),
            (r#"{"username": "old", "password": "p", "Username": "u"}"#, login("u", "p")),
            (r#"{"username": "u", "password": "p", "username": null}"#, login("u", "p")),
            ("null", login("", "")),
        ] {
            let expected = Logins::from([("reg.io".to_owned(), expected)]);
            let old = format!(r#"{{"reg.io": {entry}}}"#);
            let new = format!(r#"{{"auths": {old}, "credsStore": "x"}}"#);
            assert_eq!(parse_dockercfg(old.as_bytes()).unwrap(), expected, "{entry}");
            assert_eq!(parse_config_json(new.as_bytes()).unwrap(), expected, "{entry}");
        }
        for none in ["null", "{}", r#"{"auths": null}"#, r#"{"auths": {"reg.io": {}}, "auths": null}"#] {
            assert!(parse_config_json(none.as_bytes()).unwrap().is_empty(), "{none}");
        }
        assert!(parse_dockercfg(b"null").unwrap().is_empty());
        let both = parse_config_json(
            br#"{"auths": {"one": {}, "two": {"auth": "!"}}, "Auths": {"two": {"username": "u"}}}"#,
        );
        let expected = [("one".to_owned(), login("", "")), ("two".to_owned(), login("u", ""))];
        assert_eq!(both.unwrap(), Logins::from(expected));
    }

    #[test]
    fn a_bad_file_is_refused_without_telling_what_it_holds() {
        for (text, error) in [
            ("{", "not a file of registry logins: line 1, column 1"),
            (r#"{"reg.io": "hidden"}"#, "not a file of registry logins: line 1, column 19"),
            (r#"{"reg.io": {"auth": "!hidden"}}"#, "the auth field of \"reg.io\" is not base64"),
            (
                r#"{"reg.io": {"auth": "aGlkZGVu"}}"#,
                "unable to parse auth field of \"reg.io\", must be formatted as base64(username:password)",
            ),
        ] {
            assert_eq!(parse_dockercfg(text.as_bytes()).unwrap_err().to_string(), error, "{text}");
        }
    }
}
