//! The book's table of kube-controller-manager's flags, made from the code.
//!
//! `cargo test -p steersman --bin steersman flags_table -- --ignored` writes the table anew.

use super::effects::{EFFECTS, Effect, effect_of};
use super::upstream;

/// The flags of kube-controller-manager 1.36, as its help names them, sorted.
const UPSTREAM: &str = include_str!("upstream_flags.txt");

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/book/src/flags.md");
const BEGIN: &str = "<!-- flags: begin -->\n";
const END: &str = "<!-- flags: end -->\n";

/// The flags that the command heeds.
fn heeded() -> Vec<String> {
    let command = super::command();
    let manager = command.find_subcommand("controller-manager").unwrap();
    let flags = manager.get_arguments().filter(|flag| !flag.is_hide_set());
    // clap adds the last two when it parses.
    let flags = flags.filter_map(|flag| flag.get_long().map(str::to_owned));
    let mut flags: Vec<_> = flags.chain(["help", "version"].map(str::to_owned)).collect();
    flags.sort();
    flags.dedup();
    flags
}

/// The names as items of a list.
fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`--{name}`")).collect::<Vec<_>>().join(", ")
}

fn table() -> String {
    let heeded = heeded();
    let (mut same, mut idle, mut rows) = (Vec::new(), Vec::new(), String::new());
    for flag in UPSTREAM.lines() {
        if heeded.iter().any(|heeded| heeded == flag) {
            same.push(flag);
            continue;
        }
        match effect_of(flag).unwrap_or_else(|| panic!("{flag} must have an effect or a sentence")) {
            Effect::NoneUpstream => idle.push(flag),
            Effect::Given(why) => rows += &format!("| `--{flag}` | needs nothing: {why} |\n"),
            Effect::Missing { would, .. } => rows += &format!("| `--{flag}` | no effect: {would} |\n"),
        }
    }
    let ours = heeded.iter().map(String::as_str).filter(|flag| UPSTREAM.lines().all(|line| line != *flag));
    format!(
        "| flag | here |\n|---|---|\n| {} | as in kube-controller-manager |\n| {} | no effect, as in \
         kube-controller-manager 1.36 |\n{rows}| {} | only here |\n",
        list(same),
        list(idle),
        list(ours)
    )
}

/// The page before, in and after the table.
fn page() -> [String; 3] {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    [before, table, after].map(str::to_owned)
}

#[test]
fn the_book_tells_what_becomes_of_each_of_upstreams_flags() {
    assert_eq!(UPSTREAM.lines().count(), 148);
    assert!(UPSTREAM.lines().is_sorted());
    let [_, written, _] = page();
    assert!(
        written == table(),
        "write the table anew: cargo test -p steersman --bin steersman flags_table -- --ignored"
    );
}

#[test]
#[ignore = "writes docs/book/src/flags.md"]
fn write_the_table_anew() {
    let [before, _, after] = page();
    std::fs::write(PAGE, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
}

#[test]
fn each_flag_without_effect_has_one_sentence() {
    for flag in upstream::CONTROLLER_MANAGER.names() {
        assert!(effect_of(flag).is_some(), "{flag}");
    }
    let names: Vec<_> = EFFECTS.iter().map(|(flag, _)| *flag).collect();
    assert!(names.is_sorted_by(|one, other| one < other));
    // These are hidden in upstream's help.
    let hidden = ["allow-untagged-cloud", "node-sync-period"];
    for name in names {
        assert!(hidden.contains(&name) || UPSTREAM.lines().any(|line| line == name), "{name}");
    }
}

#[test]
#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the environment names the programs of Kubernetes"
)]
fn the_list_of_flags_is_that_of_kube_controller_managers_help() {
    let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty()) else {
        return println!("skipped: KUBEBUILDER_ASSETS names no folder");
    };
    let program = std::path::Path::new(&assets).join("kube-controller-manager");
    if !program.exists() {
        return println!("skipped: {} does not exist", program.display());
    }
    let help = std::process::Command::new(program).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let names = lines.filter_map(|line| line.split_once("--")?.1.split([' ', '=', '[']).next());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    assert_eq!(names, UPSTREAM.lines().collect::<Vec<_>>());
}
