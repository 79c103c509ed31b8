//! Validation of names, labels and the like. Each function returns upstream's messages about what is wrong with a text;
//! an empty list means that the text is valid.

const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
    and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
    with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
    '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_MESSAGE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SLASHES_MESSAGE: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
    'example.com/MyName')";
const DATA_KEY_MESSAGE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', \
    '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
    regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Validates an RFC 1123 label.
pub fn label(name: &str) -> Vec<String> {
    let pattern = if name.split('.').all(is_label) { "must not contain dots" } else { LABEL_MESSAGE };
    let long = (name.len() > 63).then_some("must be no more than 63 characters");
    let odd = (!is_label(name)).then_some(pattern);
    long.into_iter().chain(odd).map(str::to_owned).collect()
}

/// Validates an RFC 1035 label.
pub fn label_1035(name: &str) -> Vec<String> {
    let fits = is_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase());
    let long = (name.len() > 63).then_some("must be no more than 63 characters");
    let odd = (!fits).then_some(LABEL_1035_MESSAGE);
    long.into_iter().chain(odd).map(str::to_owned).collect()
}

/// Validates an RFC 1123 subdomain.
pub fn subdomain(name: &str) -> Vec<String> {
    let long = (name.len() > 253).then_some("must be no more than 253 characters");
    let odd = (!name.split('.').all(is_label)).then_some(SUBDOMAIN_MESSAGE);
    long.into_iter().chain(odd).map(str::to_owned).collect()
}

fn is_label(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|byte| fits(*byte))
        && bytes.last().is_some_and(|byte| fits(*byte))
        && bytes.iter().all(|byte| fits(*byte) || *byte == b'-')
}

/// Validates the key of a label or of an annotation.
pub fn qualified_name(name: &str) -> Vec<String> {
    let (prefix, local) = match name.split_once('/') {
        Some((_, local)) if local.contains('/') => return vec![SLASHES_MESSAGE.to_owned()],
        Some((prefix, local)) => (Some(prefix), local),
        None => (None, name),
    };
    let mut errors = Vec::new();
    match prefix {
        None => {}
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let whys = subdomain(prefix).into_iter().map(|why| why.replace("253 characters", "253 bytes"));
            errors.extend(whys.map(|why| format!("prefix part {why}")));
        }
    }
    if local.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    if local.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_loose(local) {
        errors.push(QUALIFIED_MESSAGE.to_owned());
    }
    errors
}

/// Validates the value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let long = (value.len() > 63).then_some("must be no more than 63 bytes");
    let odd = (!value.is_empty() && !is_loose(value)).then_some(LABEL_VALUE_MESSAGE);
    long.into_iter().chain(odd).map(str::to_owned).collect()
}

/// Validates a key in the data of a config map or a secret.
pub fn data_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if key.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        errors.push(DATA_KEY_MESSAGE.to_owned());
    }
    match key {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// Validates the name of a port.
pub fn port_name(name: &str) -> Vec<String> {
    let bytes = name.as_bytes();
    let mut errors = Vec::new();
    let mut wrong = |is: bool, why: &str| {
        if is {
            errors.push(why.to_owned());
        }
    };
    wrong(bytes.len() > 15, "must be no more than 15 characters");
    let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    wrong(!bytes.iter().all(fits), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    wrong(!bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)");
    wrong(name.contains("--"), "must not contain consecutive hyphens");
    let at_end = |byte: Option<&u8>| byte == Some(&b'-');
    wrong(at_end(bytes.first()) || at_end(bytes.last()), "must not begin or end with a hyphen");
    errors
}

fn is_loose(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_and_without_dots() {
        for good in ["a", "0", "a-b", "a--b", &"a".repeat(63)] {
            assert!(label(good).is_empty() && subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "-", "a-", "-a", "A", "a_b", "\u{e4}", "a b", "a.", "a..b", ".a"] {
            assert!(!label(bad).is_empty() && !subdomain(bad).is_empty(), "{bad}");
        }
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert!(subdomain("a.b").is_empty() && subdomain(&"a".repeat(253)).is_empty());
        assert_eq!(subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn labels_have_keys_and_values_of_their_own() {
        for (key, good) in [
            ("a", true),
            ("a.b/c_D", true),
            ("/c", false),
            ("a/", false),
            ("A.b/c", false),
            ("a b", false),
            ("a/b/c", false),
        ] {
            assert_eq!(qualified_name(key).is_empty(), good, "{key}");
        }
        for (value, good) in [("", true), ("a_b.C-1", true), ("-a", false), ("a b", false)] {
            assert_eq!(label_value(value).is_empty(), good, "{value}");
        }
    }
}
