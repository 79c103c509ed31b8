//! What the names of objects may look like.

use std::net::IpAddr;

pub(crate) use steersman_api::names::{
    data_key, label, label_1035, label_value, port_name, qualified_name, subdomain,
};

use crate::registry::address_fault;

/// Five characters that make a generated name unlike others. As upstream: no vowels, so no words; no digits that
/// look like letters.
fn random_suffix() -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = uuid::Uuid::new_v4().into_bytes();
    // Bytes 6 and 8 of such an id are not wholly random.
    random[..5].iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// The longest name that is generated; what goes before the suffix is cut to fit, as upstream.
const LONGEST_GENERATED: usize = 63;

/// A name from `generateName`.
pub(crate) fn generate(base: &str) -> String {
    let suffix = random_suffix();
    let mut end = base.len().min(LONGEST_GENERATED - suffix.len());
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// A rule for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    Subdomain,
    /// RFC 1123 label: namespaces, services.
    Label,
    /// Anything that can stand in a path: RBAC.
    PathSegment,
    /// An IP address in its canonical form: IPAddresses.
    Address,
}

impl NameRule {
    /// What is wrong with a name.
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::PathSegment => path_segment(name).into_iter().collect(),
            Self::Address => address(name).into_iter().collect(),
        }
    }
}

fn path_segment(name: &str) -> Option<String> {
    if name == "." || name == ".." {
        return Some(format!("may not be '{name}'"));
    }
    ["/", "%"].iter().find(|bad| name.contains(**bad)).map(|bad| format!("may not contain '{bad}'"))
}

/// Why a text is not an IP address in its canonical form, as upstream's `IsValidIP`.
fn address(name: &str) -> Option<String> {
    if let Some(why) = address_fault(name) {
        return Some(why.to_owned());
    }
    let canonical = name.parse::<IpAddr>().ok()?.to_string();
    (name != canonical).then(|| format!("must be in canonical form ({canonical:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_name_in_its_canonical_form_only() {
        for (name, whys) in [
            ("10.0.0.1", vec![]),
            ("fd00::1", vec![]),
            ("FD00::1", vec!["must be in canonical form (\"fd00::1\")"]),
            ("010.0.0.1", vec!["must not have leading 0s"]),
            ("a", vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
        ] {
            assert_eq!(NameRule::Address.check(name), whys, "{name}");
        }
    }

    #[test]
    fn names_are_judged_by_their_rule() {
        let long = "a".repeat(64);
        for (name, is_label, is_subdomain, is_segment) in [
            ("a", true, true, true),
            ("a-1", true, true, true),
            ("a.b", false, true, true),
            ("A", false, false, true),
            ("-a", false, false, true),
            ("a..b", false, false, true),
            ("", false, false, true),
            ("system:a", false, false, true),
            ("a/b", false, false, false),
            ("..", false, false, false),
            (&long, false, true, true),
        ] {
            assert_eq!(NameRule::Label.check(name).is_empty(), is_label, "{name}");
            assert_eq!(NameRule::Subdomain.check(name).is_empty(), is_subdomain, "{name}");
            assert_eq!(NameRule::PathSegment.check(name).is_empty(), is_segment, "{name}");
        }
    }

    #[test]
    fn a_generated_name_is_never_longer_than_a_label() {
        for base in ["a-", &"b".repeat(300), &"é".repeat(40)] {
            let name = generate(base);
            assert!(name.len() <= 63 && name.len() > 5, "{name}");
            assert!(base.starts_with(&name[..name.len() - 5]), "{name}");
        }
    }
}
