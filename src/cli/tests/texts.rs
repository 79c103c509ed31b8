//! What is printed: help, versions, scripts for completion, manual pages.

use super::*;

#[test]
fn help_is_grouped_and_names_the_controllers() {
    let help = printed(&["steersman", "controller-manager", "--help"]);
    assert_eq!(help, printed(&["steersman", "controller-manager", "-h"]));
    let groups = ["API server:", "Controllers:", "Leader election:", "Serving:", "Logs:", "Global flags:"];
    let places =
        groups.map(|group| help.find(&format!("\n{group}\n")).unwrap_or_else(|| panic!("{group} in {help}")));
    assert!(places.is_sorted(), "{help}");
    let parts = ["--kube-api-qps <float>", "[default: 12h]", "job-controller", "--leader-elect[=<bool>]"];
    for part in parts.into_iter().chain(["--concurrent-job-syncs <int>", "[default: 12500]"]) {
        assert!(help.contains(part), "{part} in {help}");
    }
    assert!(!help.contains("--cloud-config"), "{help}");
    assert!(printed(&["steersman", "--help"]).contains("controller-manager"));
}

#[test]
fn versions_are_printed_on_request() {
    let line = format!("Steersman v{} (Kubernetes v1.36.3)\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(&["steersman", "--version"]), line);
    assert_eq!(printed(&["steersman", "controller-manager", "--version=true"]), line);
    assert!(printed(&["steersman", "--version=raw"]).contains("git_version: \"v1.36.3+steersman."));

    let text = printed(&["steersman", "version"]);
    let lines: Vec<_> = text.lines().map(|line| line.split_once(": ").unwrap()).collect();
    assert_eq!(lines[..2], [("Steersman Version", build::STEERSMAN), ("Kubernetes Version", "v1.36.3")]);
    assert!(lines.iter().any(|(name, value)| *name == "Rust Version" && value.starts_with("1.")), "{text}");

    let json: serde_json::Value =
        serde_json::from_str(&printed(&["steersman", "version", "--output=json"])).unwrap();
    let yaml: serde_json::Value =
        serde_saphyr::from_str(&printed(&["steersman", "version", "-o", "yaml"])).unwrap();
    assert_eq!(json, yaml);
    assert_eq!((&json["minor"], &json["gitVersion"]), (&"36".into(), &build::info().git_version.into()));
    let mut names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "compiler",
            "gitCommit",
            "gitVersion",
            "major",
            "minor",
            "platform",
            "rustcVersion",
            "steersmanVersion"
        ]
    );
}

#[test]
fn help_comes_in_each_way_that_users_ask_for_it() {
    let root = printed(&["steersman", "--help"]);
    for args in [&["steersman"][..], &["steersman", "help"], &["steersman", "-h"]] {
        assert_eq!(printed(args), root, "{args:?}");
    }
    for command in ["controller-manager", "node", "standalone", "version", "completion", "man"] {
        assert!(root.contains(&format!("\n  {command} ")), "{command} in {root}");
        let help = printed(&["steersman", command, "--help"]);
        assert_eq!(printed(&["steersman", "help", command]), help);
        assert_eq!(printed(&["steersman", command, "-h"]), help);
    }
}

#[test]
fn each_help_ends_with_examples_that_are_valid() {
    let commands = command();
    let names = commands.get_subcommands().map(clap::Command::get_name);
    for name in names.chain(["steersman"]) {
        let help = if name == "steersman" { vec![name, "--help"] } else { vec!["steersman", name, "--help"] };
        let help = printed(&help);
        let examples = examples::of(name);
        assert!(examples.len() > 1 && help.contains("\nExamples:\n"), "{name}: {help}");
        for examples::Example { about, line } in examples {
            assert!(help.contains(&format!("  # {about}\n  {line}")), "{line} in {help}");
            assert!(line.lines().all(|line| line.len() <= 76), "{line}");
            // What the shell passes to the program: no redirections, no continued lines.
            let words = line.split_whitespace().skip_while(|word| !word.ends_with("steersman"));
            let words = words.map(|word| word.trim_start_matches("<(").trim_end_matches(')'));
            let words = words.take_while(|word| !["|", ">"].contains(word)).filter(|word| *word != "\\");
            let args: Vec<_> = words.collect();
            let read = command().try_get_matches_from(&args);
            let ok = read.map_or_else(|error| is_help(&error), |_| true);
            assert!(ok || args.is_empty(), "{name}: {line}");
        }
    }
}

#[test]
fn scripts_for_completion_know_commands_and_flags() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["steersman", "completion", shell]);
        for word in ["controller-manager", "leader-elect-resource-name", "max-pods", "standalone"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
        assert!(!script.contains("cloud-config"), "{shell}: flags without effect are not shown");
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let page = printed(&["steersman", "man", "node"]);
    for part in [".TH steersman-node 1", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH NOTES\n", ".SH EXAMPLES\n"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(page.contains("\\-\\-max\\-pods") && !page.contains("lock\\-file"), "{page}");
    assert!(printed(&["steersman", "man"]).contains("steersman\\-controller\\-manager(1)"));
    let args = ["steersman", "man", "--dir=/pages"].map(OsString::from);
    let Ok(Invocation::Write(pages)) = parse(args) else { panic!("pages must be written") };
    let files: Vec<_> = pages.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    let names = [
        "",
        "-controller-manager",
        "-node",
        "-standalone",
        "-standalone-snapshot",
        "-standalone-snapshot-save",
        "-standalone-snapshot-restore",
        "-version",
        "-completion",
        "-man",
    ];
    assert_eq!(files, names.map(|name| format!("/pages/steersman{name}.1")));
    assert!(pages.iter().all(|(_, text)| text.contains("\n.SH EXAMPLES\n")));
}
