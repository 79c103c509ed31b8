//! Parses `generated.proto` files: messages with the numbers and types of their fields.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Error;

/// The messages, by their full name in OpenAPI, such as `io.k8s.api.core.v1.Pod`.
pub(crate) type Messages = BTreeMap<String, Message>;

/// One message.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// The fields, sorted by number.
    pub(crate) fields: Vec<Field>,
}

/// One field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The name in protobuf, which may differ from that in JSON.
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// The name of a scalar type, or the full name of a message.
    pub(crate) ty: String,
}

/// Whether a field has one value, a list or a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Single,
    List,
    Map,
}

/// Returns the paths of all definitions below the folder of a module, sorted.
pub(crate) fn definitions(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(definitions(&path)?);
        } else if path.ends_with("generated.proto") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Parses one file. Returns its package, spelt as in OpenAPI.
pub(crate) fn parse(file: &Path, messages: &mut Messages) -> Result<String, Error> {
    let text =
        std::fs::read_to_string(file).map_err(|source| Error::File { path: file.to_owned(), source })?;
    let bad = |line: &str| Error::source(file.display().to_string(), format!("not understood: {line}"));
    let mut package = String::new();
    let mut open: Option<(String, Message)> = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("package ") {
            package = openapi_name(name.trim_end_matches(';'));
        } else if let Some(name) = line.strip_prefix("message ") {
            open = Some((format!("{package}.{}", name.trim_end_matches([' ', '{'])), Message::default()));
        } else if line == "}" {
            let (name, mut message) = open.take().ok_or_else(|| bad(line))?;
            message.fields.sort_by_key(|field| field.number);
            messages.insert(name, message);
        } else if let Some((_, message)) = &mut open
            && !line.is_empty()
            && !line.starts_with("//")
        {
            message.fields.push(parse_field(line, &package).ok_or_else(|| bad(line))?);
        }
    }
    Ok(package)
}

fn parse_field(line: &str, package: &str) -> Option<Field> {
    let (declaration, number) = line.strip_suffix(';')?.split_once(" = ")?;
    let (ty, name) = declaration.rsplit_once(' ')?;
    let (shape, ty) = if let Some(ty) = ty.strip_prefix("map<string, ") {
        (Shape::Map, ty.strip_suffix('>')?)
    } else if let Some(ty) = ty.strip_prefix("repeated ") {
        (Shape::List, ty)
    } else {
        (Shape::Single, ty.strip_prefix("optional ")?)
    };
    let ty = match ty {
        "string" | "bool" | "int32" | "int64" | "double" | "bytes" => ty.to_owned(),
        _ => match ty.strip_prefix('.') {
            Some(absolute) => openapi_name(absolute),
            None => format!("{package}.{ty}"),
        },
    };
    Some(Field { number: number.parse().ok()?, name: name.to_owned(), shape, ty })
}

/// Converts a protobuf package to OpenAPI's spelling: `k8s.io.kube_aggregator.pkg.X` is `io.k8s.kube-aggregator.pkg.X`.
fn openapi_name(name: &str) -> String {
    let rest = name.strip_prefix("k8s.io.").unwrap_or(name);
    format!("io.k8s.{}", rest.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_its_number_shape_and_full_type() {
        let field = |line| parse_field(line, "io.k8s.api.core.v1").map(|f| (f.number, f.name, f.shape, f.ty));
        assert_eq!(field("optional int32 a = 3;"), Some((3, "a".into(), Shape::Single, "int32".into())));
        assert_eq!(
            field("repeated Container b = 2;"),
            Some((2, "b".into(), Shape::List, "io.k8s.api.core.v1.Container".into()))
        );
        assert_eq!(
            field("map<string, .k8s.io.kube_aggregator.pkg.X> c = 40;"),
            Some((40, "c".into(), Shape::Map, "io.k8s.kube-aggregator.pkg.X".into()))
        );
        assert_eq!(field("required string d = 1;"), None);
    }
}
