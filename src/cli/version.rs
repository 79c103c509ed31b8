//! `steersman version`.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::version::{self, Build};

/// The flags as given.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Form of the output; text without it
    #[arg(short, long, value_name = "form", value_enum)]
    output: Option<Output>,
}

/// A form of the output, as kubectl's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Json,
    Yaml,
}

impl Flags {
    /// The version in the form that the user asks for.
    pub(crate) fn text(&self) -> String {
        let build = version::build();
        match self.output {
            None => lines(&build),
            Some(Output::Json) => format!("{:#}\n", fields(&build)),
            Some(Output::Yaml) => yaml(&fields(&build)),
        }
    }
}

/// The version as lines of text. An unknown commit has none.
fn lines(build: &Build) -> String {
    let kubernetes = format!("v{}", version::kubernetes());
    let lines = [
        ("Steersman Version", build.steersman_version),
        ("Kubernetes Version", &kubernetes),
        ("Git Commit", build.git_commit),
        ("Rust Version", build.rustc_version),
        ("Platform", &build.platform),
    ];
    let known = lines.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn fields(build: &Build) -> Value {
    serde_json::to_value(build).expect("a struct of texts must have a JSON form")
}

/// A flat object as YAML. A text in JSON is one in YAML, too.
fn yaml(fields: &Value) -> String {
    let fields = fields.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{name}: {value}\n")).collect()
}
