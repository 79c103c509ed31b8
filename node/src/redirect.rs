//! Where an answer points.

use http::Uri;
use url::Url;

/// The address that `location` means in an answer of `from`, without its fragment, as browsers and Go's client understand it.
/// `None` where it is none.
pub(crate) fn resolved(from: &Uri, location: &str) -> Option<Uri> {
    let from = Url::parse(&from.to_string()).ok()?;
    let mut to = from.join(location).ok()?;
    to.set_fragment(None);
    to.has_host().then(|| to.as_str().parse().ok())?
}

/// Whether it names a server, rather than a place on the one that answered.
pub(crate) fn is_absolute(location: &str) -> bool {
    Url::parse(location).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_to_addresses_or_paths() {
        let from: Uri = "http://a:1/x/y?z".parse().unwrap();
        for (location, expected) in [
            ("/b", "http://a:1/b"),
            ("b?c", "http://a:1/x/b?c"),
            ("?c", "http://a:1/x/y?c"),
            ("../b/./c", "http://a:1/b/c"),
            ("/login?next=http://a/x", "http://a:1/login?next=http://a/x"),
            ("https://a:2/b#d", "https://a:2/b"),
            ("//e/f", "http://e/f"),
            ("http://[::1]:8/g h", "http://[::1]:8/g%20h"),
        ] {
            assert_eq!(
                resolved(&from, location).map(|to| to.to_string()).as_deref(),
                Some(expected),
                "{location}"
            );
        }
        for location in ["http://", "mailto:somebody", "http://a:port/"] {
            assert_eq!(resolved(&from, location), None, "{location}");
        }
        assert!(is_absolute("http://e/") && !is_absolute("/to?url=http://e/") && !is_absolute("//e/"));
    }
}
