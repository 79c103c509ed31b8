//! Where in an object one is.

use std::fmt;

use super::error::TranscodeError;

/// How deep an object may be nested, counted as JSON nests: as deep as serde_json reads.
const MAX_DEPTH: u16 = 127;

/// The way from the root to a value. Each step borrows the one before it, so that going down costs nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
    depth: u16,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Root, depth: 0 };

    /// To a member of an object or map.
    pub(super) fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Field(name), depth: self.depth.saturating_add(1) }
    }

    /// To an item of a list.
    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index), depth: self.depth.saturating_add(1) }
    }

    /// Refuses what lies too deep to be walked by recursion.
    pub(super) fn check_depth(&self) -> Result<(), TranscodeError> {
        if self.depth > MAX_DEPTH { Err(TranscodeError::TooDeep { path: self.to_string() }) } else { Ok(()) }
    }
}

/// As upstream's strict decoding writes it: `spec.containers[0].image`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else { return Ok(()) };
        parent.fmt(f)?;
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if parent.parent.is_none() => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
