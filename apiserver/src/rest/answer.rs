//! Answers, as HTTP.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;
use steersman_api::schema;

use super::body::ResponseBody;
use super::negotiate::{self, Answered, HasSchema, JSON, PROTOBUF, Shape};
use super::request::Request;
use crate::codec::{self, Format};
use crate::refusal::{Refusal, Result};
use crate::registry::{ENVELOPE_TAIL, Resource, envelope_head};
use crate::table::Include;

/// How the answer to a request is written.
pub(super) fn shape_of(request: &Request, answered: Answered) -> Result<Shape> {
    let call = &request.call;
    let kind_has_schema = call.resource.schema.is_some() || call.subresource == "scale";
    let has_schema = if kind_has_schema { HasSchema::Yes } else { HasSchema::No };
    let mut shape = negotiate::answer_shape(&request.headers, has_schema, answered)?;
    if let Some(table) = &mut shape.table {
        table.include = Include::parse(request.query.get("includeObject"))?;
    }
    Ok(shape)
}

/// Refusals are protobuf where the client asked for it.
pub(super) fn status_format(request: &Request) -> Format {
    negotiate::answer_shape(&request.headers, HasSchema::Yes, Answered::Other)
        .map_or(Format::Json, |shape| shape.format)
}

/// An answer that was given.
pub(crate) fn answer(
    code: StatusCode,
    media_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// An answer that says no.
pub(crate) fn refuse(refusal: &Refusal, format: Format) -> Response<ResponseBody> {
    let status = &refusal.status;
    let code = u16::try_from(status.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = match format {
        Format::Json => answer(code, JSON, ResponseBody::full(codec::json(&refusal.to_json()))),
        Format::Protobuf => {
            let raw = status.to_protobuf();
            let head = envelope_head("v1", "Status", raw.len());
            let pieces = vec![head, raw.into(), Bytes::from_static(ENVELOPE_TAIL)];
            answer(code, PROTOBUF, ResponseBody::pieces(pieces))
        }
    };
    if let Some(after) = status.retry_after() {
        answer.headers_mut().insert(header::RETRY_AFTER, after.as_secs().into());
    }
    // For the audit log.
    answer.extensions_mut().insert(Arc::new(steersman_api::Status::clone(status)));
    answer
}

/// A success that is a Status.
pub(crate) fn success(resource: &Resource, name: &str, uid: &str, shape: Shape) -> Response<ResponseBody> {
    let status = steersman_api::Status {
        status: "Success".to_owned(),
        details: Some(steersman_api::status::StatusDetails {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.plural.to_string(),
            uid: uid.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut answer = refuse(&status.into(), shape.format);
    *answer.status_mut() = StatusCode::OK;
    answer
}

/// What upstream's router says of a path that nothing is under.
pub(crate) fn unknown_path() -> Response<ResponseBody> {
    let body = ResponseBody::full(Bytes::from_static(b"404 page not found\n"));
    answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", body)
}

/// An answer that is an object of a built-in kind which is not kept.
pub(super) fn value_answer(code: StatusCode, object: &Value, shape: Shape) -> Result<Response<ResponseBody>> {
    let body = match shape.format {
        Format::Json => codec::json(object),
        Format::Protobuf => schema::encode(object).map_err(Refusal::internal)?.into(),
    };
    Ok(answer(code, shape.media_type(), ResponseBody::full(body)))
}

/// What upstream answers where there is nothing to show.
pub(super) fn done(shape: Shape) -> Response<ResponseBody> {
    let status =
        steersman_api::Status { status: "Success".to_owned(), code: 201, ..steersman_api::Status::default() };
    refuse(&status.into(), shape.format)
}

/// Adds what the client should be warned of.
pub(crate) fn with_warnings(
    mut answer: Response<ResponseBody>,
    warnings: &[String],
) -> Response<ResponseBody> {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            answer.headers_mut().append(header::WARNING, value);
        }
    }
    answer
}
