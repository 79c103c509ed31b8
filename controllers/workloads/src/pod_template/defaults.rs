//! The defaults that the API server fills into pod templates.

use serde_json::{Map, Value};
use steersman_api::schema::{Message, Omit, Shape, Type};

use Preset::{Empty, Number, Text};

/// The value of a default.
#[derive(Clone, Copy)]
enum Preset {
    Text(&'static str),
    Number(i64),
    /// A message without fields.
    Empty,
}

impl From<Preset> for Value {
    fn from(preset: Preset) -> Self {
        match preset {
            Text(text) => text.into(),
            Number(number) => number.into(),
            Empty => Map::new().into(),
        }
    }
}

/// The defaults that Kubernetes 1.36 sets in code (pkg/apis/core/v1/defaults.go): the message, the field, the value. The schema
/// table has the others, which upstream declares on the fields. Templates have no ephemeral containers.
///
/// Upstream also rounds quantities up to thousandths. The API server does so before a template reaches a revision.
const SET_IN_CODE: &[(&str, &str, Preset)] = &[
    ("core.v1.PodSpec", "dnsPolicy", Text("ClusterFirst")),
    ("core.v1.PodSpec", "restartPolicy", Text("Always")),
    ("core.v1.PodSpec", "schedulerName", Text("default-scheduler")),
    ("core.v1.PodSpec", "securityContext", Empty),
    ("core.v1.PodSpec", "terminationGracePeriodSeconds", Number(30)),
    ("core.v1.Container", "terminationMessagePath", Text("/dev/termination-log")),
    ("core.v1.Container", "terminationMessagePolicy", Text("File")),
    ("core.v1.Probe", "timeoutSeconds", Number(1)),
    ("core.v1.Probe", "periodSeconds", Number(10)),
    ("core.v1.Probe", "successThreshold", Number(1)),
    ("core.v1.Probe", "failureThreshold", Number(3)),
    ("core.v1.HTTPGetAction", "path", Text("/")),
    ("core.v1.HTTPGetAction", "scheme", Text("HTTP")),
    ("core.v1.ObjectFieldSelector", "apiVersion", Text("v1")),
    ("core.v1.HostPathVolumeSource", "type", Text("")),
    ("core.v1.ConfigMapVolumeSource", "defaultMode", Number(0o644)),
    ("core.v1.DownwardAPIVolumeSource", "defaultMode", Number(0o644)),
    ("core.v1.ProjectedVolumeSource", "defaultMode", Number(0o644)),
    ("core.v1.SecretVolumeSource", "defaultMode", Number(0o644)),
    ("core.v1.ServiceAccountTokenProjection", "expirationSeconds", Number(3600)),
    ("core.v1.PersistentVolumeClaimSpec", "volumeMode", Text("Filesystem")),
];

/// The fields with the policy of pulling an image, and those with the image's name.
const PULL_POLICIES: &[(&str, &str, &str)] = &[
    ("core.v1.Container", "imagePullPolicy", "image"),
    ("core.v1.ImageVolumeSource", "pullPolicy", "reference"),
];

/// Fills in the defaults of a message and of all messages in it. `json` must be as the schema writes it: without members that are
/// zero or empty and not pointers.
pub(super) fn fill(message: &'static Message, json: &mut Value) {
    let Value::Object(members) = json else { return };
    if message.name == "core.v1.Volume" && members.keys().all(|member| member == "name") {
        members.insert("emptyDir".to_owned(), Empty.into());
    }
    fill_members(message, members);
}

fn fill_members(message: &'static Message, members: &mut Map<String, Value>) {
    for field in message.fields() {
        if let Some(inlined) = field.inlined() {
            fill_members(inlined, members);
            continue;
        }
        match members.get_mut(field.name).filter(|value| !value.is_null()) {
            Some(value) => {
                let Type::Message(inner) = field.ty else { continue };
                match (field.shape, value) {
                    (Shape::List, Value::Array(items)) => items.iter_mut().for_each(|item| fill(inner, item)),
                    (Shape::Map, Value::Object(entries)) => {
                        entries.values_mut().for_each(|entry| fill(inner, entry));
                    }
                    (_, value) => fill(inner, value),
                }
            }
            None => {
                let set_in_code = SET_IN_CODE
                    .iter()
                    .find(|(of, name, _)| (*of, *name) == (message.name, field.name))
                    .map(|(.., default)| (*default).into());
                // The schema also publishes zero values of fields that JSON never leaves out.
                let declared = || field.default().filter(|_| field.pointer || field.omit != Omit::Never);
                if let Some(default) = set_in_code.or_else(declared) {
                    members.insert(field.name.to_owned(), default);
                }
            }
        }
    }
    for (of, policy, image) in PULL_POLICIES {
        if *of == message.name && !members.contains_key(*policy) {
            let image = members.get(*image).and_then(Value::as_str).unwrap_or_default();
            let default = if is_latest(image) { "Always" } else { "IfNotPresent" };
            members.insert((*policy).to_owned(), default.into());
        }
    }
}

/// Whether the name of an image has the tag `latest`, or neither a tag nor a digest. A name that is empty has neither and is no
/// image.
fn is_latest(image: &str) -> bool {
    let (name, has_digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !has_digest && !image.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steersman_api::schema::table;

    use super::super::{json, message};
    use super::*;
    use crate::pod_template::tests::protobuf_of;

    /// A template with every field that may lack a default, and what kube-apiserver 1.36.3 made of it.
    const TEMPLATES: &str = include_str!("testdata/defaults.json");

    fn templates() -> [Value; 2] {
        let mut templates: Value = serde_json::from_str(TEMPLATES).unwrap();
        ["sent", "stored"].map(|name| templates[name].take())
    }

    fn filled(template: &Value) -> Value {
        let mut json = json(&protobuf_of(template)).unwrap();
        fill(message(), &mut json);
        message().to_json(&message().to_protobuf(&json).unwrap()).unwrap()
    }

    #[test]
    fn the_defaults_are_those_of_the_api_server() {
        let [sent, stored] = templates();
        assert_eq!(filled(&sent), stored);
        assert_eq!(filled(&stored), stored, "what has its defaults does not change");
    }

    #[test]
    fn the_template_of_the_test_has_every_message_with_a_default() {
        fn visit(message: &'static Message, json: &Value, seen: &mut BTreeSet<&'static str>) {
            seen.insert(message.name);
            for field in message.fields() {
                let Type::Message(inner) = field.ty else { continue };
                match (field.inlined(), field.shape) {
                    (Some(inlined), _) => visit(inlined, json, seen),
                    (None, Shape::List) => {
                        json[field.name]
                            .as_array()
                            .into_iter()
                            .flatten()
                            .for_each(|item| visit(inner, item, seen));
                    }
                    (None, _) if json[field.name].is_object() => visit(inner, &json[field.name], seen),
                    _ => {}
                }
            }
        }
        let mut seen = BTreeSet::new();
        visit(message(), &templates()[1], &mut seen);
        let in_code = SET_IN_CODE.iter().map(|(of, field, _)| (of, field));
        for (of, field) in in_code.chain(PULL_POLICIES.iter().map(|(of, field, _)| (of, field))) {
            assert!(table().message(of).and_then(|message| message.field(field)).is_some(), "{of} {field}");
            assert!(seen.contains(of), "{of} {field}");
        }
    }

    #[test]
    fn images_are_always_pulled_whose_tag_is_latest() {
        for (image, expected) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1", false),
            ("registry:5000/nginx", true),
            ("registry:5000/nginx:1", false),
            ("nginx@sha256:00", false),
            ("nginx:1@sha256:00", false),
            ("nginx:latest@sha256:00", true),
            ("", false),
        ] {
            assert_eq!(is_latest(image), expected, "{image}");
        }
    }
}
