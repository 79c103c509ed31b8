//! The job of a run, made from the template without decoding it as a whole.

use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use steersman_api::wire::{Reader, WireError, Writer, wrap};
use steersman_api::{ArcStr, OwnerReference, Time};
use steersman_controller::call::{Content, JSON, PROTOBUF};
use steersman_informer::wire::Opaque;

/// The annotation of a job with the time for which it was scheduled.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// What a run adds to the template: as in upstream's `getJobFromTemplate2`, the job gets the template's labels, annotations and
/// spec, and none of its other metadata. The spec is copied as it is, so that fields newer than this program survive.
#[derive(Clone, Debug)]
pub(super) struct JobDraft {
    /// The job's name.
    pub name: ArcStr,
    /// The CronJob.
    pub owner: OwnerReference,
    /// The scheduled time, for the annotation.
    pub scheduled: String,
}

/// The template can't be used for jobs. The caller should not retry until the template changes.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The CronJob has no template.
    #[error("there is no job template")]
    Absent,
    /// The template is not valid protobuf.
    #[error("reading the job template: {0}")]
    Protobuf(#[from] WireError),
    /// The template is not valid JSON.
    #[error("reading the job template: {0}")]
    Json(#[from] serde_json::Error),
}

/// The name of the job of a run. It is the same in each process, so that no run can have two jobs.
pub(super) fn name(cron_job: &str, run: Time) -> ArcStr {
    format!("{cron_job}-{}", run.seconds().div_euclid(60)).into()
}

/// The time of a run in RFC 3339, with the offset of the zone.
pub(super) fn stamp(run: Time, zone: &TimeZone) -> String {
    let zoned = jiff::Timestamp::from(run).to_zoned(zone.clone());
    let format = if zoned.offset().seconds() == 0 { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    strtime::format(format, &zoned).expect("a constant format must be valid")
}

impl JobDraft {
    /// Makes the job, in the template's encoding.
    ///
    /// # Errors
    /// If the template can't be used.
    pub(super) fn fill_in(&self, template: &Opaque) -> Result<Content, Error> {
        match template {
            Opaque::None => Err(Error::Absent),
            Opaque::Protobuf(bytes) => {
                let job = self.protobuf(bytes)?;
                Ok(Content { media_type: PROTOBUF, bytes: wrap("batch/v1", "Job", &job).into() })
            }
            Opaque::Json(text) => Ok(Content::json(JSON, &self.json(&serde_json::from_str(text.get())?))),
        }
    }

    fn protobuf(&self, template: &[u8]) -> Result<Vec<u8>, Error> {
        let (mut metadata, mut job) = (Writer::new(), Writer::new());
        let mut template = Reader::new(template);
        while let Some(part) = template.field()? {
            match part.number {
                1 => {
                    let mut fields = part.message()?;
                    while let Some(field) = fields.field()? {
                        if matches!(field.number, 11 | 12) {
                            metadata.field(field);
                        }
                    }
                }
                2 => job.field(part),
                _ => {}
            }
        }
        metadata.text(1, &self.name);
        metadata.entry(12, SCHEDULED, &self.scheduled);
        metadata.message(13, |reference| self.owner.write(reference));
        job.bytes(1, &metadata.into_bytes());
        Ok(job.into_bytes())
    }

    fn json(&self, template: &Value) -> Value {
        let map = |name: &str| match &template["metadata"][name] {
            Value::Object(map) => map.clone(),
            _ => Map::new(),
        };
        let mut annotations = map("annotations");
        annotations.insert(SCHEDULED.to_owned(), self.scheduled.as_str().into());
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": self.name.as_str(),
                "labels": map("labels"),
                "annotations": annotations,
                "ownerReferences": [self.owner],
            },
            "spec": template["spec"],
        })
    }
}
