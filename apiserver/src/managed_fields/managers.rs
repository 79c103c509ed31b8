//! Who manages which fields: `metadata.managedFields`.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// More managers by update than this are merged into one. From upstream.
const UPDATERS_LIMIT: usize = 10;
/// Whose the oldest changes become. From upstream.
const ANCIENT: &str = "ancient-changes";

/// How fields came to a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// It applied a configuration: what it no longer says goes.
    Apply,
    /// It created, updated or patched the object.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// By what an entry is found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManagerId {
    /// Such as `kubectl`.
    pub(super) name: String,
    pub(super) operation: Operation,
    /// The version that was written; empty for who applies, whatever the version.
    pub(super) version: String,
    /// The subresource that was written through; empty for the object itself.
    pub(super) subresource: String,
}

impl ManagerId {
    pub(super) fn new(name: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        Self {
            name: if name.is_empty() { "unknown" } else { name }.to_owned(),
            operation,
            version: if operation == Operation::Apply { String::new() } else { version.to_owned() },
            subresource: subresource.to_owned(),
        }
    }

    /// The order of upstream, which compares its texts of ids: at the end a comma comes before a brace.
    fn order(&self, other: &Self) -> Ordering {
        let key = |id: &Self| (id.name.clone(), id.operation, id.version.clone(), id.subresource.is_empty());
        key(self).cmp(&key(other)).then_with(|| self.subresource.cmp(&other.subresource))
    }
}

/// As conflicts name it.
impl std::fmt::Display for ManagerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.version),
        }
    }
}

/// What a manager has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) id: ManagerId,
    /// The version that the fields are those of.
    pub(super) version: String,
    /// When the manager last changed something; as text.
    pub(super) time: Option<String>,
    fields: FieldSet,
    /// The text of `fields`, as long as that is what was read.
    text: Option<String>,
}

impl Entry {
    pub(super) fn new(id: ManagerId, version: &str, fields: FieldSet) -> Self {
        Self { id, version: version.to_owned(), time: None, fields, text: None }
    }

    pub(super) fn fields(&self) -> &FieldSet {
        &self.fields
    }

    pub(super) fn set_fields(&mut self, fields: FieldSet) {
        if self.fields != fields {
            self.fields = fields;
            self.text = None;
        }
    }

    fn read(entry: &Value) -> Option<Self> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let (fields, kept) = match entry.get("fieldsV1") {
            None | Some(Value::Null) => (FieldSet::default(), None),
            Some(Value::String(text)) => (FieldSet::from_text(text).ok()?, Some(text.clone())),
            Some(fields) => (FieldSet::from_text(&fields.to_string()).ok()?, None),
        };
        let mut id = ManagerId::new(text("manager"), operation, text("apiVersion"), text("subresource"));
        text("manager").clone_into(&mut id.name);
        Some(Self {
            id,
            version: text("apiVersion").to_owned(),
            time: Some(text("time")).filter(|time| !time.is_empty()).map(str::to_owned),
            fields,
            text: kept,
        })
    }

    fn write(&self) -> Value {
        let mut entry = Map::new();
        let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        if !self.id.name.is_empty() {
            put("manager", self.id.name.as_str().into());
        }
        put("operation", self.id.operation.as_str().into());
        put("apiVersion", self.version.as_str().into());
        if let Some(time) = &self.time {
            put("time", time.as_str().into());
        }
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.text.clone().unwrap_or_else(|| self.fields.to_text()).into());
        if !self.id.subresource.is_empty() {
            put("subresource", self.id.subresource.as_str().into());
        }
        Value::Object(entry)
    }

    /// In whole seconds; what has no time is the oldest.
    fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    entries: Vec<Entry>,
}

impl Managers {
    /// Reads a list of entries; `None` if one of them can't be read.
    pub(super) fn read(list: &Value) -> Option<Self> {
        let mut managers = Self::default();
        for entry in list.as_array().into_iter().flatten() {
            managers.put(Entry::read(entry)?);
        }
        Some(managers)
    }

    /// The list of entries in upstream's order; `None` if there are none.
    ///
    /// The fields are kept as text: they are seldom looked at, and as JSON they would be larger than the object itself.
    pub(super) fn write(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.sort_by(|a, b| {
            let key = |entry: &Entry| (entry.id.operation, entry.seconds());
            let names =
                |entry: &Entry| (entry.id.name.clone(), entry.version.clone(), entry.id.subresource.clone());
            key(a).cmp(&key(b)).then_with(|| names(a).cmp(&names(b)))
        });
        Some(json!(self.entries.iter().map(Entry::write).collect::<Vec<_>>()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    pub(super) fn get(&self, id: &ManagerId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    pub(super) fn get_mut(&mut self, id: &ManagerId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == *id)
    }

    pub(super) fn remove(&mut self, id: &ManagerId) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.id == *id)?;
        Some(self.entries.remove(at))
    }

    /// Adds an entry, in place of the one with its id.
    pub(super) fn put(&mut self, entry: Entry) {
        match self.get_mut(&entry.id) {
            Some(there) => *there = entry,
            None => self.entries.push(entry),
        }
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.entries.retain(keep);
    }

    /// In the order in which conflicts are reported.
    pub(super) fn sort_for_people(&mut self) {
        self.entries.sort_by(|a, b| a.id.order(&b.id));
    }

    /// Merges the oldest updaters where there are too many: those of one version become one.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.id.operation == Operation::Update).collect();
        let mut count = updaters.len();
        if count <= UPDATERS_LIMIT {
            return;
        }
        updaters.sort_by(|a, b| a.seconds().cmp(&b.seconds()).then_with(|| a.id.order(&b.id)));
        let updaters: Vec<ManagerId> = updaters.into_iter().map(|entry| entry.id.clone()).collect();
        let mut firsts: Vec<(String, ManagerId)> = Vec::new();
        for id in updaters {
            if count <= UPDATERS_LIMIT {
                return;
            }
            let Some(entry) = self.get(&id).cloned() else { continue };
            let Some((_, first)) = firsts.iter().find(|(version, _)| *version == entry.version) else {
                firsts.push((entry.version, id));
                continue;
            };
            let bucket = ManagerId::new(ANCIENT, Operation::Update, &entry.version, "");
            if self.get(&bucket).is_none()
                && let Some(mut first) = self.remove(first)
            {
                first.id = bucket.clone();
                self.put(first);
            }
            self.remove(&id);
            if let Some(bucket) = self.get_mut(&bucket) {
                let fields = bucket.fields().union(entry.fields());
                bucket.set_fields(fields);
                bucket.time = entry.time;
            }
            count -= 1;
        }
    }
}

/// The list of entries with their fields as text, from a client's or from a data folder's.
pub(crate) fn compact(list: &mut Value) {
    for entry in list.as_array_mut().into_iter().flatten() {
        if let Some(fields) = entry.get_mut("fieldsV1").filter(|fields| fields.is_object()) {
            *fields = Value::String(fields.to_string());
        }
    }
}

/// The opposite of [`compact`]: the list as clients know it.
pub(crate) fn expand(list: &mut Value) {
    for entry in list.as_array_mut().into_iter().flatten() {
        if let Some(Value::String(text)) = entry.get("fieldsV1")
            && let Ok(fields) = serde_json::from_str(text)
        {
            entry["fieldsV1"] = fields;
        }
    }
}
