//! Bootstrap tokens, with which new nodes join a cluster: how a token and its Secret are written.
//!
//! A token is `ID.SECRET`. Its Secret is `kube-system/bootstrap-token-ID`, of the type [`SECRET_TYPE`], with the keys below.

use std::collections::BTreeSet;

use jiff::{Timestamp, civil};

/// The type of the Secrets of bootstrap tokens.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The namespace of these Secrets.
pub const NAMESPACE: &str = "kube-system";
/// The prefix of the names of these Secrets. The token's id follows.
pub const NAME_PREFIX: &str = "bootstrap-token-";

/// The key of the token's id.
pub const ID: &str = "token-id";
/// The key of the token's secret part.
pub const SECRET: &str = "token-secret";
/// The key of the time at which the token expires. Without it, the token does not expire.
pub const EXPIRATION: &str = "expiration";
/// The key that says whether the token signs the ConfigMap `cluster-info`: `true` or anything else.
pub const USAGE_SIGNING: &str = "usage-bootstrap-signing";
/// The key that says whether the token authenticates at the API server: `true` or anything else.
pub const USAGE_AUTHENTICATION: &str = "usage-bootstrap-authentication";
/// The key of further groups of the token's user, separated by commas.
pub const EXTRA_GROUPS: &str = "auth-extra-groups";

/// The prefix of the user names of bootstrap tokens. The token's id follows.
pub const USER_PREFIX: &str = "system:bootstrap:";
/// The group of all bootstrap tokens.
pub const GROUP: &str = "system:bootstrappers";

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
/// Maximum length of the name of a further group, without [`GROUP`] and the colon after it.
const MAX_GROUP: usize = 256;

/// Splits a token into its id and its secret part. `None` if the text is no bootstrap token.
pub fn split(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    (is_word(id, ID_LENGTH) && is_word(secret, SECRET_LENGTH)).then_some((id, secret))
}

/// The id in the name of a token's Secret. `None` if it is not the name of one.
pub fn id_in_name(name: &str) -> Option<&str> {
    name.strip_prefix(NAME_PREFIX).filter(|id| is_word(id, ID_LENGTH))
}

fn is_word(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// When a token expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Never: its Secret has no time.
    #[default]
    Never,
    /// At this time.
    At(Timestamp),
    /// Its Secret has something that is no time. The token counts as expired.
    Invalid,
}

impl Expiry {
    /// Reads the value of [`EXPIRATION`]; empty if the Secret has none.
    pub fn parse(text: &str) -> Self {
        if text.is_empty() { Self::Never } else { rfc3339(text).map_or(Self::Invalid, Self::At) }
    }

    /// Whether the token has expired.
    pub fn has_passed(self, now: Timestamp) -> bool {
        match self {
            Self::Never => false,
            Self::At(time) => time <= now,
            Self::Invalid => true,
        }
    }
}

/// A time in RFC 3339, as Go reads it. jiff's own parser accepts more, such as a space in place of the `T`, and a token would
/// be good for one program and expired for another.
fn rfc3339(text: &str) -> Option<Timestamp> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    let (stamp, rest) = text.as_bytes().split_at_checked(SHAPE.len())?;
    // A minute has 60 seconds in Go, and no leap second.
    if !stamp.iter().zip(SHAPE).all(fits) || stamp.ends_with(b":60") {
        return None;
    }
    let fraction = rest
        .strip_prefix(b".")
        .map(|digits| digits.iter().take_while(|digit| digit.is_ascii_digit()).count());
    let zone = match fraction {
        Some(0) => return None,
        Some(digits) => &rest[digits + 1..],
        None => rest,
    };
    let is_offset =
        |zone: &[u8]| zone.len() == 6 && b"+-".contains(&zone[0]) && zone[1..].iter().zip(b"00:00").all(fits);
    if zone != b"Z" && !is_offset(zone) {
        return None;
    }
    let stamp: civil::DateTime = text.get(..SHAPE.len())?.parse().ok()?;
    // jiff's timestamps end some hours before the year 9999 does.
    let end_of_time = (stamp.year() == 9999).then_some(Timestamp::MAX);
    text.parse().ok().or(end_of_time)
}

/// The groups of a token's user, in order, from the value of [`EXTRA_GROUPS`]; empty if the Secret has none.
///
/// # Errors
/// One of the further groups is not a group of bootstrap tokens. The error is its name.
pub fn groups(extra: &str) -> Result<Vec<String>, String> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        if !is_group(group) {
            return Err(group.to_owned());
        }
        groups.insert(group.to_owned());
    }
    Ok(groups.into_iter().collect())
}

/// Upstream's `BootstrapGroupPattern`.
fn is_group(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let Some(rest) = name.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    rest.len() <= MAX_GROUP
        && rest.bytes().all(|byte| is_end(&byte) || b":-".contains(&byte))
        && rest.as_bytes().last().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_an_id_and_a_secret_part() {
        assert_eq!(split("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for other in [
            "",
            "abcdef",
            "abcdef.0123456789abcde",
            "abcdef.0123456789abcdefg",
            "abcde.0123456789abcdef",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789abcdeF",
            "abcdef.0123456.89abcdef",
            "abcdef.0123456789abcdef\n",
            "abcdéf.0123456789abcdef",
        ] {
            assert_eq!(split(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_name_of_a_secret_has_the_id() {
        assert_eq!(id_in_name("bootstrap-token-abc123"), Some("abc123"));
        for other in [
            "",
            "bootstrap-token-",
            "bootstrap-token-abc12",
            "bootstrap-token-abc1234",
            "x-bootstrap-token-abc123",
            "bootstrap-token-ABC123",
        ] {
            assert_eq!(id_in_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_token_expires_at_its_time_and_at_once_if_that_is_none() {
        let now: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
        for (text, expired) in [
            ("", false),
            ("2026-11-23T12:00:01Z", false),
            ("2026-11-23T12:00:00Z", true),
            ("2026-11-23T12:00:00.001Z", false),
            ("2026-11-23T11:59:59.999999999Z", true),
            ("2026-11-23T13:00:00+00:30", false),
            ("2026-11-23T13:00:00+02:00", true),
            ("2026-11-23T04:00:00-09:30", false),
            ("9999-12-31T23:59:59Z", false),
            ("tomorrow", true),
            ("2030-01-01", true),
            ("2030-01-01 00:00:00Z", true),
            ("2030-01-01t00:00:00Z", true),
            ("2030-01-01T00:00:00z", true),
            ("2030-01-01T00:00:00", true),
            ("2030-01-01T00:00:00.Z", true),
            ("2030-01-01T00:00:60Z", true),
            ("2030-13-01T00:00:00Z", true),
            ("2030-02-30T00:00:00Z", true),
            ("2030-01-01T00:00:00+0100", true),
            ("2030-01-01T00:00:00Z[UTC]", true),
            ("2030-01-01T00:00:00Ü", true),
        ] {
            assert_eq!(Expiry::parse(text).has_passed(now), expired, "{text}");
        }
    }

    #[test]
    fn further_groups_are_groups_of_bootstrap_tokens() {
        assert_eq!(groups(""), Ok(vec![GROUP.to_owned()]));
        let some = "system:bootstrappers:b,system:bootstrappers:a:1-2,system:bootstrappers:b";
        let expected = [GROUP, "system:bootstrappers:a:1-2", "system:bootstrappers:b"];
        assert_eq!(groups(some), Ok(expected.map(str::to_owned).to_vec()));
        let long = format!("system:bootstrappers:{}", "a".repeat(256));
        groups(&long).unwrap();
        for bad in [
            "system:masters",
            "system:bootstrappers",
            "system:bootstrappers:",
            "system:bootstrappers:a-",
            "system:bootstrappers:A",
            "system:bootstrappers:a b",
            &(long + "a"),
        ] {
            assert_eq!(groups(bad), Err(bad.to_owned()), "{bad}");
        }
        assert_eq!(groups("system:bootstrappers:a,"), Err(String::new()));
    }
}
