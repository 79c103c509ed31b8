//! The flag `--controllers`.

use clap::Command;
use steersman_controller::registry::{ByDefault, Choice, Error, Registry, Selection};

use super::pflag::Refusal;
use super::typed::nearest;

/// Lists the controllers in the help of `--controllers`.
pub(super) fn describe(command: Command) -> Command {
    let registry = steersman_controllers::builtin();
    let here = || registry.rows().iter().filter(|row| row.is_here());
    let all: Vec<_> = here().map(|row| row.name).collect();
    let off: Vec<_> = here().filter(|row| row.by_default == ByDefault::Off).map(|row| row.name).collect();
    let mut controllers = format!(
        "Controllers to run: '*' stands for all that are on by default, 'foo' adds controller foo, '-foo' removes it. \
         Controllers: {}",
        all.join(", ")
    );
    if !off.is_empty() {
        controllers = format!("{controllers}. Off by default: {}", off.join(", "));
    }
    command.mut_arg("controllers", |arg| arg.help(controllers))
}

/// The selection that `items` make. `given` are the items as the user gave them to `command`.
///
/// # Errors
/// If an item names no controller.
pub(super) fn parse(
    items: &[&str],
    given: &[&str],
    registry: &Registry,
    command: &str,
) -> Result<Selection, Refusal> {
    Selection::parse(items, registry).map_err(|why| {
        let why = match why {
            Error::Unknown { name, .. } => unknown(&name, registry, command),
            other => other.to_string(),
        };
        Refusal::of_value("--controllers", &given.join(","), why)
    })
}

/// Why a name is refused, and what the user may have meant.
fn unknown(name: &str, registry: &Registry, command: &str) -> String {
    let names = registry.rows().iter().flat_map(|row| row.aliases.iter().chain([&row.name])).copied();
    let meant = nearest(name, names).map(|meant| format!(", did you mean {meant}?"));
    format!(
        "{name:?} is not in the list of known controllers{} `steersman {command} --help` lists them",
        meant.as_deref().unwrap_or(";")
    )
}

/// A warning for the log if the selection enables no controller, as `-job` without a star.
pub(super) fn warning(selection: &Selection, given: &[&str], registry: &Registry) -> Option<String> {
    if registry.rows().iter().any(|row| selection.choice(row) != Choice::Disabled) {
        return None;
    }
    let given = given.join(",");
    let all_but = if given.is_empty() { String::new() } else { format!(", and *,{given} all but these") };
    Some(format!(
        "--controllers={given} enables no controller: --controllers=* enables all that are on by default{all_but}"
    ))
}
