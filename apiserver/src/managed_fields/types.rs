//! What field management must know of a field's type: which parts of its value may belong to different managers.

use serde_json::Value;
use steersman_api::schema::{self, Field, Kind, ListType, Message, Shape};

use super::element::Element;

/// The type of a value: of a built-in kind, as the schema table has it, or as a custom resource's schema says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Type<'s> {
    /// An object of a built-in kind.
    Kind(&'static Kind),
    /// An object of a custom resource, with the schema of its definition.
    Custom(Option<&'s Value>),
    /// All of a field: its list, its map or its value.
    Field(&'static Field),
    /// An item of a field's list or map.
    Item(&'static Field),
    /// A part with fields of its own.
    Message(&'static Message),
    /// By a schema as definitions of custom resources have them.
    Schema(&'s Value, Unknown),
    /// A text.
    Text,
    /// Of which nothing is known: objects have members, lists are one value.
    Deduced,
    /// Of which nothing is known, and which is one value.
    Whole,
}

/// What a schema says of members that it does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// There are none.
    Refused,
    /// They are kept.
    Kept,
}

/// The forms that a value of a type may have; mostly one.
#[derive(Debug, Clone, Default)]
pub(super) struct Forms<'s> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List<'s>>,
    pub(super) map: Option<Map<'s>>,
}

/// What a single value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Number,
    Text,
    Bool,
    Any,
}

/// A list.
#[derive(Debug, Clone)]
pub(super) struct List<'s> {
    pub(super) items: Type<'s>,
    pub(super) relation: Relation<'s>,
}

/// How the items of a list relate to each other.
#[derive(Debug, Clone)]
pub(super) enum Relation<'s> {
    /// They are one value.
    Atomic,
    /// Each is a member of a set.
    Set,
    /// Each is known by these of its fields.
    Keys(Vec<&'s str>),
}

/// An object or a map.
#[derive(Debug, Clone)]
pub(super) struct Map<'s> {
    /// It is one value.
    pub(super) atomic: bool,
    pub(super) fields: Fields<'s>,
    /// The type of members that are not listed.
    pub(super) others: Type<'s>,
    /// Members that are not listed are a mistake.
    pub(super) closed: bool,
}

/// The members that a type lists.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fields<'s> {
    None,
    Message(&'static Message),
    Properties(&'s Value, Unknown),
    /// Those of any object, then those of the schema.
    Object(Option<&'s Value>, Unknown),
}

/// Which form a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Map,
    Scalar,
    List,
}

impl<'s> Type<'s> {
    pub(super) fn forms(self) -> Forms<'s> {
        match self {
            Self::Kind(kind) => Forms::map(Map::of_message(kind.message)),
            Self::Message(message) => Forms::map(Map::of_message(message)),
            Self::Custom(schema) => {
                let unknown = schema.map_or(Unknown::Kept, |schema| unknown_of(schema, Unknown::Refused));
                Forms::map(Map {
                    atomic: false,
                    fields: Fields::Object(schema, unknown),
                    others: Self::Deduced,
                    closed: unknown == Unknown::Refused,
                })
            }
            Self::Field(field) => of_field(field),
            Self::Item(field) => of_item(field),
            Self::Schema(schema, unknown) => of_schema(schema, unknown),
            Self::Text => Forms::scalar(Scalar::Text),
            Self::Deduced => Forms {
                scalar: Some(Scalar::Any),
                list: Some(List { items: Self::Whole, relation: Relation::Atomic }),
                map: Some(Map { atomic: false, fields: Fields::None, others: Self::Deduced, closed: false }),
            },
            Self::Whole => Forms {
                scalar: Some(Scalar::Any),
                list: Some(List { items: Self::Whole, relation: Relation::Atomic }),
                map: Some(Map { atomic: true, fields: Fields::None, others: Self::Whole, closed: false }),
            },
        }
    }
}

impl<'s> Forms<'s> {
    fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), ..Self::default() }
    }

    fn list(items: Type<'s>, relation: Relation<'s>) -> Self {
        Self { list: Some(List { items, relation }), ..Self::default() }
    }

    fn map(map: Map<'s>) -> Self {
        Self { map: Some(map), ..Self::default() }
    }

    /// The form in which a value is looked at: its own if the type has it.
    pub(super) fn of(&self, value: Option<&Value>) -> Form {
        match value {
            Some(Value::Object(_)) if self.map.is_some() => Form::Map,
            Some(Value::Array(_)) if self.list.is_some() => Form::List,
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) if self.scalar.is_some() => {
                Form::Scalar
            }
            _ if self.map.is_some() => Form::Map,
            _ if self.scalar.is_some() => Form::Scalar,
            _ => Form::List,
        }
    }
}

impl<'s> Map<'s> {
    fn of_message(message: &'static Message) -> Self {
        let free = message.fields().is_empty();
        Self {
            atomic: message.is_atomic(),
            fields: Fields::Message(message),
            others: Type::Deduced,
            closed: !free,
        }
    }

    /// The type of a member that is listed.
    pub(super) fn listed(&self, name: &str) -> Option<Type<'s>> {
        match self.fields {
            Fields::None => None,
            Fields::Message(message) if message.has_type_meta() && is_type_meta(name) => Some(Type::Text),
            Fields::Message(message) => message.field(name).map(Type::Field),
            Fields::Object(..) if is_type_meta(name) => Some(Type::Text),
            Fields::Object(..) if name == "metadata" => object_meta().map(Type::Message),
            Fields::Object(schema, unknown) => {
                Some(Type::Schema(schema?.get("properties")?.get(name)?, unknown))
            }
            Fields::Properties(properties, unknown) => Some(Type::Schema(properties.get(name)?, unknown)),
        }
    }

    /// The type of a member.
    pub(super) fn member(&self, name: &str) -> Type<'s> {
        self.listed(name).unwrap_or(self.others)
    }
}

impl List<'_> {
    /// The step from the list to an item.
    ///
    /// # Errors
    /// What is wrong with an item that can't be told from others.
    pub(super) fn element(&self, item: &Value) -> Result<Element, String> {
        match &self.relation {
            Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(Element::Value(scalar.clone())),
            },
            Relation::Keys(keys) => self.keyed(keys, item),
        }
    }

    fn keyed(&self, keys: &[&str], item: &Value) -> Result<Element, String> {
        let members = match item {
            Value::Object(members) => members,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            let value = members.get(*key).cloned().or_else(|| self.default_of(key));
            fields.extend(value.map(|value| ((*key).to_owned(), value)));
        }
        if fields.is_empty() {
            let keys: Vec<_> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Element::Key(fields))
    }

    /// What a key is taken for that an item does not say.
    fn default_of(&self, key: &str) -> Option<Value> {
        match self.items.forms().map?.listed(key)? {
            Type::Field(field) => field.default(),
            Type::Schema(schema, _) => schema.get("default").cloned(),
            _ => None,
        }
    }
}

fn of_field(field: &'static Field) -> Forms<'static> {
    match field.shape {
        Shape::List => {
            let relation = match field.list_type() {
                ListType::Atomic => Relation::Atomic,
                ListType::Set => Relation::Set,
                ListType::Map(keys) => Relation::Keys(keys),
            };
            Forms::list(Type::Item(field), relation)
        }
        Shape::Map => Forms::map(Map {
            atomic: field.is_atomic_map(),
            fields: Fields::None,
            others: Type::Item(field),
            closed: false,
        }),
        Shape::Single => {
            let mut forms = of_item(field);
            if let Some(map) = &mut forms.map {
                map.atomic |= field.is_atomic_map();
            }
            forms
        }
    }
}

fn of_item(field: &'static Field) -> Forms<'static> {
    use schema::Type as Ty;
    match field.ty {
        Ty::String | Ty::Bytes => Forms::scalar(Scalar::Text),
        Ty::Bool => Forms::scalar(Scalar::Bool),
        Ty::Int32 | Ty::Int64 | Ty::Double => Forms::scalar(Scalar::Number),
        Ty::Time | Ty::MicroTime | Ty::Quantity | Ty::IntOrString => Forms::scalar(Scalar::Any),
        Ty::RawExtension => Type::Whole.forms(),
        Ty::FieldsV1 | Ty::Json | Ty::SchemaOrArray | Ty::SchemaOrBool | Ty::SchemaOrStrings => {
            Type::Deduced.forms()
        }
        Ty::Message(message) if message.is_list() => match message.fields() {
            [items, ..] => Forms::list(Type::Item(items), Relation::Atomic),
            [] => Forms::list(Type::Whole, Relation::Atomic),
        },
        Ty::Message(message) => Type::Message(message).forms(),
    }
}

fn of_schema(schema: &Value, inherited: Unknown) -> Forms<'_> {
    let unknown = unknown_of(schema, inherited);
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "object" => Forms::map(object_of_schema(schema, unknown)),
        "array" => Forms { list: Some(list_of_schema(schema, unknown)), ..Forms::default() },
        "integer" | "number" => Forms::scalar(Scalar::Number),
        "boolean" => Forms::scalar(Scalar::Bool),
        "string" if matches!(text("format"), "" | "byte") => Forms::scalar(Scalar::Text),
        "string" => Forms::scalar(Scalar::Any),
        _ => Forms {
            scalar: Some(Scalar::Any),
            list: Some(list_of_schema(schema, unknown)),
            map: Some(object_of_schema(schema, unknown)),
        },
    }
}

fn object_of_schema(schema: &Value, unknown: Unknown) -> Map<'_> {
    static NO_PROPERTIES: Value = Value::Null;
    let properties = schema.get("properties").unwrap_or(&NO_PROPERTIES);
    let (others, closed) = match schema.get("additionalProperties") {
        Some(items @ Value::Object(_)) => (Type::Schema(items, unknown), false),
        Some(Value::Bool(allowed)) => (Type::Deduced, !allowed),
        _ => {
            let free = properties.as_object().is_none_or(serde_json::Map::is_empty);
            (Type::Deduced, unknown == Unknown::Refused && !free)
        }
    };
    let atomic = schema.get("x-kubernetes-map-type").is_some_and(|kind| kind == "atomic");
    let embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    let fields = if embedded {
        Fields::Object(Some(schema), unknown)
    } else {
        Fields::Properties(properties, unknown)
    };
    Map { atomic, fields, others, closed }
}

fn list_of_schema(schema: &Value, unknown: Unknown) -> List<'_> {
    let relation = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Relation::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            Relation::Keys(keys.into_iter().flatten().filter_map(Value::as_str).collect())
        }
        _ => Relation::Atomic,
    };
    let items = schema.get("items").map_or(Type::Whole, |items| Type::Schema(items, unknown));
    List { items, relation }
}

fn unknown_of(schema: &Value, inherited: Unknown) -> Unknown {
    match schema.get("x-kubernetes-preserve-unknown-fields") {
        Some(Value::Bool(true)) => Unknown::Kept,
        _ => inherited,
    }
}

fn is_type_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

fn object_meta() -> Option<&'static Message> {
    schema::table().message("meta.v1.ObjectMeta")
}
