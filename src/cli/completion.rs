//! `steersman completion`: scripts with which shells complete Steersman's commands and flags.

use clap::{Args, Command};
use clap_complete::Shell;

/// The arguments as given.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Shell that will read the script
    #[arg(value_name = "shell", value_enum)]
    shell: Shell,
}

impl Arguments {
    /// The script for the shell, made from the command line's grammar.
    pub(crate) fn script(&self, grammar: &Command) -> String {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut visible(grammar), grammar.get_name(), &mut script);
        String::from_utf8(script).expect("a script made of texts must be text")
    }
}

/// The grammar without its hidden flags, which clap_complete would show: they have no effect.
fn visible(command: &Command) -> Command {
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().map(visible))
}
