//! What may be a label.

/// Whether a text may be the key of a label or taint: `[prefix/]name`.
pub fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_subdomain)
}

/// Whether a text may be the value of a label or taint.
pub fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 63 && text.bytes().all(inner) && outer(bytes.first()) && outer(bytes.last())
}

fn is_subdomain(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}
