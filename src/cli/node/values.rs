//! Parses values of flags into fields of a KubeletConfiguration, as the kubelet does.

use serde_json::{Map, Value, json};

use crate::cli::values::{boolean, items};

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Go's words for true and false. The flag alone means true.
    Boolean,
    Integer,
    Text,
    /// A duration, which the configuration parses.
    Duration,
    /// Comma-separated items.
    List,
    /// Comma-separated `name=value` pairs.
    Pairs,
    /// Comma-separated `signal<threshold` pairs.
    Thresholds,
    /// Comma-separated `name=true` pairs.
    Gates,
    /// Comma-separated `name:value` pairs. A name may occur several times.
    Headers,
    /// Comma-separated `key=value:effect` items.
    Taints,
}

impl Kind {
    /// The value's name in the help.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Boolean => "bool",
            Self::Integer => "int",
            Self::Text => "text",
            Self::Duration => "duration",
            Self::List | Self::Taints => "list",
            Self::Pairs | Self::Thresholds | Self::Gates | Self::Headers => "map",
        }
    }

    /// Parses the texts of all occurrences of a flag. Of a single value the last occurrence counts, of lists and maps all.
    ///
    /// # Errors
    /// The invalid text, and the reason.
    pub(super) fn read(self, texts: &[String]) -> Result<Value, (String, String)> {
        let last = texts.last().map_or("", String::as_str);
        let of_last = |why: String| (last.to_owned(), why);
        match self {
            Self::Boolean => boolean(last).map(Value::Bool).map_err(of_last),
            Self::Integer => last.parse::<i64>().map(Value::from).map_err(|why| of_last(why.to_string())),
            Self::Text | Self::Duration => Ok(last.into()),
            Self::List => Ok(items(texts).collect()),
            Self::Pairs => pairs(texts, '=', |map, name, value| {
                map.insert(name.to_owned(), value.into());
                Ok(())
            }),
            Self::Thresholds => pairs(texts, '<', |map, name, value| {
                map.insert(name.to_owned(), value.into());
                Ok(())
            }),
            Self::Gates => pairs(texts, '=', |map, name, value| {
                let on = boolean(value).map_err(|why| format!("value {value:?} of {name:?} {why}"))?;
                map.insert(name.to_owned(), on.into());
                Ok(())
            }),
            Self::Headers => pairs(texts, ':', |map, name, value| {
                if let Value::Array(values) = map.entry(name).or_insert_with(|| json!([])) {
                    values.push(value.into());
                }
                Ok(())
            }),
            Self::Taints => {
                let all = last.split(',').filter(|_| !last.is_empty()).map(taint);
                all.collect::<Result<Value, String>>().map_err(of_last)
            }
        }
    }
}

/// Parses comma-separated pairs. Trims blanks around names and values.
fn pairs(
    texts: &[String],
    separator: char,
    mut add: impl FnMut(&mut Map<String, Value>, &str, &str) -> Result<(), String>,
) -> Result<Value, (String, String)> {
    let mut map = Map::new();
    for text in texts {
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let added = match pair.split_once(separator) {
                Some((name, value)) => add(&mut map, name.trim(), value.trim()),
                None => Err(format!("malformed pair, expect name{separator}value")),
            };
            added.map_err(|why| (text.clone(), why))?;
        }
    }
    Ok(Value::Object(map))
}

/// Splits a taint into its parts. The configuration validates them.
fn taint(text: &str) -> Result<Value, String> {
    let invalid = || format!("invalid taint spec: {text}");
    let (pair, effect) = text.split_once(':').ok_or_else(invalid)?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    if effect.is_empty() || effect.contains(':') || value.contains('=') {
        return Err(invalid());
    }
    Ok(match value {
        "" => json!({ "key": key, "effect": effect }),
        value => json!({ "key": key, "value": value, "effect": effect }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, texts: &[&str]) -> Result<Value, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        kind.read(&texts).map_err(|(text, why)| format!("{text}: {why}"))
    }

    #[test]
    fn values_are_read_as_the_kubelet_reads_them() {
        for (kind, texts, expected) in [
            (Kind::Boolean, &["false", "T"][..], json!(true)),
            (Kind::Integer, &["1", "-2"], json!(-2)),
            (Kind::Text, &["a", "b,c"], json!("b,c")),
            (Kind::List, &["a,b", "c"], json!(["a", "b", "c"])),
            (Kind::List, &[""], json!([])),
            (Kind::Pairs, &["cpu=1, memory = 2Gi", "cpu=3,"], json!({ "cpu": "3", "memory": "2Gi" })),
            (Kind::Pairs, &[""], json!({})),
            (Kind::Thresholds, &["memory.available<1Gi"], json!({ "memory.available": "1Gi" })),
            (Kind::Gates, &["A=true", "B=f"], json!({ "A": true, "B": false })),
            (
                Kind::Headers,
                &["a:hello,b:again,c:world", "b:beautiful"],
                json!({ "a": ["hello"], "b": ["again", "beautiful"], "c": ["world"] }),
            ),
            (
                Kind::Taints,
                &["x=y:NoSchedule", "k=v:NoExecute,l:NoSchedule"],
                json!([{ "key": "k", "value": "v", "effect": "NoExecute" }, { "key": "l", "effect": "NoSchedule" }]),
            ),
            (Kind::Taints, &[""], json!([])),
        ] {
            assert_eq!(read(kind, texts), Ok(expected), "{kind:?} {texts:?}");
        }
    }

    #[test]
    fn invalid_values_are_refused_with_the_reason() {
        for (kind, texts, expected) in [
            (Kind::Boolean, &["yes"][..], "yes: must be true or false"),
            (Kind::Integer, &["1.5"], "1.5: invalid digit found in string"),
            (Kind::Pairs, &["a=b", "c"], "c: malformed pair, expect name=value"),
            (Kind::Thresholds, &["a=b"], "a=b: malformed pair, expect name<value"),
            (Kind::Gates, &["A=on"], "A=on: value \"on\" of \"A\" must be true or false"),
            (Kind::Taints, &["a=b"], "a=b: invalid taint spec: a=b"),
            (Kind::Taints, &["a:"], "a:: invalid taint spec: a:"),
        ] {
            assert_eq!(read(kind, texts), Err(expected.to_owned()));
        }
    }
}
