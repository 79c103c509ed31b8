//! klog's line format, and its JSON one.
//!
//! ```text
//! I0102 15:04:05.678901       7 workers.rs:93] "Sync failed" controller="job-controller" key="default/pi" failures=3
//! {"ts":1767366245678.901,"caller":"workers.rs:93","msg":"Sync failed","v":0,"controller":"job-controller",...}
//! ```

use std::fmt::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// klog's own.
    Text,
    /// One JSON object a line.
    Json,
}

/// Writes log lines.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    format: Format,
}

impl Lines {
    pub(super) fn new(format: Format) -> Self {
        Self { format }
    }

    fn head(
        self,
        line: &mut Writer<'_>,
        metadata: &Metadata<'_>,
        message: &str,
        now: Timestamp,
    ) -> fmt::Result {
        let file = metadata.file().map_or(metadata.target(), |file| file.rsplit('/').next().unwrap_or(file));
        let place = metadata.line().unwrap_or(0);
        match self.format {
            Format::Text => {
                let letter = match *metadata.level() {
                    Level::ERROR => 'E',
                    Level::WARN => 'W',
                    _ => 'I',
                };
                let stamp = now.to_zoned(TimeZone::UTC).strftime("%m%d %H:%M:%S%.6f").to_string();
                write!(line, "{letter}{stamp} {:7} {file}:{place}] {message:?}", std::process::id())
            }
            Format::Json => {
                let millis = now.as_microsecond();
                let (whole, rest) = (millis.div_euclid(1_000), millis.rem_euclid(1_000));
                let kind = match *metadata.level() {
                    Level::ERROR => "\"level\":\"error\",",
                    Level::WARN => "\"level\":\"warning\",",
                    _ => "",
                };
                let verbosity = match *metadata.level() {
                    Level::TRACE => 6,
                    Level::DEBUG => 4,
                    _ => 0,
                };
                write!(line, "{{\"ts\":{whole}.{rest:03},{kind}\"caller\":\"{file}:{place}\",\"msg\":")?;
                json_text(line, message)?;
                write!(line, ",\"v\":{verbosity}")
            }
        }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.head(&mut line, event.metadata(), &message.0, Timestamp::now())?;
        // A field of an inner span stands for the same one of an outer span.
        let mut told: Vec<&'static str> = event.fields().map(|field| field.name()).collect();
        for span in context.event_scope().into_iter().flatten() {
            if span.fields().iter().any(|field| told.contains(&field.name())) {
                continue;
            }
            told.extend(span.fields().iter().map(|field| field.name()));
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                line.write_str(&fields.fields)?;
            }
        }
        context.field_format().format_fields(line.by_ref(), event)?;
        match self.format {
            Format::Text => writeln!(line),
            Format::Json => writeln!(line, "}}"),
        }
    }
}

impl<'w> FormatFields<'w> for Lines {
    fn format_fields<R: RecordFields>(&self, line: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Fields { line, format: self.format, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

/// Picks the message out of an event.
struct Message(String);

impl Visit for Message {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.0.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Writes all fields but the message.
struct Fields<'w> {
    line: Writer<'w>,
    format: Format,
    result: fmt::Result,
}

impl Fields<'_> {
    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>, Format) -> fmt::Result) {
        // Upstream's name for errors.
        let name = match field.name() {
            "message" => return,
            "error" => "err",
            name => name,
        };
        self.result = self.result.and_then(|()| match self.format {
            Format::Text => write!(self.line, " {name}="),
            Format::Json => write!(self.line, ",\"{name}\":"),
        });
        self.result = self.result.and_then(|()| value(&mut self.line, self.format));
    }

    fn text(&mut self, field: &Field, text: &str) {
        self.write(field, |line, format| match format {
            // Lists are written unquoted, unless a control character in them could start a forged line.
            Format::Text if text.starts_with('[') && !text.contains(char::is_control) => line.write_str(text),
            Format::Text => write!(line, "{text:?}"),
            Format::Json => json_text(line, text),
        });
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, |line, _| write!(line, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, |line, _| write!(line, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, |line, _| write!(line, "{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

fn json_text(line: &mut Writer<'_>, text: &str) -> fmt::Result {
    line.write_str(&serde_json::Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format) -> Vec<String> {
        let buffer = Buffer::default();
        let (lines, writer) = (Lines::new(format), buffer.clone());
        let layer = tracing_subscriber::fmt::layer()
            .event_format(lines)
            .fmt_fields(lines)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _worker = tracing::info_span!("worker", controller = "job-controller", worker = 3).entered();
            let _sync = tracing::info_span!("sync", key = %"default/pi").entered();
            let error = io::Error::other("no \"luck\"");
            tracing::warn!(%error, failures = 2, again = true, "Sync failed");
            tracing::debug!(caches = ?["pods"], "Waiting");
            tracing::info!(server = "[\nE1128 10:00:00.000000 1 forged] \"It fails\"", "Odd");
        });
        let text = String::from_utf8(buffer.0.lock().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_klogs() {
        let lines = logged(Format::Text);
        let (head, rest) = lines[0].split_once("] ").unwrap();
        let [stamp, time, pid, place] = head.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
        assert!(stamp.starts_with('W') && stamp.len() == 5 && time.len() == 15, "{head}");
        assert_eq!(pid, std::process::id().to_string());
        assert!(place.starts_with("klog.rs:"), "{head}");
        assert_eq!(
            rest,
            "\"Sync failed\" key=\"default/pi\" controller=\"job-controller\" worker=3 \
             err=\"no \\\"luck\\\"\" failures=2 again=true"
        );
        assert!(lines[1].starts_with('I') && lines[1].ends_with("caches=[\"pods\"]"), "{}", lines[1]);
        assert_eq!(lines.len(), 3, "a value begins a line of its own: {lines:?}");
    }

    #[test]
    fn json_lines_carry_the_same() {
        let lines = logged(Format::Json);
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert!(line["ts"].as_f64().unwrap() > 1.7e12);
        assert_eq!(line["msg"], "Sync failed");
        assert_eq!(line["level"], "warning");
        assert_eq!(line["err"], "no \"luck\"");
        assert_eq!(
            (&line["key"], &line["worker"], &line["failures"]),
            (&"default/pi".into(), &3.into(), &2.into())
        );
        let line: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
        assert_eq!((&line["v"], &line["caches"]), (&4.into(), &"[\"pods\"]".into()));
    }
}
