//! The data of a revision: a patch that restores a pod template.

use serde_json::{Value, json};
use steersman_api::go_json;
use steersman_informer::wire::Opaque;

use crate::pod_template::{self, Error};

/// The form of data, which differs between the kinds of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole numbers beyond 2^53 are rounded: upstream reads the JSON of a StatefulSet with encoding/json.
    StatefulSet,
    /// Whole numbers are exact: upstream reads the JSON of a DaemonSet with apimachinery's own package.
    DaemonSet,
}

impl Form {
    /// The form for owners of a kind.
    pub(crate) fn of_kind(kind: &str) -> Self {
        if kind == "StatefulSet" { Self::StatefulSet } else { Self::DaemonSet }
    }
}

/// The data of the revision of a template, byte for byte as upstream's `getPatch` of StatefulSets and of DaemonSets.
///
/// Fields that this program does not know are not in it, as those that a controller-manager of upstream does not know are
/// not in its revisions.
///
/// # Errors
/// The template can't be read.
pub(crate) fn data(form: Form, template: &Opaque) -> Result<String, Error> {
    let mut template = pod_template::json(template)?;
    template["$patch"] = "replace".into();
    let data = json!({"spec": {"template": template}});
    Ok(match form {
        Form::StatefulSet => go_json::marshal_untyped(&data),
        Form::DaemonSet => go_json::marshal(&data),
    })
}

/// The template that a revision's data restores. [`Opaque::None`] if there is none in it: anybody who may create revisions can
/// write any JSON.
///
/// # Errors
/// The data is not JSON.
pub(crate) fn template(data: &[u8]) -> Result<Opaque, Error> {
    let mut data: Value = serde_json::from_slice(data)?;
    let Some(Value::Object(template)) = data.pointer_mut("/spec/template") else { return Ok(Opaque::None) };
    if !template.get("spec").is_some_and(Value::is_object) {
        return Ok(Opaque::None);
    }
    template.remove("$patch");
    Ok(Opaque::Json(serde_json::value::to_raw_value(template)?))
}

/// Whether a revision's data is that of a template, whose own data is `of_template`.
///
/// Upstream compares the bytes. An API server that does not keep the bytes of JSON, as the embedded one, may have written the
/// same JSON in another way, which counts as equal.
pub(crate) fn is_same(data: &[u8], of_template: &str) -> bool {
    if data == of_template.as_bytes() {
        return true;
    }
    serde_json::from_slice(data).is_ok_and(|data| go_json::marshal(&data) == of_template)
}

/// Whether a revision's data restores a template that is equal to this one by meaning, with the API server's defaults.
///
/// Another version of Kubernetes may have written the data with other bytes, or without a field that has a default by now. Data
/// of 1.33, for instance, have a `creationTimestamp` of null (k/k#134773). Upstream fills the defaults into the restored
/// template only. This function fills them into both templates, so that an API server that does not know a default restarts no
/// pod either. Unreadable data restore no template.
///
/// # Errors
/// `of` can't be read.
pub(crate) fn restores(data: &[u8], of: &Opaque) -> Result<bool, Error> {
    match template(data) {
        Ok(restored) if !restored.is_empty() => match pod_template::equal_with_defaults(&restored, of) {
            Ok(equal) => Ok(equal),
            // The fault may be in either of them.
            Err(_) => pod_template::json(of).map(|_| false),
        },
        _ => Ok(false),
    }
}
