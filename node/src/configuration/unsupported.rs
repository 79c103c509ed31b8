//! Upstream's fields that this version does not heed: each is known by name and type, and a warning names it where it is
//! set to something else than what happens anyway.

use serde_json::{Map, Value};

use super::document::{fault, get, remove, shown};
use super::error::{Error, Origin};
use steersman_api::GoDuration;

/// The type of a field.
#[derive(Clone, Copy)]
enum Shape {
    Boolean,
    Integer,
    Number,
    Text,
    Duration,
    /// A duration that may be negative, or a number of nanoseconds.
    AnyDuration,
    List,
    Map,
    /// The struct has the field, and checks it.
    Typed,
}

/// The values of a field that call for no warning.
#[derive(Clone, Copy)]
enum Quiet {
    /// All: it has no effect upstream either, or nobody can tell the difference.
    All,
    /// None: whatever it says, something else happens.
    None,
    /// These, as JSON: what happens anyway.
    Only(&'static [&'static str]),
}

use Quiet::{All, None as Never, Only};
use Shape::{AnyDuration, Boolean, Duration, Integer, List, Map as Object, Number, Text, Typed};

const FALSE: Quiet = Only(&["false"]);
const NO_TIME: Quiet = Only(&["\"0s\"", "\"0\""]);

/// How upstream's tools write options that ask for nothing.
const NO_BUFFERS: &str = r#"{"json":{"infoBufferSize":"0"},"text":{"infoBufferSize":"0"}}"#;

/// A field not heeded: its path, its type, and what calls for no warning.
type Row = (&'static str, Shape, Quiet);

const FIELDS: [Row; 51] = [
    ("configMapAndSecretChangeDetectionStrategy", Text, Only(&["\"Watch\""])),
    // Requests follow what each part speaks.
    ("contentType", Text, Only(&["\"application/vnd.kubernetes.protobuf\""])),
    ("cpuManagerPolicy", Text, Only(&["\"none\""])),
    ("cpuManagerPolicyOptions", Object, Only(&["{}"])),
    ("cpuManagerReconcilePeriod", Duration, All),
    ("enableContentionProfiling", Boolean, FALSE),
    ("enableDebugFlagsHandler", Boolean, FALSE),
    ("enableProfilingHandler", Boolean, FALSE),
    ("enableSystemLogHandler", Boolean, FALSE),
    ("enableSystemLogQuery", Boolean, FALSE),
    // Thresholds are kept back from what pods may have, and make conditions; nothing is evicted.
    ("evictionMaxPodGracePeriod", Typed, Only(&["0"])),
    ("evictionMinimumReclaim", Typed, Only(&["{}"])),
    ("hairpinMode", Text, Only(&["\"promiscuous-bridge\""])),
    ("imageGCHighThresholdPercent", Integer, Only(&["100"])),
    ("imageGCLowThresholdPercent", Integer, All),
    ("imageMaximumGCAge", Duration, NO_TIME),
    ("imageMinimumGCAge", Duration, All),
    ("iptablesDropBit", Integer, All),
    ("iptablesMasqueradeBit", Integer, All),
    ("kernelMemcgNotification", Boolean, FALSE),
    ("kubeletCgroups", Text, Never),
    // Lines are written one by one.
    ("logging.flushFrequency", AnyDuration, All),
    ("logging.options", Object, Only(&["{}", NO_BUFFERS])),
    ("logging.vmodule", List, Only(&["[]"])),
    ("memoryManagerPolicy", Text, Only(&["\"None\""])),
    ("memoryReservationPolicy", Text, Only(&["\"None\""])),
    ("memorySwap.swapBehavior", Text, Only(&["\"NoSwap\""])),
    // Needs the gate MemoryQoS, which can't be had.
    ("memoryThrottlingFactor", Number, All),
    ("oomScoreAdj", Integer, Never),
    ("qosReserved", Object, Only(&["{}"])),
    ("readOnlyPort", Integer, Only(&["0"])),
    ("reservedMemory", List, Only(&["[]"])),
    ("reservedSystemCPUs", Text, Never),
    ("rotateCertificates", Boolean, FALSE),
    ("runOnce", Boolean, FALSE),
    ("serverTLSBootstrap", Boolean, FALSE),
    ("showHiddenMetricsForVersion", Text, Never),
    ("shutdownGracePeriod", Duration, NO_TIME),
    ("shutdownGracePeriodByPodPriority", List, Only(&["[]"])),
    ("shutdownGracePeriodCriticalPods", Duration, NO_TIME),
    ("streamingConnectionIdleTimeout", Duration, All),
    ("systemCgroups", Text, Never),
    ("tlsCurvePreferences", List, Only(&["[]"])),
    ("topologyManagerPolicy", Text, Only(&["\"none\""])),
    ("topologyManagerPolicyOptions", Object, Only(&["{}"])),
    ("topologyManagerScope", Text, All),
    ("tracing.endpoint", Text, Never),
    ("tracing.samplingRatePerMillion", Integer, Only(&["0"])),
    ("userNamespaces.idsPerPod", Integer, Only(&["65536"])),
    ("volumePluginDir", Text, Never),
    ("volumeStatsAggPeriod", AnyDuration, Never),
];

/// The fields that would change what the node guarantees to pods, or how it gets its certificates.
const GUARANTEES: [&str; 12] = [
    "cpuManagerPolicy",
    "memoryManagerPolicy",
    "memoryReservationPolicy",
    "qosReserved",
    "reservedMemory",
    "reservedSystemCPUs",
    "rotateCertificates",
    "serverTLSBootstrap",
    "shutdownGracePeriod",
    "shutdownGracePeriodByPodPriority",
    "shutdownGracePeriodCriticalPods",
    "topologyManagerPolicy",
];

/// Whether the field would change what the node guarantees.
pub(super) fn is_guarantee(path: &str) -> bool {
    GUARANTEES.contains(&path)
}

/// Objects that have no other fields than such.
const PARENTS: [&str; 3] = ["memorySwap", "tracing", "userNamespaces"];

/// A field not heeded that a source sets, and what to warn of; nothing where the value is what happens anyway.
pub(super) type Note = (&'static str, Option<String>);

/// Takes fields not heeded out of a document, checks their types, and says what to warn of.
pub(super) fn take(document: &mut Map<String, Value>, origin: &Origin) -> Result<Vec<Note>, Error> {
    let mut notes = Vec::new();
    for (path, shape, quiet) in FIELDS {
        let value = match shape {
            Typed => get(document, path).cloned(),
            _ => remove(document, path),
        };
        let Some(value) = value else { continue };
        if value.is_null() || value == "" {
            notes.push((path, None));
            continue;
        }
        shape.check(&value).map_err(|why| fault(origin, path, &value, why))?;
        let warning = (!quiet.covers(&value)).then(|| {
            let what = shown(path, &value);
            format!("{origin}: {path}: {what} is not supported in this version and has no effect")
        });
        notes.push((path, warning));
    }
    for parent in PARENTS {
        match document.remove(parent) {
            None | Some(Value::Null) => {}
            Some(Value::Object(left)) => {
                if let Some((field, value)) = left.iter().next() {
                    return Err(fault(origin, &format!("{parent}.{field}"), value, "unknown field"));
                }
            }
            Some(value) => return Err(fault(origin, parent, &value, "must be an object")),
        }
    }
    Ok(notes)
}

impl Shape {
    fn check(self, value: &Value) -> Result<(), String> {
        let (fits, wanted) = match self {
            Self::Boolean => (value.is_boolean(), "true or false"),
            Self::Integer => (value.is_i64(), "an integer"),
            Self::Number => (value.is_number(), "a number"),
            Self::Text => (value.is_string(), "a text"),
            Self::List => (value.is_array(), "a list"),
            Self::Map => (value.is_object(), "an object"),
            Self::Typed => (true, ""),
            Self::AnyDuration if value.is_i64() => (true, ""),
            Self::Duration | Self::AnyDuration => {
                let Some(text) = value.as_str() else { return Err("must be a duration".to_owned()) };
                let text = match self {
                    Self::AnyDuration => text.strip_prefix('-').unwrap_or(text),
                    _ => text,
                };
                return text.parse::<GoDuration>().map(|_| ()).map_err(|why| why.to_string());
            }
        };
        if fits { Ok(()) } else { Err(format!("must be {wanted}")) }
    }
}

impl Quiet {
    fn covers(self, value: &Value) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Only(quiet) => {
                let is = |text: &&str| serde_json::from_str::<Value>(text).is_ok_and(|quiet| quiet == *value);
                quiet.iter().any(is)
            }
        }
    }
}

/// What happens in place of fields not heeded, where that can be said: for whoever reads the settings in use.
pub(super) fn add_what_happens(document: &mut Map<String, Value>) {
    for (path, shape, quiet) in FIELDS {
        if let (Only(quiet), false) = (quiet, matches!(shape, Typed))
            && let Some(value) = quiet.first().and_then(|text| serde_json::from_str(text).ok())
        {
            super::document::set(document, path, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guarantee_is_a_field() {
        for path in GUARANTEES {
            assert!(FIELDS.iter().any(|(field, ..)| *field == path), "{path}");
        }
    }

    #[test]
    fn every_quiet_value_is_json_of_the_fields_type() {
        for (path, shape, quiet) in FIELDS {
            let Only(quiet) = quiet else { continue };
            for text in quiet {
                let value: Value =
                    serde_json::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"));
                shape.check(&value).unwrap_or_else(|why| panic!("{path}: {why}"));
            }
        }
    }
}
