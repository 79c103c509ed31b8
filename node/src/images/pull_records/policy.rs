//! Which images at hand a pod may use without showing that it could pull them.

use std::collections::BTreeSet;

use crate::images::reference;

/// `imagePullCredentialsVerificationPolicy`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VerificationPolicy {
    /// Whatever is at hand may be used by all.
    NeverVerify,
    /// What this node did not pull itself may be used by all.
    #[default]
    NeverVerifyPreloadedImages,
    /// What is on the list may be used by all.
    NeverVerifyAllowlistedImages(Allowlist),
    /// Nothing may be used unseen.
    AlwaysVerify,
}

/// `preloadedImagesVerificationAllowlist`: repositories, without tag or digest, or all that begin with `host/path/` where
/// an entry ends in `/*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowlist {
    repositories: BTreeSet<String>,
    /// Each with its slash at the end.
    prefixes: Vec<String>,
}

/// An entry of the list, or the policy's name, is not right. The node can't start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such policy.
    #[error("unknown image pull credential verification policy: {0}")]
    Policy(String),
    /// Spaces around an entry.
    #[error("leading/trailing spaces are not allowed: {0}")]
    Spaces(String),
    /// An empty entry.
    #[error("the supplied pattern is too short: {0}")]
    TooShort(String),
    /// A star elsewhere than as the last part.
    #[error("not a valid wildcard pattern, only patterns ending with '/*' are allowed: {0}")]
    Wildcard(String),
    /// `/*` alone.
    #[error("at least registry hostname is required")]
    NoHost,
    /// Not the name of an image.
    #[error("failed to parse as an image name: {0}")]
    Name(#[source] reference::Error),
    /// A tag or digest.
    #[error("neither tag nor digest is accepted in an image reference: {0}")]
    TagOrDigest(String),
}

impl VerificationPolicy {
    /// The policy of that name, with its list, which other policies don't look at.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(name: &str, allowlist: &[String]) -> Result<Self, Error> {
        Ok(match name {
            "NeverVerify" => Self::NeverVerify,
            "NeverVerifyPreloadedImages" => Self::NeverVerifyPreloadedImages,
            "NeverVerifyAllowlistedImages" => Self::NeverVerifyAllowlistedImages(Allowlist::new(allowlist)?),
            "AlwaysVerify" => Self::AlwaysVerify,
            other => return Err(Error::Policy(other.to_owned())),
        })
    }

    /// Whether a pod must show that it could pull `image`, which is at hand.
    pub fn verifies(&self, image: &str, pulled_by_this_node: bool) -> bool {
        match self {
            Self::NeverVerify => false,
            Self::NeverVerifyPreloadedImages => pulled_by_this_node,
            Self::NeverVerifyAllowlistedImages(list) => !list.has(image),
            Self::AlwaysVerify => true,
        }
    }
}

impl Allowlist {
    /// That list.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(patterns: &[String]) -> Result<Self, Error> {
        let mut list = Self::default();
        for pattern in patterns {
            list.add(pattern)?;
        }
        Ok(list)
    }

    fn add(&mut self, pattern: &str) -> Result<(), Error> {
        let of = |error: fn(String) -> Error| Err(error(pattern.to_owned()));
        if pattern.trim() != pattern {
            return of(Error::Spaces);
        }
        let prefix = pattern.strip_suffix('*').filter(|prefix| prefix.ends_with('/'));
        match prefix.unwrap_or(pattern) {
            "" => return of(Error::TooShort),
            text if text.contains('*') => return of(Error::Wildcard),
            "/" if prefix.is_some() => return Err(Error::NoHost),
            _ => {}
        }
        if let Some(prefix) = prefix {
            self.prefixes.push(prefix.to_owned());
            return Ok(());
        }
        if reference::without_tag_and_digest(pattern).map_err(Error::Name)? != pattern {
            return of(Error::TagOrDigest);
        }
        self.repositories.insert(pattern.to_owned());
        Ok(())
    }

    fn has(&self, image: &str) -> bool {
        let repository = reference::without_tag_and_digest(image).unwrap_or(image);
        self.repositories.contains(repository)
            || self.prefixes.iter().any(|prefix| repository.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, list: &[&str]) -> Result<VerificationPolicy, Error> {
        VerificationPolicy::new(name, &list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn each_policy_asks_of_whom_it_should() {
        let list = &["reg.io/free", "reg.io/open/*"];
        for (name, image, pulled_here, expected) in [
            ("NeverVerify", "reg.io/app", true, false),
            ("NeverVerifyPreloadedImages", "reg.io/app", true, true),
            ("NeverVerifyPreloadedImages", "reg.io/app", false, false),
            ("NeverVerifyAllowlistedImages", "reg.io/app", false, true),
            ("NeverVerifyAllowlistedImages", "reg.io/free:1", true, false),
            ("NeverVerifyAllowlistedImages", "reg.io/free/er", false, true),
            ("NeverVerifyAllowlistedImages", "reg.io/open/a/b:1", true, false),
            ("AlwaysVerify", "reg.io/free", false, true),
        ] {
            let policy = policy(name, list).unwrap();
            assert_eq!(policy.verifies(image, pulled_here), expected, "{name} {image}");
        }
    }

    #[test]
    fn a_bad_policy_is_refused() {
        assert_eq!(policy("Sometimes", &[]), Err(Error::Policy("Sometimes".into())));
        for (pattern, error) in [
            (" a", Error::Spaces(" a".into())),
            ("", Error::TooShort(String::new())),
            ("a*", Error::Wildcard("a*".into())),
            ("a/*/b", Error::Wildcard("a/*/b".into())),
            ("/*", Error::NoHost),
            ("reg.io/a:1", Error::TagOrDigest("reg.io/a:1".into())),
            ("reg.io/A B", Error::Name(reference::Error::Format)),
        ] {
            assert_eq!(policy("NeverVerifyAllowlistedImages", &[pattern]), Err(error), "{pattern}");
        }
    }
}
