//! Quotation as Go does it, since pods read what it makes.

use std::fmt::Write;

/// The text in double quotes, with what can't be printed written as escapes (`strconv.Quote`).
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            c if is_printable(c) => quoted.push(c),
            // Writing to a String never fails.
            c if c.is_ascii() => _ = write!(quoted, "\\x{:02x}", u32::from(c)),
            c if u32::from(c) <= 0xffff => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => _ = write!(quoted, "\\U{:08x}", u32::from(c)),
        }
    }
    quoted.push('"');
    quoted
}

/// Letters, marks, numbers, punctuation and symbols.
fn is_printable(c: char) -> bool {
    // The standard library has the same table, but shows it only so; marks count after another character.
    let pair: String = ['a', c].iter().collect();
    !c.is_ascii_control() && pair.escape_debug().count() == 2
}
