//! From files and flags to the settings in use.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use serde_path_to_error::{Path as FieldPath, Segment};

use super::document::{self, fault, merge, set};
use super::error::{Error, Fault, Origin};
use super::kubelet_configuration::KubeletConfiguration;
use super::{defaults, feature_gates, unsupported};

/// What a drop-in's name ends with.
const DROP_IN: &str = ".conf";

/// Where settings are said. What comes later has the last word.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A file (`--config`). Relative paths in it are of the file's folder.
    pub file: Option<PathBuf>,
    /// A folder of drop-ins (`--config-dir`): files that end in `.conf`, in subfolders too, in the order of their names.
    /// Each is merged into what there is, as a JSON merge patch.
    pub directory: Option<PathBuf>,
    /// Flags.
    pub flags: Vec<Setting>,
}

/// A field that a flag sets. Maps and lists are replaced, feature gates added to.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The flag, with its dashes.
    pub flag: String,
    /// The field, with dots between names.
    pub path: &'static str,
    /// Its value.
    pub value: Value,
}

/// Settings that are whole and checked.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub configuration: KubeletConfiguration,
    /// Warnings for the log, a line each: fields and gates without effect.
    pub warnings: Vec<String>,
    /// Those of the warnings that users of the cluster must see: fields that would change what the node guarantees to pods,
    /// or how it gets its certificates.
    pub unmet_guarantees: Vec<String>,
    /// Files in the folder of drop-ins that are none.
    pub skipped: Vec<PathBuf>,
}

/// Reads, merges and checks settings. Blocks: files are read.
///
/// # Errors
/// See [`Error`]: the start must end.
pub fn load(sources: &Sources) -> Result<Loaded, Error> {
    let mut settings = Settings::default();
    if let Some(path) = &sources.file {
        settings.file(path)?;
    }
    let mut skipped = Vec::new();
    if let Some(directory) = &sources.directory {
        let mut drop_ins = Vec::new();
        walk(directory, &mut drop_ins, &mut skipped)?;
        settings.drop_ins(&drop_ins)?;
    }
    settings.flags(&sources.flags)?;
    let Settings { configuration, notes } = settings;
    configuration.validate().map_err(Error::Invalid)?;
    let unmet_guarantees = notes
        .iter()
        .filter(|(path, _)| unsupported::is_guarantee(path))
        .filter_map(|(_, warning)| warning.clone())
        .collect();
    let mut warnings: Vec<_> = notes.into_values().flatten().collect();
    warnings.extend(feature_gates::warnings(&configuration.feature_gates));
    Ok(Loaded { configuration, warnings, unmet_guarantees, skipped })
}

/// Settings on their way.
#[derive(Default)]
struct Settings {
    configuration: KubeletConfiguration,
    /// Of each field not heeded, what the last source that sets it calls for.
    notes: BTreeMap<&'static str, Option<String>>,
}

impl Settings {
    fn file(&mut self, path: &Path) -> Result<(), Error> {
        let origin = Origin::File(path.to_owned());
        let mut document = read(path, &origin)?;
        defaults::normalize(&mut document);
        defaults::merge_eviction_hard(&mut document);
        self.notes.extend(unsupported::take(&mut document, &origin)?);
        self.configuration = decode(document, |_| origin.clone())?;
        let absolute = std::path::absolute(path);
        let absolute = absolute.map_err(|source| Error::Read { path: path.to_owned(), source })?;
        self.resolve(absolute.parent().unwrap_or(Path::new("/")));
        Ok(())
    }

    /// Makes relative paths those under `folder`.
    fn resolve(&mut self, folder: &Path) {
        let configuration = &mut self.configuration;
        let paths = [
            configuration.static_pod_path.as_mut(),
            configuration.authentication.x509.client_ca_file.as_mut(),
            configuration.tls_cert_file.as_mut(),
            configuration.tls_private_key_file.as_mut(),
            Some(&mut configuration.resolv_conf),
            Some(&mut configuration.pod_logs_dir),
        ];
        for path in paths.into_iter().flatten().filter(|path| !path.as_os_str().is_empty()) {
            *path = folder.join(&*path);
        }
    }

    fn drop_ins(&mut self, paths: &[PathBuf]) -> Result<(), Error> {
        let mut base = encode(&self.configuration);
        for path in paths {
            let origin = Origin::File(path.clone());
            let mut patch = read(path, &origin)?;
            self.notes.extend(unsupported::take(&mut patch, &origin)?);
            merge(&mut base, patch);
            let mut document = base.clone();
            defaults::normalize(&mut document);
            self.configuration = decode(document, |_| origin.clone())?;
        }
        Ok(())
    }

    fn flags(&mut self, flags: &[Setting]) -> Result<(), Error> {
        let mut document = encode(&self.configuration);
        for Setting { flag, path, value } in flags {
            let mut patch = Map::new();
            set(&mut patch, path, value.clone());
            self.notes.extend(unsupported::take(&mut patch, &Origin::Flag(flag.clone()))?);
            match document::get(&patch, path) {
                // It is not heeded.
                None => {}
                Some(_) if *path == "featureGates" => merge(&mut document, patch),
                Some(value) if value == "" && !defaults::means_something_empty(path) => {
                    document::remove(&mut document, path);
                }
                Some(_) => set(&mut document, path, value.clone()),
            }
        }
        self.configuration = decode(document, |field| {
            // What was there before could be read, so it is one of the flags that can't.
            let guilty = flags.iter().rev().find(|setting| field.starts_with(setting.path));
            Origin::Flag(guilty.map(|setting| setting.flag.clone()).unwrap_or_default())
        })?;
        Ok(())
    }
}

fn read(path: &Path, origin: &Origin) -> Result<Map<String, Value>, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    document::read(&text, origin)
}

/// Drop-ins and other files under a folder, each folder's in the order of their names. Links to folders are not followed.
fn walk(folder: &Path, drop_ins: &mut Vec<PathBuf>, skipped: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Walk { path: folder.to_owned(), source };
    let mut entries =
        fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(&entry.path(), drop_ins, skipped)?;
        } else if entry.file_name().as_encoded_bytes().ends_with(DROP_IN.as_bytes()) {
            drop_ins.push(entry.path());
        } else {
            skipped.push(entry.path());
        }
    }
    Ok(())
}

pub(super) fn encode(configuration: &KubeletConfiguration) -> Map<String, Value> {
    match serde_json::to_value(configuration) {
        Ok(Value::Object(document)) => document,
        _ => unreachable!("a configuration must be an object of JSON"),
    }
}

fn decode(
    document: Map<String, Value>,
    origin: impl Fn(&str) -> Origin,
) -> Result<KubeletConfiguration, Error> {
    let document = Value::Object(document);
    serde_path_to_error::deserialize(&document).map_err(|error| {
        let path = error.path().to_string();
        let why = plainly(&error.inner().to_string());
        match at(&document, error.path()) {
            Some(value) => fault(&origin(&path), &path, value, why),
            None => Error::Field { origin: origin(&path), fault: Fault::new(path, why) },
        }
    })
}

/// What stands at a path.
fn at<'a>(document: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, segment| match segment {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    })
}

/// serde's words without those for programmers; the value is told already.
fn plainly(reason: &str) -> String {
    if reason.starts_with("unknown field") {
        return "unknown field".to_owned();
    }
    let Some((_, wanted)) = reason.split_once(", expected ") else { return reason.to_owned() };
    let wanted = match wanted {
        "u16" => "an integer from 0 to 65535",
        "u32" => "an integer from 0 to 4294967295",
        "i32" => "an integer of 32 bits",
        "i64" => "an integer",
        "a boolean" => "true or false",
        "a string" | "path string" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("must be {wanted}")
}
