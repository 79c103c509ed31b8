//! Patterns of one part of a host name, as Go's `filepath.Match` takes them.

/// Whether `text` has the form of `pattern`: `*` any characters, `?` one, `[a-z]` and `[^a-z]` one of a set, `\x` the
/// character itself. A broken pattern matches nothing.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut seen) = (0, 0);
    // Where to go on when a character does not fit: after the last star, with one more character given to it.
    let mut retry = None;
    loop {
        let fits = match pattern.get(at) {
            Some('*') => {
                retry = Some((at + 1, seen));
                at += 1;
                continue;
            }
            None if seen == text.len() => return true,
            None => None,
            Some(_) => text.get(seen).and_then(|c| one(&pattern[at..], *c)),
        };
        match (fits, retry) {
            (Some(length), _) => {
                at += length;
                seen += 1;
            }
            (None, Some((after_star, from))) if from < text.len() => {
                retry = Some((after_star, from + 1));
                (at, seen) = (after_star, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// How many characters of the pattern stand for `c`, if they do.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == c).then_some(2),
        ['\\'] => None,
        ['[', ..] => set(pattern, c),
        [plain, ..] => (*plain == c).then_some(1),
        [] => None,
    }
}

/// As [`one`], for a set in brackets.
fn set(pattern: &[char], c: char) -> Option<usize> {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&'^');
    at += usize::from(negated);
    let first = at;
    let mut found = false;
    while at == first || pattern.get(at) != Some(&']') {
        let (low, next) = member(pattern, at)?;
        let (high, next) = match pattern.get(next) {
            Some('-') => member(pattern, next + 1)?,
            _ => (low, next),
        };
        found |= (low..=high).contains(&c);
        at = next;
    }
    (found != negated).then_some(at + 1)
}

/// A character of a set, and where the next one begins.
fn member(pattern: &[char], at: usize) -> Option<(char, usize)> {
    match pattern.get(at)? {
        '-' | ']' => None,
        '\\' => Some((*pattern.get(at + 1)?, at + 2)),
        c => Some((*c, at + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "abbbc", true),
            ("a*b*c", "aXbYbc", true),
            ("a*c", "ab", false),
            ("?bc", "abc", true),
            ("?", "", false),
            ("r-[a-c]", "r-b", true),
            ("r-[a-c]", "r-d", false),
            ("[^x]y", "ay", true),
            ("[^x]y", "xy", false),
            ("[]a]", "]", false),
            ("[a", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*-x", "a-b-x", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
