//! The place in an object that is being read or written, and how many values may still be made of it.

use std::cell::Cell;
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
    /// How many more values the object may get; `None` for any number. All places in one object share it.
    left: Option<&'a Cell<usize>>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Root, depth: 0, left: None };

    /// The root of an object that may get so many values.
    pub(super) fn limited(left: &'a Cell<usize>) -> Self {
        Path { left: Some(left), ..Path::ROOT }
    }

    /// To a member of an object or map.
    pub(super) fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        let depth = self.depth.saturating_add(1);
        Path { parent: Some(self), step: Step::Field(name), depth, left: self.left }
    }

    /// To an item of a list.
    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        let depth = self.depth.saturating_add(1);
        Path { parent: Some(self), step: Step::Index(index), depth, left: self.left }
    }

    /// Counts values that are about to be made here.
    pub(super) fn count(&self, values: usize) -> Result<(), TranscodeError> {
        let Some(left) = self.left else { return Ok(()) };
        let rest = left.get().checked_sub(values);
        left.set(rest.ok_or_else(|| TranscodeError::TooManyValues { path: self.to_string() })?);
        Ok(())
    }

    /// Takes back a value that was counted and is not kept.
    pub(super) fn drop_one(&self) {
        if let Some(left) = self.left {
            left.set(left.get() + 1);
        }
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
