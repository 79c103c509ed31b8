//! The parser of label selectors.

use arcstr::ArcStr;

use super::{InvalidSelector, Requirement, Test};

/// The list of operators in upstream's error message.
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Parses a selector into its requirements, sorted by key.
pub(super) fn label_selector(text: &str) -> Result<Vec<Requirement>, InvalidSelector> {
    let mut tokens = Tokens { rest: text };
    let mut requirements = Vec::new();
    if tokens.peek() == "" {
        return Ok(requirements);
    }
    if tokens.peek() != "!" && !is_word(tokens.peek()) {
        return Err(found(tokens.peek(), ", expected: !, identifier, or 'end of string'"));
    }
    loop {
        let requirement = requirement(&mut tokens)
            .map_err(|error| InvalidSelector(format!("unable to parse requirement: {error}")))?;
        requirements.push(requirement);
        match tokens.next() {
            "" => break,
            "," if tokens.peek() == "!" || is_word(tokens.peek()) => {}
            "," => return Err(found(tokens.peek(), ", expected: identifier after ','")),
            other => return Err(found(other, ", expected: ',' or 'end of string'")),
        }
    }
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(requirements)
}

fn found(token: &str, expected: &str) -> InvalidSelector {
    InvalidSelector(format!("found '{token}'{expected}"))
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, InvalidSelector> {
    let mut key = tokens.next();
    let denied = key == "!";
    if denied {
        key = tokens.next();
    }
    if !is_word(key) {
        return Err(found(key, ", expected: identifier"));
    }
    let key_of = |test| Ok(Requirement { key: key.into(), test });
    if matches!(tokens.peek(), "" | ",") {
        return key_of(if denied { Test::DoesNotExist } else { Test::Exists });
    }
    // As upstream: an operator after `!key` overrides the `!`.
    match tokens.next() {
        "in" => key_of(Test::In(values(tokens)?)),
        "notin" => key_of(Test::NotIn(values(tokens)?)),
        "=" | "==" => key_of(Test::In(vec![value(tokens)?.into()])),
        "!=" => key_of(Test::NotIn(vec![value(tokens)?.into()])),
        ">" => key_of(Test::GreaterThan(bound(tokens)?)),
        "<" => key_of(Test::LessThan(bound(tokens)?)),
        other => Err(found(other, &format!(", expected: {OPERATORS}"))),
    }
}

/// Parses the values in parentheses. A missing value is the empty text.
fn values(tokens: &mut Tokens<'_>) -> Result<Vec<ArcStr>, InvalidSelector> {
    let open = tokens.next();
    if open != "(" {
        return Err(found(open, " expected: '('"));
    }
    match tokens.peek() {
        "," | ")" => {}
        word if is_word(word) => {}
        other => return Err(found(other, ", expected: ',', ')' or identifier")),
    }
    let mut values = Vec::new();
    loop {
        match tokens.peek() {
            "," | ")" => values.push(ArcStr::new()),
            word if is_word(word) => values.push(tokens.next().into()),
            other => return Err(found(other, ", expected: ',', or identifier")),
        }
        match tokens.next() {
            "," => {}
            ")" => break,
            other => return Err(found(other, ", expected: ',' or ')'")),
        }
    }
    values.sort();
    values.dedup();
    Ok(values)
}

/// Parses one value, which may be empty.
fn value<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str, InvalidSelector> {
    match tokens.peek() {
        "" | "," => Ok(""),
        word if is_word(word) => Ok(tokens.next()),
        other => Err(found(other, ", expected: identifier")),
    }
}

fn bound(tokens: &mut Tokens<'_>) -> Result<i64, InvalidSelector> {
    let text = value(tokens)?;
    text.parse().map_err(|_| {
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        InvalidSelector(format!("values[0]: Invalid value: {text:?}: {why}"))
    })
}

/// Whether a token is a word: a key, a value or an operator such as `in`.
fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(is_special)
}

fn is_special(letter: char) -> bool {
    matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

/// Splits a selector into words, operators, parentheses and commas. Returns the empty text at the end.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start_matches(is_space);
        let end = match rest.as_bytes() {
            [b'=', b'=', ..] | [b'!', b'=', ..] => 2,
            [first, ..] if is_special(char::from(*first)) => 1,
            _ => rest.find(|letter| is_special(letter) || is_space(letter)).unwrap_or(rest.len()),
        };
        &rest[..end]
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = &self.rest.trim_start_matches(is_space)[token.len()..];
        token
    }
}
