//! `--vmodule`: the verbosity of single source files, as in klog.

/// Patterns of source files and the verbosity of each.
///
/// A pattern without a slash matches a file's name, one with a slash its path, both without `.rs`. A `*` stands for any
/// characters but slashes, a `?` for one. The first pattern that matches counts. It only ever shows more than `-v`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VModule(Vec<(String, i32)>);

impl VModule {
    /// Parses `pattern=N,...`, in klog's words.
    ///
    /// # Errors
    /// If an item has no pattern or no number.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let parsed = items.map(|item| {
            let invalid = || format!("syntax error: expect comma-separated list of filename=N: {item:?}");
            let (pattern, verbosity) = item.split_once('=').ok_or_else(invalid)?;
            let verbosity: i32 = verbosity.parse().map_err(|_| invalid())?;
            if pattern.is_empty() || verbosity < 0 {
                return Err(invalid());
            }
            Ok((pattern.to_owned(), verbosity))
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is no pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The highest verbosity of any pattern.
    pub(super) fn highest(&self) -> Option<i32> {
        self.0.iter().map(|(_, verbosity)| *verbosity).max()
    }

    /// The verbosity of a source file, if a pattern matches its path.
    pub(super) fn of(&self, file: &str) -> Option<i32> {
        let path = file.strip_suffix(".rs").unwrap_or(file);
        let name = path.rsplit('/').next().unwrap_or(path);
        let matches = |pattern: &str| {
            let text = if pattern.contains('/') { path } else { name };
            glob(pattern.as_bytes(), text.as_bytes())
        };
        self.0.iter().find(|(pattern, _)| matches(pattern)).map(|(_, verbosity)| *verbosity)
    }
}

/// Whether `text` matches `pattern`. Takes time in proportion to the product of their lengths at most.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where the last star is, and how much of the text it stands for so far.
    let mut star = None;
    while seen < text.len() {
        match (pattern.get(at), text[seen]) {
            (Some(b'*'), _) => {
                star = Some((at, seen));
                at += 1;
            }
            (Some(wanted), found) if *wanted == found || (*wanted == b'?' && found != b'/') => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                Some((of_star, until)) if text[until] != b'/' => {
                    star = Some((of_star, until + 1));
                    at = of_star + 1;
                    seen = until + 1;
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_files_name_or_its_path() {
        for (list, file, expected) in [
            ("runner=5", "controller/src/runner.rs", Some(5)),
            ("runner=5", "controller/src/runner/loops.rs", None),
            ("run*=5,*=2", "controller/src/runner.rs", Some(5)),
            ("run*=5,*=2", "controller/src/registry.rs", Some(2)),
            ("r??ner=4", "controller/src/runner.rs", Some(4)),
            ("*er*r=4", "controller/src/runner.rs", None),
            ("*n*er=4", "controller/src/runner.rs", Some(4)),
            ("controller/*/runner=4", "controller/src/runner.rs", Some(4)),
            ("*/runner=4", "controller/src/runner.rs", None),
            ("controller/src/runner/*=4", "controller/src/runner/loops.rs", Some(4)),
            ("", "controller/src/runner.rs", None),
            ("loops=0, loops=9", "a/loops.rs", Some(0)),
        ] {
            assert_eq!(VModule::parse(list).unwrap().of(file), expected, "{list} {file}");
        }
    }

    #[test]
    fn an_invalid_list_is_refused() {
        for list in ["runner", "=3", "runner=", "runner=x", "runner=-1", "a=1,b"] {
            VModule::parse(list).unwrap_err();
        }
    }
}
