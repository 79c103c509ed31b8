//! Messages and their fields.

use std::sync::OnceLock;

use super::table::table;

/// A message: the fields of an object, or of a part of one.
#[derive(Debug)]
pub struct Message {
    /// Its name in the table, such as `core.v1.PodSpec`.
    pub name: &'static str,
    /// The package it belongs to, such as `io.k8s.api.core.v1`.
    pub package: &'static str,
    pub(super) attributes: &'static str,
    pub(super) body: &'static str,
    pub(super) fields: OnceLock<Box<[Field]>>,
}

/// One field of a message.
#[derive(Debug)]
pub struct Field {
    /// Its name in JSON. Empty for an inlined message, whose fields stand in this one's place.
    pub name: &'static str,
    /// Its number in protobuf.
    pub number: u32,
    /// The type of its value, or of the values in its list or map.
    pub ty: Type,
    /// One value, or many.
    pub shape: Shape,
    /// Go's pointer: it tells "not set" from zero. Fields without it are always there in protobuf.
    pub pointer: bool,
    /// When JSON leaves it out.
    pub omit: Omit,
    /// Whether OpenAPI lists it as required.
    pub required: bool,
    published: &'static str,
}

/// The type of one value.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    /// Text.
    String,
    /// A truth value.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A floating-point number.
    Double,
    /// Bytes; base64 in JSON.
    Bytes,
    /// A moment in whole seconds.
    Time,
    /// A moment in microseconds.
    MicroTime,
    /// An amount, see [`crate::Quantity`].
    Quantity,
    /// A number or a name.
    IntOrString,
    /// Any object, encoded on its own.
    RawExtension,
    /// A set of fields, as server-side apply keeps it.
    FieldsV1,
    /// Any JSON value, within the schema of a custom resource.
    Json,
    /// A schema or a list of schemas.
    SchemaOrArray,
    /// A schema, or whether anything goes.
    SchemaOrBool,
    /// A schema or a list of names.
    SchemaOrStrings,
    /// Fields of its own.
    Message(&'static Message),
}

/// One value, or many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One.
    Single,
    /// A list of them.
    List,
    /// A map from text to them.
    Map,
}

/// When JSON leaves a field out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omit {
    /// Never; what is not set is null or zero.
    Never,
    /// When it is not set, zero or empty (Go's `omitempty`, by which no message is ever empty).
    Empty,
    /// When it is zero, also as a message (Go's `omitzero`).
    Zero,
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// A list is merged with the patch's, not replaced by it.
    pub merge: bool,
    /// A message is replaced by the patch's, not merged with it.
    pub replace: bool,
    /// What the patch does not name is dropped, if it says so.
    pub retain_keys: bool,
    /// By which of their fields the items of two lists are the same; empty in lists of plain values.
    pub merge_key: &'static str,
}

/// How server-side apply treats a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// As one value.
    Atomic,
    /// Each value belongs to whoever set it.
    Set,
    /// Items are the same when all these fields of theirs are.
    Map(Vec<&'static str>),
}

/// Fields of which one at most is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Union {
    /// The field that says which one; empty if none does.
    pub discriminator: &'static str,
    fields: &'static str,
}

impl Union {
    /// Each field, and what the discriminator says when it is set.
    pub fn fields(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.fields.split(',').filter_map(|field| field.split_once(':'))
    }
}

impl Message {
    /// Its fields, in the order of their numbers.
    pub fn fields(&'static self) -> &'static [Field] {
        self.fields.get_or_init(|| {
            let fields = self.body.lines().map(|line| {
                Field::parse(line.trim_start()).expect("the schema table must have fields it can read itself")
            });
            fields.collect()
        })
    }

    /// The field of this JSON name, whether its own or an inlined message's.
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find_map(|field| match field.inlined() {
            Some(inlined) => inlined.field(name),
            None => (field.name == name).then_some(field),
        })
    }

    /// The name by which OpenAPI knows it, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn openapi_name(&self) -> String {
        format!("{}.{}", self.package, self.short_name())
    }

    /// The name within its package, such as `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Whether objects of it carry `apiVersion` and `kind`.
    pub fn has_type_meta(&self) -> bool {
        self.api_version().is_some()
    }

    /// The group version it is a kind of; `*` if of every one, as `DeleteOptions` is.
    pub fn api_version(&self) -> Option<&'static str> {
        self.attributes.split(' ').find_map(|word| word.strip_prefix('@'))
    }

    /// Whether it is but a list in JSON: protobuf has no lists within maps or that may be unset.
    pub fn is_list(&self) -> bool {
        self.attributes.split(' ').any(|word| word == "list")
    }

    /// Whether server-side apply treats it as one value wherever it stands.
    pub fn is_atomic(&self) -> bool {
        attribute(self.attributes, "map") == Some("atomic")
    }

    /// Fields of it of which one at most is set.
    pub fn unions(&self) -> impl Iterator<Item = Union> + use<> {
        let unions = self.attributes.split(' ').filter_map(|word| word.strip_prefix("union="));
        unions.map(|union| {
            let (discriminator, fields) = union.split_once(',').unwrap_or((union, ""));
            Union { discriminator, fields }
        })
    }
}

impl Field {
    /// The message whose fields stand in this field's place.
    pub fn inlined(&self) -> Option<&'static Message> {
        match self.ty {
            Type::Message(message) if self.name.is_empty() => Some(message),
            _ => None,
        }
    }

    /// How a strategic merge patch treats it.
    pub fn patch_strategy(&self) -> PatchStrategy {
        let Some(strategy) = attribute(self.published, "patch") else { return PatchStrategy::default() };
        let (strategies, merge_key) = strategy.split_once(':').unwrap_or((strategy, ""));
        let has = |name| strategies.split(',').any(|strategy| strategy == name);
        PatchStrategy {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
            merge_key,
        }
    }

    /// How server-side apply treats its list; lists of which nothing is said are atomic.
    pub fn list_type(&self) -> ListType {
        self.published_list_type().unwrap_or(ListType::Atomic)
    }

    /// What OpenAPI says of how server-side apply treats its list.
    pub fn published_list_type(&self) -> Option<ListType> {
        Some(match attribute(self.published, "list")? {
            "set" => ListType::Set,
            keyed if keyed.starts_with("map:") => ListType::Map(keyed[4..].split(',').collect()),
            _ => ListType::Atomic,
        })
    }

    /// What OpenAPI says of how server-side apply treats its map or message: `atomic` or `granular`.
    pub fn published_map_type(&self) -> Option<&'static str> {
        attribute(self.published, "map")
    }

    /// Whether server-side apply treats its map or message as one value.
    pub fn is_atomic_map(&self) -> bool {
        match (attribute(self.published, "map"), self.ty) {
            (Some(map_type), _) => map_type == "atomic",
            (None, Type::Message(message)) => self.shape == Shape::Single && message.is_atomic(),
            _ => false,
        }
    }

    /// The values it may have; empty if any.
    pub fn enumeration(&self) -> Vec<&'static str> {
        attribute(self.published, "enum").map(|values| values.split('|').collect()).unwrap_or_default()
    }

    /// The default that OpenAPI publishes. Such a default is a fact about the field's zero value as often as
    /// something that a server would fill in.
    pub fn default(&self) -> Option<serde_json::Value> {
        if let Some(default) = attribute(self.published, "default") {
            return serde_json::from_str(default).ok();
        }
        if self.pointer || self.shape != Shape::Single {
            return None;
        }
        match self.ty {
            Type::Message(_) => Some(serde_json::json!({})),
            _ if self.omit != Omit::Never => None,
            Type::String => Some("".into()),
            Type::Bool => Some(false.into()),
            Type::Int32 | Type::Int64 | Type::Double => Some(0.into()),
            _ => None,
        }
    }

    /// From `NUMBER NAME [*|[]|{}]TYPE [?0!] [patch=..] [list=..] [map=..] [default=..] [enum=..]`.
    fn parse(line: &'static str) -> Option<Self> {
        let (number, rest) = line.split_once(' ')?;
        let (name, rest) = rest.split_once(' ')?;
        let (ty, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (flags, published) = match rest.split_once(' ').unwrap_or((rest, "")) {
            (flags, published) if !flags.contains('=') => (flags, published),
            _ => ("", rest),
        };
        let (pointer, ty) = ty.strip_prefix('*').map_or((false, ty), |ty| (true, ty));
        let (shape, ty) = match (ty.strip_prefix("[]"), ty.strip_prefix("{}")) {
            (Some(ty), _) => (Shape::List, ty),
            (_, Some(ty)) => (Shape::Map, ty),
            _ => (Shape::Single, ty),
        };
        let omit = match (flags.contains('0'), flags.contains('?')) {
            (true, _) => Omit::Zero,
            (_, true) => Omit::Empty,
            _ => Omit::Never,
        };
        Some(Self {
            name: if name == "." { "" } else { name },
            number: number.parse().ok()?,
            ty: Type::parse(ty)?,
            shape,
            pointer,
            omit,
            required: flags.contains('!'),
            published,
        })
    }
}

impl Type {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "Time" => Self::Time,
            "MicroTime" => Self::MicroTime,
            "Quantity" => Self::Quantity,
            "IntOrString" => Self::IntOrString,
            "RawExtension" => Self::RawExtension,
            "FieldsV1" => Self::FieldsV1,
            "JSON" => Self::Json,
            "SchemaOrArray" => Self::SchemaOrArray,
            "SchemaOrBool" => Self::SchemaOrBool,
            "SchemaOrStrings" => Self::SchemaOrStrings,
            message => Self::Message(table().message(message)?),
        })
    }
}

/// The value of `label=value` among words.
fn attribute(words: &'static str, label: &str) -> Option<&'static str> {
    words.split(' ').find_map(|word| word.strip_prefix(label)?.strip_prefix('='))
}
