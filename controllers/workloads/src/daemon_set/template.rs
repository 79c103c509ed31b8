//! Pod templates for one node.

use serde_json::{Map, Value, json};
use steersman_api::wire::{Reader, Writer};
use steersman_controller::pod_template::Error;
use steersman_informer::wire::{FieldValue, Opaque};
use steersman_kinds::scheduling::{NODE_NAME, Toleration};

use super::tolerations::{DEFAULTS, DefaultToleration};

/// The numbers of the fields in the published protobuf definition.
mod number {
    pub(super) const TEMPLATE_SPEC: u32 = 2;
    pub(super) const HOST_NETWORK: u32 = 11;
    pub(super) const AFFINITY: u32 = 18;
    pub(super) const TOLERATION: u32 = 22;
    pub(super) const NODE_AFFINITY: u32 = 1;
    pub(super) const REQUIRED: u32 = 1;
    pub(super) const TERM: u32 = 1;
    pub(super) const MATCH_FIELD: u32 = 2;
}

/// A template whose pods the scheduler binds to `node` and no other, with the tolerations of daemons. The scheduler, and not
/// the controller, binds the pods, so that it knows of their resources and can preempt other pods for them.
///
/// Everything else stays as it is, fields newer than this program included. Upstream's `CreatePodTemplate` without labels, and
/// `ReplaceDaemonSetPodNodeNameNodeAffinity`.
///
/// # Errors
/// The template can't be read.
pub(super) fn for_node(template: &Opaque, node: &str) -> Result<Opaque, Error> {
    match template {
        Opaque::None => Err(Error::Absent),
        Opaque::Protobuf(bytes) => Ok(Opaque::Protobuf(protobuf(bytes, node)?.into())),
        Opaque::Json(text) => {
            let mut template: Value = serde_json::from_str(text.get())?;
            complete(&mut template["spec"], node);
            let text = serde_json::value::to_raw_value(&template)?;
            Ok(Opaque::Json(text))
        }
    }
}

fn protobuf(template: &[u8], node: &str) -> Result<Vec<u8>, Error> {
    let (mut completed, mut spec) = (Writer::new(), Vec::new());
    let mut fields = Reader::new(template);
    while let Some(field) = fields.field()? {
        match field.number {
            // Readers merge the occurrences of a message, and read their concatenation alike.
            number::TEMPLATE_SPEC => spec.extend_from_slice(field.bytes()?),
            _ => completed.field(field),
        }
    }
    completed.bytes(number::TEMPLATE_SPEC, &protobuf_spec(&spec, node)?);
    Ok(completed.into_bytes())
}

fn protobuf_spec(spec: &[u8], node: &str) -> Result<Vec<u8>, Error> {
    let (mut completed, mut affinity, mut host_network) = (Writer::new(), Vec::new(), false);
    let mut missing = DEFAULTS.to_vec();
    let mut fields = Reader::new(spec);
    while let Some(field) = fields.field()? {
        match field.number {
            number::HOST_NETWORK => {
                host_network = field.bool()?;
                completed.field(field);
            }
            number::AFFINITY => affinity.extend_from_slice(field.bytes()?),
            number::TOLERATION => {
                let mut toleration = Toleration::default();
                toleration.merge(field)?;
                missing.retain(|default| !default.is_same(&toleration));
                match DEFAULTS.iter().find(|default| default.is_same(&toleration)) {
                    Some(default) => write_toleration(&mut completed, *default),
                    None => completed.field(field),
                }
            }
            _ => completed.field(field),
        }
    }
    let wanted = missing.into_iter().filter(|default| !default.host_network_only || host_network);
    wanted.for_each(|default| write_toleration(&mut completed, default));
    completed.bytes(number::AFFINITY, &protobuf_affinity(&affinity, node)?);
    Ok(completed.into_bytes())
}

impl DefaultToleration {
    /// Whether the template's toleration is this one, up to its seconds. Upstream's `MatchToleration`.
    fn is_same(&self, toleration: &Toleration) -> bool {
        toleration.key == self.key
            && toleration.effect == self.effect
            && toleration.operator == "Exists"
            && toleration.value.is_empty()
    }

    fn json(&self) -> Value {
        json!({"key": self.key, "operator": "Exists", "effect": self.effect})
    }
}

fn write_toleration(spec: &mut Writer, default: DefaultToleration) {
    spec.message(number::TOLERATION, |toleration| {
        toleration.text(1, default.key);
        toleration.text(2, "Exists");
        toleration.text(3, "");
        toleration.text(4, default.effect);
    });
}

fn protobuf_affinity(affinity: &[u8], node: &str) -> Result<Vec<u8>, Error> {
    let (mut node_affinity, affinity) = split(affinity, number::NODE_AFFINITY)?;
    let (required, rest) = split(&node_affinity, number::REQUIRED)?;
    // The other terms go: the node has been chosen by them.
    let (_, mut required) = split(&required, number::TERM)?;
    required.message(number::TERM, |term| {
        term.message(number::MATCH_FIELD, |field| {
            field.text(1, NODE_NAME);
            field.text(2, "In");
            field.text(3, node);
        });
    });
    let mut completed = Writer::new();
    completed.bytes(number::REQUIRED, &required.into_bytes());
    node_affinity = [completed.into_bytes(), rest.into_bytes()].concat();
    let mut completed = Writer::new();
    completed.bytes(number::NODE_AFFINITY, &node_affinity);
    Ok([completed.into_bytes(), affinity.into_bytes()].concat())
}

/// The message's field of this number, its occurrences merged, and the other fields.
fn split(message: &[u8], number: u32) -> Result<(Vec<u8>, Writer), Error> {
    let (mut found, mut others) = (Vec::new(), Writer::new());
    let mut fields = Reader::new(message);
    while let Some(field) = fields.field()? {
        if field.number == number { found.extend_from_slice(field.bytes()?) } else { others.field(field) }
    }
    Ok((found, others))
}

fn complete(spec: &mut Value, node: &str) {
    let host_network = spec.get("hostNetwork").is_some_and(|value| *value == true);
    let mut missing = DEFAULTS.to_vec();
    let mut tolerations = match spec["tolerations"].take() {
        Value::Array(tolerations) => tolerations,
        _ => Vec::new(),
    };
    for toleration in &mut tolerations {
        let read = Toleration::from_json(&*toleration).unwrap_or_default();
        missing.retain(|default| !default.is_same(&read));
        if let Some(default) = DEFAULTS.iter().find(|default| default.is_same(&read)) {
            *toleration = default.json();
        }
    }
    let wanted = missing.into_iter().filter(|default| !default.host_network_only || host_network);
    tolerations.extend(wanted.map(|default| default.json()));
    spec["tolerations"] = tolerations.into();

    let in_node = json!({"key": NODE_NAME, "operator": "In", "values": [node]});
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let mut place = spec;
    for name in required {
        place = &mut place[name];
        if !place.is_object() {
            *place = Map::new().into();
        }
    }
    place["nodeSelectorTerms"] = json!([{"matchFields": [in_node]}]);
}
