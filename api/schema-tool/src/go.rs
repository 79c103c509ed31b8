//! Parses the tags of upstream's Go structs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Error;

/// The structs, by the full name of their message.
pub(crate) type Structs = BTreeMap<String, Struct>;

/// One struct.
#[derive(Debug, Default)]
pub(crate) struct Struct {
    /// Whether the struct embeds `TypeMeta`, so that it is a kind.
    pub(crate) has_type_meta: bool,
    /// The fields with a protobuf tag, by field number.
    pub(crate) fields: BTreeMap<u32, Tag>,
}

/// The tags and the Go type of one field.
#[derive(Debug)]
pub(crate) struct Tag {
    /// The name in JSON; `None` for an inlined field.
    pub(crate) json: Option<String>,
    pub(crate) pointer: bool,
    pub(crate) omit_empty: bool,
    pub(crate) omit_zero: bool,
}

/// Parses the hand-written Go files of one package.
pub(crate) fn parse_folder(folder: &Path, package: &str, structs: &mut Structs) -> Result<(), Error> {
    let failed = |source| Error::File { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".go")
            && !name.ends_with("_test.go")
            && !name.starts_with("zz_")
            && !name.starts_with("generated.")
        {
            let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
            parse(&text, package, structs);
        }
    }
    Ok(())
}

fn parse(text: &str, package: &str, structs: &mut Structs) {
    let mut open: Option<(String, Struct)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("type ").and_then(|line| line.strip_suffix(" struct {")) {
            open = Some((format!("{package}.{name}"), Struct::default()));
        } else if line == "}" {
            structs.extend(open.take());
        } else if let Some((_, current)) = &mut open {
            current.field(line.trim());
        }
    }
}

impl Struct {
    fn field(&mut self, line: &str) {
        let Some((declaration, tags)) = line.split_once('`') else { return };
        if declaration.starts_with("//") {
            return;
        }
        let json = tag(tags, "json").unwrap_or_default();
        let mut options = json.split(',');
        let name = options.next().unwrap_or_default();
        let options: Vec<&str> = options.collect();
        let number = tag(tags, "protobuf").and_then(|tag| tag.split(',').nth(1)?.parse().ok());
        let Some(number) = number else {
            self.has_type_meta |= declaration.trim().ends_with("TypeMeta") && options.contains(&"inline");
            return;
        };
        let pointer = declaration.split_whitespace().nth(1).is_some_and(|ty| ty.starts_with('*'));
        let tag = Tag {
            json: (!name.is_empty()).then(|| name.to_owned()),
            pointer,
            omit_empty: options.contains(&"omitempty"),
            omit_zero: options.contains(&"omitzero"),
        };
        self.fields.insert(number, tag);
    }
}

fn tag<'a>(tags: &'a str, key: &str) -> Option<&'a str> {
    let start = tags.find(&format!("{key}:\""))? + key.len() + 2;
    tags[start..].split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_tell_names_pointers_inlined_fields_and_what_is_omitted() {
        let text = "\
type Thing struct {
\tmetav1.TypeMeta `json:\",inline\"`
\t// Commented *string `json:\"no\" protobuf:\"bytes,9,opt,name=no\"`
\tCount *int32 `json:\"count,omitempty\" protobuf:\"varint,3,opt,name=count\"`
\tSource `json:\",inline\" protobuf:\"bytes,2,opt,name=source\"`
\tWhen Time `json:\"when,omitempty,omitzero\" protobuf:\"bytes,4,opt,name=when\"`
\thidden string
}
";
        let mut structs = Structs::new();
        parse(text, "p", &mut structs);
        let thing = &structs["p.Thing"];
        assert!(thing.has_type_meta);
        let tags: Vec<_> = thing
            .fields
            .iter()
            .map(|(number, tag)| (*number, tag.json.as_deref(), tag.pointer, tag.omit_empty, tag.omit_zero))
            .collect();
        assert_eq!(
            tags,
            [
                (2, None, false, false, false),
                (3, Some("count"), true, true, false),
                (4, Some("when"), false, true, true)
            ]
        );
    }
}
