//! `$(NAME)` in commands, arguments, values and sub-paths.

/// Puts variables into `text`: `$(NAME)` becomes what `lookup` says of `NAME`, or stays as it is where it says nothing;
/// `$$` becomes `$`, so that `$$(NAME)` comes out as `$(NAME)`; every other `$` stays. What was put in is not looked at
/// again. A name ends at the first `)` and may be anything, even empty.
pub fn expand<V: AsRef<str>>(text: &str, mut lookup: impl FnMut(&str) -> Option<V>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(unescaped) = after.strip_prefix('$') {
            expanded.push('$');
            rest = unescaped;
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            match lookup(name) {
                Some(value) => expanded.push_str(value.as_ref()),
                None => expanded.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            expanded.push('$');
            rest = after;
            // Only an operator opens a reference or escapes one: this one did neither, and what follows it is text.
            let text = rest.chars().next().map_or(0, char::len_utf8);
            expanded.push_str(&rest[..text]);
            rest = &rest[text..];
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn of_table(name: &str) -> Option<&'static str> {
        match name {
            "VAR_A" => Some("A"),
            "VAR_B" => Some("B"),
            "VAR_C" => Some("C"),
            "VAR_REF" => Some("$(VAR_A)"),
            "VAR_EMPTY" => Some(""),
            _ => None,
        }
    }

    #[test]
    fn references_become_values_and_all_else_stays() {
        for (text, expected) in [
            ("", ""),
            ("nothing to see", "nothing to see"),
            ("$(VAR_A)", "A"),
            ("___$(VAR_B)___", "___B___"),
            ("___$(VAR_C)", "___C"),
            ("$(VAR_A)-$(VAR_A)", "A-A"),
            ("$(VAR_A)$(VAR_B)-1", "AB-1"),
            ("foo$(VAR_EMPTY)bar", "foobar"),
            // Unknown ones stay, to be seen.
            ("$(VAR_DNE)", "$(VAR_DNE)"),
            ("foo-$(VAR_DNE)-$(VAR_A)", "foo-$(VAR_DNE)-A"),
            ("$()", "$()"),
            // Values are not looked at again.
            ("$(VAR_REF)", "$(VAR_A)"),
            ("%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"),
            // Escapes.
            ("f000-$$VAR_A", "f000-$VAR_A"),
            ("$$(VAR_A)", "$(VAR_A)"),
            ("$$$(VAR_A)", "$A"),
            ("$$$$(VAR_A)", "$$(VAR_A)"),
            ("$$$$$(VAR_A)", "$$A"),
            ("$$", "$"),
            ("$$$", "$$"),
            ("$$$$", "$$"),
            ("$VAR_A$$", "$VAR_A$"),
            // What is no reference.
            ("$VAR_A", "$VAR_A"),
            ("VAR_A)", "VAR_A)"),
            ("$", "$"),
            ("cost: 5$", "cost: 5$"),
            ("$(VAR_A", "$(VAR_A"),
            ("$(", "$("),
            ("foo--$(VAR_A--bar", "foo--$(VAR_A--bar"),
            ("$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"),
            ("$ö$(VAR_A)", "$öA"),
            ("ö$$ö", "ö$ö"),
            // A name is whatever stands before the first closing parenthesis.
            ("$((VAR_A))", "$((VAR_A))"),
            ("$(foo$$var)", "$(foo$$var)"),
            ("\n$(VAR_A)\n", "\nA\n"),
        ] {
            assert_eq!(expand(text, of_table), expected, "{text:?}");
        }
    }

    #[test]
    fn the_lookup_sees_each_name_once_in_order() {
        let mut seen = Vec::new();
        expand("$(A)$$(B)$(C)$(A)$(", |name| {
            seen.push(name.to_owned());
            None::<&str>
        });
        assert_eq!(seen, ["A", "C", "A"]);
    }
}
