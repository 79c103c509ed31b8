//! One resource.

use std::convert::Infallible;
use std::sync::OnceLock;

use arcstr::ArcStr;
use bytes::Bytes;
use serde_json::{Value, json};
use steersman_api::schema::{self, Kind, Scope};
use steersman_api::wire;

use super::strategy::{Strategy, Traits};
use crate::managed_fields::{self, Reset, Type};
use crate::store::{TableId, View};
use crate::table::Layout;

/// A resource in one version: how it is named, what it can do, and who knows the rules of its kind.
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: ArcStr,
    /// Such as `v1`.
    pub(crate) version: ArcStr,
    /// `v1`, `batch/v1`.
    pub(crate) api_version: ArcStr,
    /// Such as `pods`.
    pub(crate) plural: ArcStr,
    /// Such as `pod`.
    pub(crate) singular: ArcStr,
    /// Such as `Pod`.
    pub(crate) kind: ArcStr,
    /// Such as `PodList`.
    pub(crate) list_kind: ArcStr,
    /// As messages name it: `pods`, `jobs.batch`.
    pub(crate) qualified: ArcStr,
    /// Whether its objects live in namespaces.
    pub(crate) scope: Scope,
    /// Such as `po`.
    pub(crate) short_names: Vec<ArcStr>,
    /// Such as `all`.
    pub(crate) categories: Vec<ArcStr>,
    /// Such as `get`.
    pub(crate) verbs: Vec<ArcStr>,
    /// Such as `status`.
    pub(crate) subresources: Vec<Subresource>,
    /// Where its objects are kept; other versions of the resource share it.
    pub(crate) table: TableId,
    /// Of built-in kinds only.
    pub(crate) schema: Option<&'static Kind>,
    /// Of custom resources: the schema that their definition has for the version.
    pub(crate) structure: Option<Value>,
    /// Its definition is going: what is there goes, and nothing new comes.
    pub(crate) closing: bool,
    /// See [`empty`](Self::empty).
    pub(super) empty: OnceLock<Value>,
    /// What sets its kind apart, as plain facts.
    pub(crate) traits: Traits,
    /// What sets its kind apart, as code.
    pub(crate) strategy: &'static dyn Strategy,
    /// How its objects are shown as rows.
    pub(crate) layout: Layout,
}

/// A resource of one object.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    /// Such as `status`.
    pub(crate) name: ArcStr,
    /// The group of its kind.
    pub(crate) group: ArcStr,
    /// The version of its kind.
    pub(crate) version: ArcStr,
    /// Such as `Scale`.
    pub(crate) kind: ArcStr,
    /// Such as `get`.
    pub(crate) verbs: Vec<ArcStr>,
}

impl Resource {
    /// A built-in one.
    pub(super) fn built_in(
        of: &'static schema::Resource,
        traits: Traits,
        strategy: &'static dyn Strategy,
        table: Option<&'static str>,
    ) -> Self {
        let (group, version) = (ArcStr::from(of.group), ArcStr::from(of.version));
        let shared = |names: &[&str]| names.iter().copied().map(ArcStr::from).collect();
        let subresources = of.subresources.iter().map(|sub| Subresource {
            name: sub.name.into(),
            group: sub.group.into(),
            version: sub.version.into(),
            kind: sub.kind.into(),
            verbs: shared(&sub.verbs),
        });
        let qualified = qualified(of.group, of.plural);
        Self {
            api_version: api_version(of.group, of.version),
            plural: of.plural.into(),
            singular: of.singular.into(),
            kind: of.kind.into(),
            list_kind: arcstr::format!("{}List", of.kind),
            scope: of.scope,
            short_names: shared(&of.short_names),
            categories: shared(&of.categories),
            verbs: shared(&of.verbs),
            subresources: subresources.collect(),
            table: table.map_or_else(|| qualified.clone(), ArcStr::from),
            schema: of.kind(),
            layout: Layout::of(of.group, of.kind),
            structure: None,
            closing: false,
            empty: OnceLock::new(),
            group,
            version,
            qualified,
            traits,
            strategy,
        }
    }

    /// Whether its objects live in namespaces.
    pub(crate) fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether it has that verb.
    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// One of its subresources.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// An object of it in which nothing is set.
    pub(crate) fn empty(&self) -> &Value {
        self.empty.get_or_init(|| {
            let typed = json!({"apiVersion": self.api_version.as_str(), "kind": self.kind.as_str()});
            match self.schema {
                Some(kind) => schema::normalize(kind, &typed).unwrap_or(typed),
                None => typed,
            }
        })
    }

    /// The type of its objects, as far as their fields may have different managers.
    pub(crate) fn field_type(&self) -> Type<'_> {
        match self.schema {
            Some(kind) => Type::Kind(kind),
            None => Type::Custom(self.structure.as_ref()),
        }
    }

    /// What a write through a subresource (or none) never changes.
    pub(crate) fn reset(&self, subresource: &str) -> Reset {
        match self.schema {
            Some(_) => Reset::of(&self.group, &self.plural, subresource, self.has_status()),
            None => Reset::of_custom(subresource, self.has_status()),
        }
    }

    /// Whether status is written apart from the rest.
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// What an object or a list of it begins with in JSON, up to and without its other members.
    pub(crate) fn json_head(&self, view: View) -> Bytes {
        let (api_version, kind) = self.shown_as(view);
        format!("{{\"kind\":{},\"apiVersion\":{}", Value::from(kind), Value::from(api_version)).into()
    }

    /// `apiVersion` and `kind` of its objects under that view.
    pub(crate) fn shown_as(&self, view: View) -> (&str, &str) {
        match view {
            View::Whole => (&self.api_version, &self.kind),
            View::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadata"),
        }
    }

    /// `apiVersion` and `kind` of its lists under that view.
    pub(crate) fn list_shown_as(&self, view: View) -> (&str, &str) {
        match view {
            View::Whole => (&self.api_version, &self.list_kind),
            View::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadataList"),
        }
    }

    /// What an object's envelope begins with in protobuf, when its bare message has `len` bytes; the message and
    /// [`ENVELOPE_TAIL`] follow.
    pub(crate) fn envelope_head(&self, view: View, len: usize) -> Bytes {
        let (api_version, kind) = self.shown_as(view);
        envelope_head(api_version, kind, len)
    }

    /// An object of another version of this resource, as this one shows it.
    pub(crate) fn convert_from(&self, stored: &Self, value: &Value) -> Value {
        let converted = self.strategy.convert(stored, self, value);
        match self.schema {
            // Members may be shown in the one form and omitted in the other.
            Some(kind) if self.api_version != stored.api_version => {
                managed_fields::without_fields(converted, |converted| {
                    schema::normalize(kind, converted).or_else(|_| Ok::<_, Infallible>(converted.clone()))
                })
                .unwrap_or_else(|never| match never {})
            }
            _ => converted,
        }
    }
}

/// `contentEncoding` and `contentType`, which upstream writes even though they are empty.
pub(crate) const ENVELOPE_TAIL: &[u8] = &[0x1a, 0, 0x22, 0];

/// See [`Resource::envelope_head`].
pub(crate) fn envelope_head(api_version: &str, kind: &str, len: usize) -> Bytes {
    let mut writer = wire::Writer::onto(wire::MAGIC);
    writer.message(1, |type_meta| {
        type_meta.text(1, api_version);
        type_meta.text(2, kind);
    });
    let mut head = writer.into_bytes();
    length_delimited(&mut head, 2, len);
    head.into()
}

/// The tag and the length of a field whose bytes come after.
pub(crate) fn length_delimited(out: &mut Vec<u8>, number: u8, len: usize) {
    out.push(number << 3 | 2);
    let mut rest = len;
    loop {
        let [low, ..] = rest.to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// `v1`, `batch/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> ArcStr {
    if group.is_empty() { version.into() } else { arcstr::format!("{group}/{version}") }
}

/// `pods`, `jobs.batch`.
pub(crate) fn qualified(group: &str, plural: &str) -> ArcStr {
    if group.is_empty() { plural.into() } else { arcstr::format!("{plural}.{group}") }
}
