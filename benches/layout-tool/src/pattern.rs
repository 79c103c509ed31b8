//! Few patterns that fit the names of the functions that run, and hold when the program changes a little.
//!
//! A mangled name has hashes of crates, which a new compiler or a new version of a dependency changes: then the patterns have to be
//! made anew. Patterns with `*` in place of the hashes would hold longer, but they fit four times as much as what runs, since
//! instances of one generic function differ in little else. Where nearly all that begins alike runs, the beginning is enough:
//! a module's new function then lies with its neighbours.

use std::collections::BTreeMap;

use crate::group::{Group, Roles};

/// Of the bytes that a shortened pattern fits, this part at the most may be of functions that belong elsewhere: 1 in 10.
const FOREIGN: u64 = 10;

/// The functions of one name.
#[derive(Debug)]
pub(crate) struct Function {
    name: String,
    /// In bytes. If several functions have this name: the sum.
    size: u64,
    group: Option<Group>,
}

/// What compilers put before a function's name in the names of some sections. A pattern such as `unl*` would fit all sections with
/// the prefix `unlikely.`.
const PREFIXES: [&str; 5] = ["exit.", "hot.", "split.", "startup.", "unlikely."];

/// Returns the functions sorted by name. Functions of the same name become one, with the roles of all of them. The suffix
/// (`.llvm.…`) that LLVM appends to some names does not count. [`PREFIXES`] are among the result, as large functions without roles, so
/// that no pattern covers them.
pub(crate) fn functions<'a>(symbols: impl Iterator<Item = (&'a str, u64, Roles)>) -> Vec<Function> {
    let prefixes = PREFIXES.map(|prefix| (prefix.to_owned(), (u64::from(u32::MAX), Roles::default())));
    let mut found: BTreeMap<String, (u64, Roles)> = BTreeMap::from(prefixes);
    for (name, size, roles) in symbols {
        let (sum, all) =
            found.entry(name.split_once(".llvm.").map_or(name, |(name, _)| name).to_owned()).or_default();
        *sum += size;
        *all = all.and(roles);
    }
    let function =
        |(name, (size, roles)): (String, (u64, Roles))| Function { name, size, group: roles.group() };
    found.into_iter().map(function).collect()
}

/// The patterns of each group's functions, in the order of their names. Functions that nobody ran have none.
pub(crate) fn cover(functions: &[Function]) -> Vec<(Group, String)> {
    let mut patterns = Vec::new();
    cover_into(&mut patterns, functions, 0);
    patterns
}

/// `functions` are in the order of their names, and the first `apart` bytes of those tell them from all others. They have one
/// pattern if what they begin with is enough; else each part of them that goes on alike has its own.
fn cover_into(patterns: &mut Vec<(Group, String)>, functions: &[Function], apart: usize) {
    let Some(group) = functions.iter().find_map(|function| function.group) else { return };
    let size =
        |of: &dyn Fn(&Function) -> bool| functions.iter().filter(|&f| of(f)).map(|f| f.size).sum::<u64>();
    let foreign = size(&|function| function.group != Some(group));
    let shared = shared_beginning(functions);
    if apart > 0 && foreign * FOREIGN <= size(&|_| true) {
        let beginning = shared.get(..apart).unwrap_or(shared);
        let whole = matches!(functions, [function] if function.name == beginning);
        patterns.push((group, if whole { beginning.to_owned() } else { format!("{beginning}*") }));
        return;
    }
    let next = |function: &Function| function.name.as_bytes().get(shared.len()).copied();
    for part in functions.chunk_by(|one, other| next(one) == next(other)) {
        cover_into(patterns, part, shared.len() + 1);
    }
}

/// What the names of all begin with, the first and the last of them being the most unlike.
fn shared_beginning(functions: &[Function]) -> &str {
    let (Some(first), Some(last)) = (functions.first(), functions.last()) else { return "" };
    let length = first.name.bytes().zip(last.name.bytes()).take_while(|(one, other)| one == other).count();
    first.name.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Roles = Roles { node: true, standalone: true, ..NOBODY };
    const MANAGER: Roles = Roles { manager: true, standalone: true, ..NOBODY };
    const NOBODY: Roles =
        Roles { manager: false, few: false, workloads: false, node: false, standalone: false };

    fn patterns(symbols: &[(&str, u64, Roles)]) -> Vec<(Group, String)> {
        cover(&functions(symbols.iter().copied()))
    }

    fn of(group: Group, patterns: &[&str]) -> Vec<(Group, String)> {
        patterns.iter().map(|&pattern| (group, pattern.to_owned())).collect()
    }

    #[test]
    fn a_beginning_stands_for_all_functions_that_have_it() {
        let symbols = [
            ("_Rnode_a", 100, NODE),
            ("_Rnode_b", 100, NODE),
            ("_Rnone", 100, NOBODY),
            ("_Rother", 99, NODE),
        ];
        assert_eq!(patterns(&symbols), of(Group::Node, &["_Rnod*", "_Ro*"]));
    }

    #[test]
    fn a_little_that_nobody_ran_goes_with_its_neighbours_and_much_does_not() {
        let little = [("_Ra1", 500, NODE), ("_Ra2", 100, NOBODY), ("_Ra3", 400, NODE), ("_Rz", 999, NOBODY)];
        assert_eq!(patterns(&little), of(Group::Node, &["_Ra*"]));
        let much = [("_Ra1", 500, NODE), ("_Ra2", 300, NOBODY), ("_Ra3", 400, NODE), ("_Rz", 999, NOBODY)];
        assert_eq!(patterns(&much), of(Group::Node, &["_Ra1", "_Ra3"]));
    }

    #[test]
    fn what_another_group_runs_is_foreign() {
        let symbols = [("_Ra1", 500, NODE), ("_Ra2", 500, MANAGER)];
        let expected = [(Group::Node, "_Ra1".to_owned()), (Group::Manager, "_Ra2".to_owned())];
        assert_eq!(patterns(&symbols), expected);
    }

    #[test]
    fn no_pattern_fits_what_a_compiler_writes_before_names() {
        let symbols =
            [("stat", 99, NODE), ("startled", 1, NODE), ("unlink", 10, NODE), ("unlinkat", 10, NODE)];
        assert_eq!(patterns(&symbols), of(Group::Node, &["startl*", "stat", "unlin*"]));
    }

    #[test]
    fn what_llvm_adds_to_a_name_is_left_out() {
        let symbols = [
            ("_Ra.llvm.12", 10, NOBODY),
            ("_Ra.llvm.34", 10, MANAGER),
            ("_Ra.llvm.56", 10, NODE),
            ("_Rb", 9, NOBODY),
        ];
        assert_eq!(patterns(&symbols), of(Group::Both, &["_Ra"]));
    }

    #[test]
    fn a_name_that_another_goes_on_from_stands_whole() {
        let symbols = [("_Ra", 10, NODE), ("_Rab", 10, NOBODY)];
        assert_eq!(patterns(&symbols), of(Group::Node, &["_Ra"]));
    }

    #[test]
    fn nothing_is_said_of_functions_that_nobody_ran() {
        assert_eq!(patterns(&[("_Ra", 10, NOBODY)]), []);
    }
}
