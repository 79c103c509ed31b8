//! The path of the value that is being converted, with the limits on depth and number of values.

use std::cell::Cell;
use std::fmt;

use super::error::TranscodeError;

/// Maximum depth of an object, as JSON nests: that of serde_json.
const MAX_DEPTH: u16 = 127;

/// The path from the root to a value. Each step borrows the step before it, so that a step needs no allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
    depth: u16,
    /// Number of values that the object may still get; `None` for no limit. All paths in one object share it.
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

    /// The root of an object that may get `left` values.
    pub(super) fn limited(left: &'a Cell<usize>) -> Self {
        Path { left: Some(left), ..Path::ROOT }
    }

    /// The path of a member of this object or map.
    pub(super) fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        let depth = self.depth.saturating_add(1);
        Path { parent: Some(self), step: Step::Field(name), depth, left: self.left }
    }

    /// The path of an item of this list.
    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        let depth = self.depth.saturating_add(1);
        Path { parent: Some(self), step: Step::Index(index), depth, left: self.left }
    }

    /// Counts values that the caller is about to make here.
    pub(super) fn count(&self, values: usize) -> Result<(), TranscodeError> {
        let Some(left) = self.left else { return Ok(()) };
        let rest = left.get().checked_sub(values);
        left.set(rest.ok_or_else(|| TranscodeError::TooManyValues { path: self.to_string() })?);
        Ok(())
    }

    /// Subtracts a value that was counted, and then dropped.
    pub(super) fn drop_one(&self) {
        if let Some(left) = self.left {
            left.set(left.get() + 1);
        }
    }

    /// Fails if this path exceeds the maximum depth, since the conversions recurse.
    pub(super) fn check_depth(&self) -> Result<(), TranscodeError> {
        if self.depth > MAX_DEPTH { Err(TranscodeError::TooDeep { path: self.to_string() }) } else { Ok(()) }
    }
}

/// Writes the form of upstream's strict decoding: `spec.containers[0].image`.
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
