//! Writes `.cargo/layout.ld`: which functions the linker puts side by side in the published program.
//!
//! Most of what a process keeps resident is the program, and the kernel maps it sixteen pages at a time: a function that
//! runs brings along what lies around it. A tenth of the program's functions run in any process, so those lie together,
//! grouped by which of the subcommands run them. `benches/layout.sh` takes the profiles and calls this.

mod group;
mod input;
mod pattern;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::group::{Group, Roles};
use crate::input::Symbol;

#[derive(Debug, Parser)]
#[command(about = "Writes the order of the published program's functions")]
struct Arguments {
    /// What `nm -S --defined-only` prints of the program that was profiled.
    #[arg(long)]
    symbols: PathBuf,
    /// Callgrind's profile of `controller-manager`, with `--compress-strings=no --demangle=no`.
    #[arg(long)]
    manager: PathBuf,
    /// The same of a `controller-manager` with few controllers.
    #[arg(long)]
    few: PathBuf,
    /// The same of a `controller-manager` with the controllers of workloads.
    #[arg(long)]
    workloads: PathBuf,
    /// The same of `node`.
    #[arg(long)]
    node: PathBuf,
    /// The same of `standalone`.
    #[arg(long)]
    standalone: PathBuf,
    /// The linker script to write.
    output: PathBuf,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: none of the functions it names is among the symbols", .0.display())]
    Foreign(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

fn main() -> ExitCode {
    match write(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command's error belongs there")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn write(arguments: &Arguments) -> Result<(), Error> {
    let symbols = input::symbols(&read(&arguments.symbols)?);
    let executed = |path: &PathBuf| -> Result<HashSet<String>, Error> {
        let executed = input::executed(&read(path)?);
        if symbols.iter().any(|symbol| executed.contains(&symbol.name)) {
            Ok(executed)
        } else {
            Err(Error::Foreign(path.clone()))
        }
    };
    let (manager, few) = (executed(&arguments.manager)?, executed(&arguments.few)?);
    let workloads = executed(&arguments.workloads)?;
    let (node, standalone) = (executed(&arguments.node)?, executed(&arguments.standalone)?);

    let functions = pattern::functions(by_code(&symbols, |name| Roles {
        manager: manager.contains(name),
        few: few.contains(name),
        workloads: workloads.contains(name),
        node: node.contains(name),
        standalone: standalone.contains(name),
    }));
    let patterns = pattern::cover(&functions);
    fs::write(&arguments.output, script(&patterns))
        .map_err(|source| Error::Write { path: arguments.output.clone(), source })
}

/// Yields each symbol's name and size, with the roles of all symbols at its address. The compiler merges functions with the same
/// code: a profile names one of them, and the section may be named after another.
fn by_code(symbols: &[Symbol], roles: impl Fn(&str) -> Roles) -> impl Iterator<Item = (&str, u64, Roles)> {
    let mut code: HashMap<u64, Roles> = HashMap::new();
    for symbol in symbols {
        let all = code.entry(symbol.address).or_default();
        *all = all.and(roles(&symbol.name));
    }
    symbols.iter().map(move |symbol| (symbol.name.as_str(), symbol.size, code[&symbol.address]))
}

fn read(path: &PathBuf) -> Result<String, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Read { path: path.clone(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Patterns for sections that every process needs and that the profiles miss. An assembler file has one section for all its
/// functions, a constructor's section has a prefix, and Callgrind runs one thread at a time, so that locks are rarely contended.
const EVERYWHERE: &str = "\
.text
.text.startup.*
.text.__pthread_mutex_*
.text.pthread_mutex_*
.text.__timedwait*
.text._rjem_je_malloc_mutex_*
";

/// The linker script: a section goes where the first pattern that fits puts it.
fn script(patterns: &[(Group, String)]) -> String {
    let mut text =
        String::from("/* Written by benches/layout.sh: do not edit. */\nSECTIONS {\n.text.used : {\n");
    for group in Group::IN_ORDER {
        text.push_str(&format!("/* {} */\n*(\n", group.description()));
        for (_, pattern) in patterns.iter().filter(|(of, _)| *of == group) {
            text.push_str(&format!(".text.{pattern}\n"));
        }
        if group == Group::Both {
            text.push_str(EVERYWHERE);
        }
        text.push_str(")\n");
    }
    text.push_str("}\n}\nINSERT BEFORE .text;\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_roles_share_lies_between_what_each_has_alone() {
        let patterns = [
            (Group::Standalone, "s"),
            (Group::Node, "n"),
            (Group::Both, "b"),
            (Group::Manager, "m"),
            (Group::AnyControllers, "a"),
            (Group::FewControllers, "f"),
            (Group::Workloads, "w"),
        ];
        let script = script(&patterns.map(|(group, pattern)| (group, pattern.to_owned())));
        let lines: Vec<_> = script.lines().filter(|line| line.starts_with(".text")).collect();
        let expected = format!(".text.n\n.text.b\n{EVERYWHERE}.text.a\n.text.w\n.text.f\n.text.m\n.text.s");
        assert_eq!(lines[1..], expected.lines().collect::<Vec<_>>());
    }

    #[test]
    fn what_runs_under_one_name_of_a_code_runs_under_all() {
        let symbol = |address, name: &str| Symbol { address, name: name.to_owned(), size: 8 };
        let symbols = [symbol(1, "a"), symbol(2, "b"), symbol(1, "c")];
        let node = Roles { node: true, ..Roles::default() };
        let found: Vec<_> =
            by_code(&symbols, |name| if name == "c" { node } else { Roles::default() }).collect();
        assert_eq!(found, [("a", 8, node), ("b", 8, Roles::default()), ("c", 8, node)]);
    }
}
