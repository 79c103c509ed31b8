//! JSONPath as the columns of custom resources use it.
//!
//! Members (`.a.b`, `['a']`, `.a\.b`), items (`[0]`, `[-1]`, `[1:3]`, `[*]`) and filters (`[?(@.type=="Ready")]`), with
//! what upstream makes of missing members: nothing. Unions and recursive descent, which upstream has too, are not known:
//! a column of theirs stays empty.

use serde_json::Value;

/// A path, ready to be followed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Member(String),
    /// All members or items.
    All,
    /// Items from, up to, by.
    Items {
        from: Option<i64>,
        to: Option<i64>,
        step: usize,
    },
    Item(i64),
    /// The items for which this holds.
    Where(Filter),
}

#[derive(Debug, Clone, PartialEq)]
enum Filter {
    Exists(JsonPath),
    Compare { left: Operand, operator: Operator, right: Operand },
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// From its text; `None` if it is not understood.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().trim_start_matches(['@', '$']);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(filter) = rest.strip_prefix("[?(") {
                let end = filter_end(filter)?;
                steps.push(Step::Where(Filter::parse(&filter[..end])?));
                rest = filter[end..].strip_prefix(")]")?;
            } else if let Some(subscript) = rest.strip_prefix('[') {
                let (inner, after) = subscript.split_once(']')?;
                steps.push(Step::subscript(inner)?);
                rest = after;
            } else {
                let member = rest.strip_prefix('.')?;
                if member.starts_with('.') {
                    return None;
                }
                let (name, after) = split_member(member);
                match name.as_str() {
                    "*" => steps.push(Step::All),
                    // `.` alone is the value itself, as is the dot in `.['a']`.
                    "" => {}
                    _ => steps.push(Step::Member(name)),
                }
                rest = after;
            }
        }
        Some(Self { steps })
    }

    /// The first of the values that it leads to.
    pub(super) fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.all(root)?.into_iter().next()
    }

    /// All values that it leads to; `None` where it asks for an item that is not there.
    fn all<'a>(&self, root: &'a Value) -> Option<Vec<&'a Value>> {
        let mut values = vec![root];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in values.into_iter().filter(|value| !value.is_null()) {
                step.follow(value, &mut next)?;
            }
            values = next;
        }
        Some(values)
    }
}

impl Step {
    fn subscript(inner: &str) -> Option<Self> {
        if inner == "*" {
            return Some(Self::Items { from: None, to: None, step: 1 });
        }
        if let Some(name) = inner.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\'')) {
            // Upstream reads the key as a path: an unescaped dot in it separates members.
            let (name, rest) = split_member(name);
            return rest.is_empty().then_some(Self::Member(name));
        }
        let parts: Vec<&str> = inner.split(':').collect();
        let number = |at: usize| match parts.get(at).copied().unwrap_or_default() {
            "" => Some(None),
            text => text.parse::<i64>().ok().map(Some),
        };
        match parts.len() {
            1 => Some(Self::Item(number(0)??)),
            2 | 3 => {
                let step = number(2)?.unwrap_or(1);
                let step = usize::try_from(step).ok().filter(|step| *step > 0)?;
                Some(Self::Items { from: number(0)?, to: number(1)?, step })
            }
            _ => None,
        }
    }

    fn follow<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) -> Option<()> {
        match self {
            Self::Member(name) => found.extend(value.as_object().and_then(|members| members.get(name))),
            Self::All => match value {
                Value::Object(members) => found.extend(members.values()),
                Value::Array(items) => found.extend(items),
                _ => {}
            },
            Self::Item(at) => {
                let items = value.as_array()?;
                found.push(items.get(index(*at, items.len())?)?);
            }
            Self::Items { from, to, step } => {
                let items = value.as_array()?;
                let from = from.map_or(Some(0), |from| index(from, items.len()))?;
                let to = to.map_or(Some(items.len()), |to| index(to, items.len()))?;
                if from != to {
                    found.extend(items.get(from..to)?.iter().step_by(*step));
                }
            }
            Self::Where(filter) => {
                for item in value.as_array()? {
                    if filter.holds(item)? {
                        found.push(item);
                    }
                }
            }
        }
        Some(())
    }
}

/// Negative positions count from the end.
fn index(at: i64, len: usize) -> Option<usize> {
    if at >= 0 { usize::try_from(at).ok() } else { len.checked_sub(usize::try_from(at.unsigned_abs()).ok()?) }
}

/// A member's name, unescaped, and what follows it.
fn split_member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                return (name, &text[at..]);
            }
            letter => name.push(letter),
        }
    }
    (name, "")
}

/// Where the parenthesis closes that opened before `text`: not within quotes.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (')', None) => return Some(at),
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open && !escaped => quote = None,
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
    }
    None
}

impl Filter {
    fn parse(text: &str) -> Option<Self> {
        let is_operator = |letter: char| matches!(letter, '!' | '<' | '=' | '>');
        let Some(start) = text.find(is_operator) else {
            return Some(Self::Exists(JsonPath::parse(text)?));
        };
        let end = text[start..].find(|letter| !is_operator(letter)).map_or(text.len(), |len| start + len);
        let operator = match &text[start..end] {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            _ => return None,
        };
        let (left, right) = (Operand::parse(&text[..start])?, Operand::parse(&text[end..])?);
        Some(Self::Compare { left, operator, right })
    }

    fn holds(&self, item: &Value) -> Option<bool> {
        let (left, operator, right) = match self {
            Self::Exists(path) => return Some(path.all(item).is_some_and(|found| !found.is_empty())),
            Self::Compare { left, operator, right } => (left, operator, right),
        };
        let (Some(left), Some(right)) = (left.value(item)?, right.value(item)?) else {
            return Some(false);
        };
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            // Unlike things can't be compared: the whole path leads nowhere.
            _ => return None,
        };
        Some(match operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        })
    }
}

impl Operand {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        for quote in ['"', '\''] {
            if let Some(quoted) = text.strip_prefix(quote) {
                let quoted = quoted.strip_suffix(quote)?;
                return Some(Self::Literal(
                    quoted.replace("\\\\", "\\").replace(&format!("\\{quote}"), &quote.to_string()).into(),
                ));
            }
        }
        if text.starts_with(['@', '.', '$']) {
            return Some(Self::Path(JsonPath::parse(text)?));
        }
        let literal: Value = serde_json::from_str(text).ok()?;
        (literal.is_number() || literal.is_boolean()).then_some(Self::Literal(literal))
    }

    /// Its one value for an item; the inner `None` where there is none, the outer one where there are several.
    fn value<'a>(&'a self, item: &'a Value) -> Option<Option<&'a Value>> {
        match self {
            Self::Literal(value) => Some(Some(value)),
            Self::Path(path) => match path.all(item)?.as_slice() {
                [] => Some(None),
                [value] => Some(Some(value)),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_to_what_upstreams_leads_to() {
        let object = json!({
            "spec": {"a.b/c": 1, "list": [10, 20, 30], "none": null, "map": {"x": true}},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "n": 1},
                {"type": "A)\"", "status": "True", "n": 2, "extra": "yes"},
            ]},
        });
        for (path, expected) in [
            (".spec.list[0]", json!(10)),
            (".spec.list[-1]", json!(30)),
            (".spec.list[1:]", json!(20)),
            (".spec.list[-2:]", json!(20)),
            (".spec.list[*]", json!(10)),
            (".spec.list[5]", Value::Null),
            (".spec.list[1:1]", Value::Null),
            (".spec.list", json!([10, 20, 30])),
            (r".spec.a\.b/c", json!(1)),
            (r".spec['a\.b/c']", json!(1)),
            (".spec['map'].x", json!(true)),
            (".spec.map.*", json!(true)),
            (".spec.none.deeper", Value::Null),
            (".spec.missing.deeper", Value::Null),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("False")),
            (".status.conditions[?(@.type=='Ready')].status", json!("False")),
            (r#".status.conditions[?(@.type=="A)\"")].status"#, json!("True")),
            (".status.conditions[?(@.type!=\"Ready\")].n", json!(2)),
            (".status.conditions[?(@.n>=2)].n", json!(2)),
            (".status.conditions[?(@.n<2)].type", json!("Ready")),
            (".status.conditions[?(@.extra)].n", json!(2)),
            (".status.conditions[?(@.type==\"Gone\")].status", Value::Null),
            (".status.conditions[?(@.type==3)].status", Value::Null),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(parsed.first(&object).cloned().unwrap_or_default(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in
            ["spec", "..name", ".a[", ".a[b]", ".a[1:2:3:4]", ".a[?(@.b=~\"c\")]", ".a[?(@.b", ".a['b','c']"]
        {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in r#"[.\[\]?(@)a'"=0-9:*\\-]{0,30}"#) {
            if let Some(path) = JsonPath::parse(&path) {
                path.first(&json!({"a": [{"a": 1}, "a", 2]}));
            }
        }
    }
}
