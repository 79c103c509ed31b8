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

    let roles = |name: &String| Roles {
        manager: manager.contains(name),
        few: few.contains(name),
        workloads: workloads.contains(name),
        node: node.contains(name),
        standalone: standalone.contains(name),
    };
    // A profile knows each piece of code by one of its names. Another one may be that of its section.
    let mut code: HashMap<u64, Roles> = HashMap::new();
    for symbol in &symbols {
        let all = code.entry(symbol.address).or_default();
        *all = all.and(roles(&symbol.name));
    }
    let functions = pattern::functions(
        symbols.iter().map(|symbol| (symbol.name.as_str(), symbol.size, code[&symbol.address])),
    );
    let patterns = pattern::cover(&functions);
    fs::write(&arguments.output, script(&patterns))
        .map_err(|source| Error::Write { path: arguments.output.clone(), source })
}

fn read(path: &PathBuf) -> Result<String, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Read { path: path.clone(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sections without the name of a function: those of assembler, which is the cryptography that every connection needs, and what
/// C libraries do before `main`.
const EVERYWHERE: &str = ".text\n.text.startup.*\n";

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
        let order: String = script
            .lines()
            .filter_map(|line| line.strip_prefix(".text."))
            .filter(|name| name.len() == 1)
            .collect();
        assert_eq!(order, "nbawfms");
    }
}
