//! Paths that need no authorization.

use super::Attributes;

/// Paths that every user may request (`--authorization-always-allow-paths`): whole paths, and prefixes that end in `*`. A
/// leading slash is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathRules {
    whole: Vec<String>,
    prefixes: Vec<String>,
}

/// A rule has a `*` before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("only trailing * allowed in {0:?}")]
pub struct PathError(String);

impl PathRules {
    /// Parses rules.
    ///
    /// # Errors
    /// If a rule has a `*` before its end.
    pub fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self, PathError> {
        let mut parsed = Self::default();
        for rule in rules {
            let rule = rule.strip_prefix('/').unwrap_or(rule);
            match rule.strip_suffix('*') {
                Some(prefix) if !prefix.contains('*') => parsed.prefixes.push(prefix.to_owned()),
                None if !rule.contains('*') => parsed.whole.push(rule.to_owned()),
                _ => return Err(PathError(rule.to_owned())),
            }
        }
        Ok(parsed)
    }

    /// Whether every user may do this.
    pub(super) fn allow(&self, attributes: &Attributes) -> bool {
        let Attributes::NonResource { path, .. } = attributes else { return false };
        let path = path.strip_prefix('/').unwrap_or(path);
        self.whole.iter().any(|whole| whole == path)
            || self.prefixes.iter().any(|prefix| path.starts_with(&**prefix))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn whole_paths_and_prefixes_are_allowed() {
        for (rules, path, allowed) in [
            (&["/healthz", "livez"][..], "/healthz", true),
            (&["/healthz", "livez"], "/livez", true),
            (&["/healthz"], "/healthz/", false),
            (&["/healthz"], "/healthz/ping", false),
            (&["/healthz"], "/HEALTHZ", false),
            (&["/healthz"], "//healthz", false),
            (&["/healthz*"], "/healthz/ping", true),
            (&["/healthz/*"], "/healthz", false),
            (&["/"], "/", true),
            (&[""], "/", true),
            (&["/"], "/metrics", false),
            (&["*"], "/metrics", true),
            (&[], "/metrics", false),
        ] {
            let parsed = PathRules::parse(rules.iter().copied()).unwrap();
            assert_eq!(parsed.allow(&Attributes::of_path(&Method::GET, path)), allowed, "{rules:?} {path}");
        }
        let error = PathRules::parse(["/a*b"]).unwrap_err();
        assert_eq!(error.to_string(), r#"only trailing * allowed in "a*b""#);
    }
}
