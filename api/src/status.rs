//! `metav1.Status`: the API server's answer to a request that failed.

use serde::{Deserialize, Serialize};

use crate::wire::{self, Reader, WireError, Writer};

/// A `metav1.Status`: the result of a request that returns no object. Mostly an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// One word for programs: `NotFound`, `AlreadyExists`, `Conflict`, `Expired`, ...
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object that the request named, and further details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP code.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: i32,
}

/// Details of a [`Status`]: the object that the request named, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The object's resource or kind. Despite the field's name, the API server mostly sets the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Single errors, such as one for each invalid field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Seconds after which the client should retry; zero if the server names none.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: i32,
}

/// One error among the [`StatusDetails`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCause {
    /// One word for programs: `FieldValueInvalid`, `NamespaceTerminating`, ...
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, such as `spec.ports[0].port`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl Status {
    /// A failure without details.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            details: None,
            code: i32::from(code),
        }
    }

    /// Whether the server no longer has the requested version, so that the client must list anew.
    pub fn is_expired(&self) -> bool {
        self.code == 410 || self.reason == "Expired" || self.reason == "Gone"
    }

    /// After how long the client should retry, if the server says so.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        let seconds = u64::try_from(self.details.as_ref()?.retry_after_seconds).ok().filter(|s| *s > 0)?;
        Some(std::time::Duration::from_secs(seconds))
    }

    /// Whether any cause has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Decodes the body of a response, in JSON or in protobuf.
    ///
    /// Returns `None` for any other body, such as a proxy's HTML page. The caller then only has the HTTP status code.
    pub fn from_body(body: &[u8]) -> Option<Self> {
        if body.starts_with(wire::MAGIC) {
            let envelope = wire::unwrap(body).ok()?;
            return (envelope.kind == "Status").then(|| Self::from_protobuf(envelope.raw).ok())?;
        }
        #[derive(Deserialize)]
        struct Typed {
            kind: String,
            #[serde(flatten)]
            status: Status,
        }
        serde_json::from_slice::<Typed>(body)
            .ok()
            .filter(|typed| typed.kind == "Status")
            .map(|typed| typed.status)
    }

    /// Decodes a protobuf message without envelope.
    ///
    /// # Errors
    /// The bytes are not a Status.
    pub fn from_protobuf(raw: &[u8]) -> Result<Self, WireError> {
        let mut status = Self::default();
        let mut reader = Reader::new(raw);
        while let Some(field) = reader.field()? {
            match field.number {
                2 => status.status = field.text()?.to_owned(),
                3 => status.message = field.text()?.to_owned(),
                4 => status.reason = field.text()?.to_owned(),
                5 => status.details = Some(StatusDetails::from_protobuf(field.message()?)?),
                6 => status.code = field.int32()?,
                _ => {}
            }
        }
        Ok(status)
    }

    /// Encodes the status as a protobuf message without envelope.
    pub fn to_protobuf(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.message(1, |_list_meta| {});
        writer.text(2, &self.status);
        writer.text(3, &self.message);
        writer.text(4, &self.reason);
        if let Some(details) = &self.details {
            writer.message(5, |writer| details.write(writer));
        }
        writer.int64(6, i64::from(self.code));
        writer.into_bytes()
    }
}

impl StatusDetails {
    fn from_protobuf(mut reader: Reader<'_>) -> Result<Self, WireError> {
        let mut details = Self::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => details.name = field.text()?.to_owned(),
                2 => details.group = field.text()?.to_owned(),
                3 => details.kind = field.text()?.to_owned(),
                4 => details.causes.push(StatusCause::from_protobuf(field.message()?)?),
                5 => details.retry_after_seconds = field.int32()?,
                6 => details.uid = field.text()?.to_owned(),
                _ => {}
            }
        }
        Ok(details)
    }

    fn write(&self, writer: &mut Writer) {
        writer.text(1, &self.name);
        writer.text(2, &self.group);
        writer.text(3, &self.kind);
        for cause in &self.causes {
            writer.message(4, |writer| {
                writer.text(1, &cause.reason);
                writer.text(2, &cause.message);
                writer.text(3, &cause.field);
            });
        }
        writer.int64(5, i64::from(self.retry_after_seconds));
        writer.text(6, &self.uid);
    }
}

impl StatusCause {
    fn from_protobuf(mut reader: Reader<'_>) -> Result<Self, WireError> {
        let mut cause = Self::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => cause.reason = field.text()?.to_owned(),
                2 => cause.message = field.text()?.to_owned(),
                3 => cause.field = field.text()?.to_owned(),
                _ => {}
            }
        }
        Ok(cause)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = if self.message.is_empty() { "no message" } else { &self.message };
        write!(
            f,
            "{message} ({} {})",
            self.code,
            if self.reason.is_empty() { "Unknown" } else { &self.reason }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict() -> Status {
        let mut status = Status::failure(409, "Conflict", "the object has been modified");
        status.details = Some(StatusDetails {
            name: "web".to_owned(),
            kind: "jobs".to_owned(),
            group: "batch".to_owned(),
            causes: vec![StatusCause { field: "spec".to_owned(), ..StatusCause::default() }],
            retry_after_seconds: 3,
            ..StatusDetails::default()
        });
        status
    }

    #[test]
    fn both_encodings_give_the_same_status() {
        let status = conflict();
        let protobuf = wire::wrap("v1", "Status", &status.to_protobuf());
        let mut json = serde_json::to_value(&status).unwrap();
        json["kind"] = "Status".into();
        json["apiVersion"] = "v1".into();
        assert_eq!(Status::from_body(&protobuf).as_ref(), Some(&status));
        assert_eq!(Status::from_body(json.to_string().as_bytes()), Some(status));
    }

    #[test]
    fn what_is_no_status_gives_none() {
        for body in [&b""[..], b"<html>", b"{\"kind\":\"Pod\"}", &wire::wrap("v1", "Pod", b""), b"k8s\0\xff"]
        {
            assert_eq!(Status::from_body(body), None);
        }
    }
}
