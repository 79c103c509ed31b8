//! Several errors as one.

/// Several errors as one text, each once: `[a, b]`; a single one as it is.
pub(crate) fn aggregate(errors: impl IntoIterator<Item = String>) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    for error in errors {
        if !seen.contains(&error) {
            seen.push(error);
        }
    }
    match seen.len() {
        0 | 1 => seen.pop(),
        _ => Some(format!("[{}]", seen.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_errors_are_one_text() {
        let text = |errors: &[&str]| aggregate(errors.iter().map(|error| (*error).to_owned()));
        assert_eq!(text(&[]), None);
        assert_eq!(text(&["a"]).as_deref(), Some("a"));
        assert_eq!(text(&["a", "a"]).as_deref(), Some("a"));
        assert_eq!(text(&["a", "b", "a"]).as_deref(), Some("[a, b]"));
    }
}
