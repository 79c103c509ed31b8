//! `steersman man`: manual pages, made from the command line's grammar.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command, ValueHint};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::examples::{self, Example};
use super::pflag::Refusal;
use crate::version;

/// The arguments as given.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Command whose page to print; without it, the page of steersman itself
    #[arg(value_name = "command")]
    command: Option<String>,
    /// Existing folder to write the pages of all commands to, instead of printing one page
    #[arg(long, value_name = "folder", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// What to do with manual pages.
pub(crate) enum Pages {
    /// Print this page.
    Print(String),
    /// Write these pages.
    Write(Vec<(PathBuf, String)>),
}

impl Arguments {
    /// The pages that the user asks for.
    ///
    /// # Errors
    /// There is no such command.
    pub(crate) fn pages(self, grammar: Command) -> Result<Pages, Refusal> {
        let mut grammar = grammar.disable_help_subcommand(true);
        // Names the pages of subcommands `steersman-node` and so on.
        grammar.build();
        let commands = || all(&grammar).into_iter();
        if let Some(folder) = self.dir {
            let pages = commands().map(|command| {
                let file = Man::new(command.clone()).get_filename();
                (folder.join(file), page(command))
            });
            return Ok(Pages::Write(pages.collect()));
        }
        let name = self.command.as_deref().unwrap_or(grammar.get_name());
        let command = commands().find(|command| name_of(command) == name);
        let names = || commands().map(name_of).collect::<Vec<_>>().join(", ");
        let command = command
            .ok_or_else(|| Refusal::new(format!("no manual page for {name:?}; there are: {}", names())))?;
        Ok(Pages::Print(page(command)))
    }
}

/// A command, and all commands within it.
fn all(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(all)).collect()
}

/// What the page of a command is asked for by: `node`, `standalone-snapshot`.
fn name_of(command: &Command) -> &str {
    let name = command.get_display_name().unwrap_or(command.get_name());
    name.strip_prefix("steersman-").unwrap_or(name)
}

/// The page of one command.
fn page(command: &Command) -> String {
    let mut page = Vec::new();
    render(command, &mut page).expect("memory must take what is written to it");
    String::from_utf8(page).expect("a page made of texts must be text")
}

fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone())
        .section("1")
        .source(format!("Steersman {}", version::STEERSMAN))
        .manual("Steersman Manual");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    if let Some(notes) = command.get_after_help() {
        let mut roff = Roff::new();
        roff.control("SH", ["NOTES"]).text([roman(notes.to_string())]);
        roff.to_writer(page)?;
    }
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for Example { about, line } in examples::of(command.get_name()) {
        roff.control("PP", []).text([roman(format!("{about}:"))]);
        roff.control("nf", []).text([bold(*line)]).control("fi", []);
    }
    roff.to_writer(page)
}
