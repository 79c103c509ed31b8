//! The names of images, in the grammar of the distribution project's references.

use std::fmt;

/// A name as a pod gives it, completed: `busybox` is `docker.io/library/busybox` with the tag `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Host, with its port if any, and path.
    pub repository: String,
    /// The tag; `latest` where the name has neither tag nor digest, empty where it has a digest only.
    pub tag: String,
    /// The digest with its algorithm, or an empty text.
    pub digest: String,
}

/// Why a text is not the name of an image. Asking again won't help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// 64 hexadecimal digits would be taken for an image's id.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    /// Capital letters in the path.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Uppercase(String),
    /// It would be a name, were it in small letters.
    #[error("repository name must be lowercase")]
    MustBeLowercase,
    /// There is no name.
    #[error("repository name must have at least one component")]
    Empty,
    /// More than 255 characters of path.
    #[error("repository name must not be more than {MAX_PATH} characters")]
    TooLong,
    /// Something else is wrong with its form.
    #[error("invalid reference format")]
    Format,
    /// The digest's algorithm is not known.
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
    /// The digest has not as many digits as its algorithm makes.
    #[error("invalid checksum digest length")]
    DigestLength,
    /// The digest has capital digits.
    #[error("invalid checksum digest format")]
    DigestFormat,
}

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DEFAULT_DOMAIN: &str = "index.docker.io";
const DEFAULT_TAG: &str = "latest";
const MAX_PATH: usize = 255;

/// Reads a name as pods have it.
///
/// # Errors
/// See [`Error`].
pub fn parse(image: &str) -> Result<Reference, Error> {
    if image.len() == 64 && image.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return Err(Error::Identifier(image.to_owned()));
    }
    let (domain, remainder) = with_domain(image);
    let path = remainder.split(':').next().unwrap_or_default();
    if path.to_lowercase() != path {
        return Err(Error::Uppercase(path.to_owned()));
    }
    let full = format!("{domain}/{remainder}");
    let Parts { name, tag, digest } = parts(&full)?;
    let tag = if tag.is_empty() && digest.is_empty() { DEFAULT_TAG } else { tag };
    Ok(Reference { repository: name.to_owned(), tag: tag.to_owned(), digest: digest.to_owned() })
}

/// The name with a tag: where it has neither tag nor digest, `:latest` is added. Nothing else is completed, since runtimes
/// have default hosts of their own.
///
/// # Errors
/// See [`Error`].
pub fn with_default_tag(image: &str) -> Result<String, Error> {
    let Reference { tag, digest, .. } = parse(image)?;
    if digest.is_empty() && !image.ends_with(&format!(":{tag}")) {
        return Ok(format!("{image}:{tag}"));
    }
    Ok(image.to_owned())
}

/// The name without tag and digest, and nothing completed.
///
/// # Errors
/// See [`Error`].
pub fn without_tag_and_digest(image: &str) -> Result<&str, Error> {
    parts(image).map(|parts| parts.name)
}

/// A reference as it is written.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    name: &'a str,
    tag: &'a str,
    digest: &'a str,
}

/// The host, and what follows it; Docker Hub and its folder `library` where none is named.
fn with_domain(image: &str) -> (&str, String) {
    let Some((first, rest)) = image.split_once('/') else {
        return (DEFAULT_DOMAIN, format!("library/{image}"));
    };
    let is_host = first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first;
    let (domain, rest) = match first {
        LEGACY_DEFAULT_DOMAIN => (DEFAULT_DOMAIN, rest),
        host if is_host => (host, rest),
        _ => (DEFAULT_DOMAIN, image),
    };
    match domain {
        DEFAULT_DOMAIN if !rest.contains('/') => (domain, format!("library/{rest}")),
        _ => (domain, rest.to_owned()),
    }
}

/// `[host[:port]/]path[:tag][@digest]`.
fn parts(text: &str) -> Result<Parts<'_>, Error> {
    let Some(parts) = split(text) else {
        return Err(match split(&text.to_lowercase()) {
            _ if text.is_empty() => Error::Empty,
            Some(_) => Error::MustBeLowercase,
            None => Error::Format,
        });
    };
    let path = match parts.name.split_once('/') {
        Some((host, path)) if is_host_and_port(host) => path,
        _ => parts.name,
    };
    if path.len() > MAX_PATH {
        return Err(Error::TooLong);
    }
    if !parts.digest.is_empty() {
        check_digest(parts.digest)?;
    }
    Ok(parts)
}

/// The parts of a text that has the form.
fn split(text: &str) -> Option<Parts<'_>> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest).filter(|digest| has_digest_form(digest))?),
        None => (text, ""),
    };
    // A colon before the last slash belongs to a port.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag).filter(|tag| is_tag(tag))?),
        _ => (rest, ""),
    };
    let is_path = |path: &str| path.split('/').all(is_path_component);
    let well_formed = is_path(name)
        || name.split_once('/').is_some_and(|(host, path)| is_host_and_port(host) && is_path(path));
    well_formed.then_some(Parts { name, tag, digest })
}

fn is_host_and_port(text: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, port)| {
            let is_address = |b: u8| b.is_ascii_hexdigit() || b == b':';
            !address.is_empty()
                && address.bytes().all(is_address)
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        });
    }
    let host = match text.split_once(':') {
        Some((host, port)) if is_port(port) => host,
        Some(_) => return false,
        None => text,
    };
    host.split('.').all(|part| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    })
}

/// Small letters and digits, joined by `.`, `_`, `__` or any number of dashes.
fn is_path_component(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_plain_end = |b: Option<&u8>| b.is_some_and(|b| is_plain(*b));
    let bytes = text.as_bytes();
    is_plain_end(bytes.first())
        && is_plain_end(bytes.last())
        && text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-')
        })
}

fn is_tag(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(|b| is_word(*b))
        && bytes.iter().all(|b| is_word(*b) || matches!(b, b'.' | b'-'))
}

/// An algorithm of words joined by `-`, `_`, `+` or `.`, and at least 32 hexadecimal digits.
fn has_digest_form(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    text.split_once(':').is_some_and(|(algorithm, digits)| {
        algorithm.split(['-', '_', '+', '.']).all(is_word)
            && digits.len() >= 32
            && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

fn check_digest(digest: &str) -> Result<(), Error> {
    let (algorithm, digits) = digest.split_once(':').unwrap_or((digest, ""));
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err(Error::DigestAlgorithm),
    };
    if digits.len() != length {
        return Err(Error::DigestLength);
    }
    if digits.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(Error::DigestFormat);
    }
    Ok(())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)?;
        }
        if !self.digest.is_empty() {
            write!(f, "@{}", self.digest)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256() -> String {
        format!("sha256:{}", "0123456789abcdef".repeat(4))
    }

    #[test]
    fn names_are_completed_with_host_folder_and_tag() {
        let digest = sha256();
        for (image, repository, tag, digest) in [
            ("busybox", "docker.io/library/busybox", "latest", ""),
            ("busybox:1.36", "docker.io/library/busybox", "1.36", ""),
            ("me/app", "docker.io/me/app", "latest", ""),
            ("docker.io/app", "docker.io/library/app", "latest", ""),
            ("index.docker.io/app:1", "docker.io/library/app", "1", ""),
            ("localhost/app", "localhost/app", "latest", ""),
            ("Corp/app", "Corp/app", "latest", ""),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause", "3.10", ""),
            ("host:5000/a/b__c-d:V1.0-x_y", "host:5000/a/b__c-d", "V1.0-x_y", ""),
            ("[2001:db8::1]:5000/app", "[2001:db8::1]:5000/app", "latest", ""),
            (&format!("app@{digest}"), "docker.io/library/app", "", digest.as_str()),
            (&format!("app:1@{digest}"), "docker.io/library/app", "1", digest.as_str()),
        ] {
            let expected =
                Reference { repository: repository.into(), tag: tag.into(), digest: digest.into() };
            assert_eq!(parse(image), Ok(expected), "{image}");
        }
        assert_eq!(
            parse(&format!("app:1@{digest}")).unwrap().to_string(),
            format!("docker.io/library/app:1@{digest}")
        );
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        let hex = "0123456789abcdef".repeat(4);
        for (image, error) in [
            (hex.as_str(), Error::Identifier(hex.clone())),
            ("App", Error::Uppercase("library/App".into())),
            ("reg.io/a/B:c", Error::Uppercase("a/B".into())),
            ("", Error::Format),
            ("a b", Error::Format),
            ("app:", Error::Format),
            ("app:-1", Error::Format),
            ("app@sha256:12", Error::Format),
            ("-app", Error::Format),
            ("a..b", Error::Format),
            ("a___b", Error::Format),
            ("host:port/app", Error::Format),
            ("https://reg.io/app", Error::Format),
            (&"a".repeat(300), Error::TooLong),
            (&format!("app@sha256:{}", "a".repeat(32)), Error::DigestLength),
            (&format!("app@sha256:{}", "A".repeat(64)), Error::DigestFormat),
            (&format!("app@md5:{}", "a".repeat(32)), Error::DigestAlgorithm),
        ] {
            assert_eq!(parse(image), Err(error), "{image}");
        }
    }

    #[test]
    fn only_a_missing_tag_is_added_for_the_runtime() {
        let digest = sha256();
        for (image, expected) in [
            ("busybox", "busybox:latest"),
            ("busybox:latest", "busybox:latest"),
            ("busybox:1", "busybox:1"),
            ("host:5000/app", "host:5000/app:latest"),
            (&format!("app@{digest}"), &format!("app@{digest}")),
            (&format!("app:1@{digest}"), &format!("app:1@{digest}")),
        ] {
            assert_eq!(with_default_tag(image).as_deref(), Ok(expected), "{image}");
        }
    }

    #[test]
    fn tag_and_digest_are_taken_off_and_nothing_is_completed() {
        let digest = sha256();
        for (image, expected) in [
            ("busybox", Ok("busybox")),
            ("host:5000/app", Ok("host:5000/app")),
            ("host:5000/app:1", Ok("host:5000/app")),
            (&format!("me/app:1@{digest}"), Ok("me/app")),
            ("me/App", Err(Error::MustBeLowercase)),
            ("", Err(Error::Empty)),
        ] {
            assert_eq!(without_tag_and_digest(image), expected, "{image}");
        }
    }
}
