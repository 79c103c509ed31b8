//! URIs among the alternative names.

/// Checks that a URI is one that Go's `net/url` accepts and writes back unchanged. Go accepts more: it encodes some characters,
/// such as spaces, which must not be in a URI.
///
/// # Errors
/// What is wrong with the URI.
pub(super) fn check(uri: &str) -> Result<(), &'static str> {
    if !uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
        return Err("a character must be encoded");
    }
    let mut escapes = uri.split('%').skip(1);
    if !escapes
        .all(|escape| escape.len() >= 2 && escape.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()))
    {
        return Err("invalid URL escape");
    }
    let hierarchy = match uri.split_once(':') {
        Some(("", _)) => return Err("missing protocol scheme"),
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        // A colon may be further back, in a path or a query.
        Some((before, _)) if !before.contains(['/', '?', '#']) => {
            return Err("first path segment in URL cannot contain colon");
        }
        _ => uri,
    };
    let Some(hierarchy) = hierarchy.strip_prefix("//") else { return Ok(()) };
    let authority = hierarchy.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.contains(['[', ']', '%']) {
        // An address in brackets, or an encoded name.
        return Err("invalid domain");
    }
    let has_empty_label = host.split('.').any(str::is_empty);
    let port = host.split_once(':').map_or("", |(_, port)| port);
    if !port.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("invalid port after host");
    }
    if !host.is_empty() && has_empty_label { Err("invalid domain") } else { Ok(()) }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}
