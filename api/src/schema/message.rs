//! Messages and their fields.

use std::sync::OnceLock;

use super::table::table;

/// A message: the type of an object, or of a part of one.
#[derive(Debug)]
pub struct Message {
    /// The name in the table, such as `core.v1.PodSpec`.
    pub name: &'static str,
    /// The package, such as `io.k8s.api.core.v1`.
    pub package: &'static str,
    pub(super) attributes: &'static str,
    pub(super) body: &'static str,
    pub(super) fields: OnceLock<Box<[Field]>>,
}

/// One field of a message.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON. Empty for an inlined message, whose fields are members of the outer object.
    pub name: &'static str,
    /// The field number in protobuf.
    pub number: u32,
    /// The type of the value, or of the values in the list or map.
    pub ty: Type,
    /// Whether the field has one value, a list or a map.
    pub shape: Shape,
    /// Whether the field is a pointer in Go, so that "not set" differs from zero. Protobuf always has the other fields.
    pub pointer: bool,
    /// When JSON leaves out the field.
    pub omit: Omit,
    /// Whether OpenAPI lists the field as required.
    pub required: bool,
    published: &'static str,
}

/// The type of one value.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    /// Text.
    String,
    /// A boolean.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A floating-point number.
    Double,
    /// Bytes; base64 in JSON.
    Bytes,
    /// A timestamp in whole seconds.
    Time,
    /// A timestamp in microseconds.
    MicroTime,
    /// An amount of a resource; see [`crate::Quantity`].
    Quantity,
    /// A number or a text, such as the number or the name of a port.
    IntOrString,
    /// An object of any kind.
    RawExtension,
    /// The set of fields that a field manager owns.
    FieldsV1,
    /// Any JSON value, such as a default in the schema of a custom resource.
    Json,
    /// A JSON schema or a list of JSON schemas.
    SchemaOrArray,
    /// A JSON schema or a boolean.
    SchemaOrBool,
    /// A JSON schema or a list of property names.
    SchemaOrStrings,
    /// Another message.
    Message(&'static Message),
}

/// Whether the field has one value, a list or a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One value.
    Single,
    /// A list of values.
    List,
    /// A map from text to values.
    Map,
}

/// When JSON leaves out a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omit {
    /// Never. A field that is not set is null or zero.
    Never,
    /// If it is not set, zero or empty: Go's `omitempty`, which never leaves out a message.
    Empty,
    /// If it is zero: Go's `omitzero`, which leaves out messages without fields too.
    Zero,
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Merges the patch's list into the field's list, instead of replacing it.
    pub merge: bool,
    /// Replaces the field's message by the patch's, instead of merging the two.
    pub replace: bool,
    /// Honours the patch's `$retainKeys`, which removes all members that it does not name.
    pub retain_keys: bool,
    /// The field that identifies the items of a merged list. Empty for lists of scalars.
    pub merge_key: &'static str,
}

/// How server-side apply treats a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// A manager owns the list as a whole.
    Atomic,
    /// A manager owns single values, which are unique in the list.
    Set,
    /// A manager owns single items, which these key fields identify.
    Map(Vec<&'static str>),
}

/// A union: fields of which at most one is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Union {
    /// The field that names the one that is set; empty if the union has no such field.
    pub discriminator: &'static str,
    fields: &'static str,
}

impl Union {
    /// Iterates over the fields, each with the discriminator's value for it.
    pub fn fields(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.fields.split(',').filter_map(|field| field.split_once(':'))
    }
}

impl Message {
    /// Returns the fields, sorted by number.
    pub fn fields(&'static self) -> &'static [Field] {
        self.fields.get_or_init(|| {
            let fields = self.body.lines().map(|line| {
                Field::parse(line.trim_start()).expect("the schema table must have fields it can read itself")
            });
            fields.collect()
        })
    }

    /// Returns the field of this JSON name. Looks into inlined messages too.
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find_map(|field| match field.inlined() {
            Some(inlined) => inlined.field(name),
            None => (field.name == name).then_some(field),
        })
    }

    /// The name in OpenAPI, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn openapi_name(&self) -> String {
        format!("{}.{}", self.package, self.short_name())
    }

    /// The name within its package, such as `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Whether objects of this message have `apiVersion` and `kind`.
    pub fn has_type_meta(&self) -> bool {
        self.api_version().is_some()
    }

    /// The group version in which this message is a kind; `*` for kinds of all group versions, such as `DeleteOptions`.
    pub fn api_version(&self) -> Option<&'static str> {
        self.attributes.split(' ').find_map(|word| word.strip_prefix('@'))
    }

    /// Whether this message is a list in JSON. Protobuf needs a message for a list in a map, and for one that may be
    /// unset.
    pub fn is_list(&self) -> bool {
        self.attributes.split(' ').any(|word| word == "list")
    }

    /// Whether server-side apply treats every value of this message as atomic.
    pub fn is_atomic(&self) -> bool {
        attribute(self.attributes, "map") == Some("atomic")
    }

    /// Iterates over the message's unions.
    pub fn unions(&self) -> impl Iterator<Item = Union> + use<> {
        let unions = self.attributes.split(' ').filter_map(|word| word.strip_prefix("union="));
        unions.map(|union| {
            let (discriminator, fields) = union.split_once(',').unwrap_or((union, ""));
            Union { discriminator, fields }
        })
    }
}

impl Field {
    /// Returns the inlined message, if this field is one.
    pub fn inlined(&self) -> Option<&'static Message> {
        match self.ty {
            Type::Message(message) if self.name.is_empty() => Some(message),
            _ => None,
        }
    }

    /// How a strategic merge patch treats the field.
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

    /// How server-side apply treats the field's list: as atomic, unless OpenAPI says otherwise.
    pub fn list_type(&self) -> ListType {
        self.published_list_type().unwrap_or(ListType::Atomic)
    }

    /// The field's `x-kubernetes-list-type` and list map keys in OpenAPI.
    pub fn published_list_type(&self) -> Option<ListType> {
        Some(match attribute(self.published, "list")? {
            "set" => ListType::Set,
            keyed if keyed.starts_with("map:") => ListType::Map(keyed[4..].split(',').collect()),
            _ => ListType::Atomic,
        })
    }

    /// The field's `x-kubernetes-map-type` in OpenAPI: `atomic` or `granular`.
    pub fn published_map_type(&self) -> Option<&'static str> {
        attribute(self.published, "map")
    }

    /// Whether server-side apply treats the field's map or message as atomic.
    pub fn is_atomic_map(&self) -> bool {
        match (attribute(self.published, "map"), self.ty) {
            (Some(map_type), _) => map_type == "atomic",
            (None, Type::Message(message)) => self.shape == Shape::Single && message.is_atomic(),
            _ => false,
        }
    }

    /// The allowed values; empty if OpenAPI names none.
    pub fn enumeration(&self) -> Vec<&'static str> {
        attribute(self.published, "enum").map(|values| values.split('|').collect()).unwrap_or_default()
    }

    /// The default in OpenAPI. Often it only describes the zero value, and is not a default that a server would fill
    /// in.
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

    /// Parses a row `NUMBER NAME [*|[]|{}]TYPE [?0!] [patch=..] [list=..] [map=..] [default=..] [enum=..]`.
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

/// Returns the value of the word `label=value`.
fn attribute(words: &'static str, label: &str) -> Option<&'static str> {
    words.split(' ').find_map(|word| word.strip_prefix(label)?.strip_prefix('='))
}
