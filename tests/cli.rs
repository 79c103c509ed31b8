//! The program as its users type it: help, versions, completion, manual pages, colours, and errors with their remedies.

#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_steersman");

fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).env_remove("KUBECONFIG").output().expect("it must start")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The last line of the log of a program that ended by an error.
fn last_line(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
    stderr(&output).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn without_arguments_it_prints_its_help() {
    let output = run(&[]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert!(stdout(&output).contains("\nUsage: steersman"), "{}", stdout(&output));
    assert_eq!(stdout(&output), stdout(&run(&["help"])));
}

#[test]
fn colours_are_for_terminals_only() {
    for args in [&["--help"][..], &["help", "node"], &["--bogus"]] {
        let output = run(args);
        assert!(!stdout(&output).contains('\x1b') && !stderr(&output).contains('\x1b'), "{args:?}");
    }
    // `script` gives the program a terminal.
    let on_terminal = |no_color: &str| {
        let mut command = Command::new("script");
        command.args(["-qec", &format!("{PROGRAM} --help; {PROGRAM} --bogus"), "/dev/null"]);
        command.env("TERM", "xterm").env("NO_COLOR", no_color).stdin(Stdio::null()).output()
    };
    let Ok(styled) = on_terminal("") else { return };
    assert!(stdout(&styled).contains("\x1b["), "{}", stdout(&styled));
    assert!(!stdout(&on_terminal("1").unwrap()).contains("\x1b["));
}

#[test]
fn under_the_name_of_kube_controller_manager_it_says_the_same_as_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("kube-controller-manager");
    symlink(PROGRAM, &link).unwrap();
    for args in
        [&["--help"][..], &["--version"], &["version"], &["help"], &["--bogus"], &["--kubeconfig=/none"]]
    {
        let linked = Command::new(&link).args(args).output().unwrap();
        let ours = run(&[&["controller-manager"], args].concat());
        assert_eq!(linked.status, ours.status, "{args:?}");
        assert_eq!(stdout(&linked), stdout(&ours), "{args:?}");
        // Lines of the log begin with the time and the process.
        let without_head = |output: &Output| {
            let lines =
                stderr(output).lines().map(|line| line.split_once("] ").map_or(line, |(_, rest)| rest));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(without_head(&linked), without_head(&ours), "{args:?}");
    }
}

#[test]
fn bash_completes_commands_and_flags() {
    let script = run(&["completion", "bash"]);
    assert_eq!(script.status.code(), Some(0));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steersman.bash");
    fs::write(&file, &script.stdout).unwrap();
    let completed = |words: &str, last: usize| {
        let bash = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; cur=${{COMP_WORDS[{last}]}}; \
             _steersman steersman \"$cur\" \"${{COMP_WORDS[{}]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.display(),
            last - 1
        );
        let output = Command::new("bash").args(["-c", &bash]).output().unwrap();
        assert_eq!(stderr(&output), "");
        stdout(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("steersman contr", 1), ["controller-manager"]);
    assert_eq!(completed("steersman node --max-p", 2), ["--max-pods"]);
    assert_eq!(completed("steersman completion power", 2), ["powershell"]);
}

#[test]
fn manual_pages_are_written_for_all_commands() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["man", "--dir", folder.path().to_str().unwrap()]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(stdout(&output).lines().count(), 10);
    for file in stdout(&output).lines() {
        let page = fs::read_to_string(file).unwrap();
        assert!(page.contains(".TH ") && page.contains("\n.SH EXAMPLES\n"), "{file}: {page}");
    }
    let output = run(&["man", "--dir=/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "Error: writing /nowhere/steersman.1: No such file or directory (os error 2)\n"
    );
}

#[test]
fn an_error_that_ends_the_start_names_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let malformed = file("malformed", "clusters: [");
    let without_context = file("without-context", "kind: Config\n");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    for (args, err, remedy) in [
        (
            vec!["controller-manager".to_owned(), "--kubeconfig=/nowhere/config".to_owned()],
            "kubeconfig /nowhere/config: No such file or directory (os error 2)".to_owned(),
            "name an existing file with --kubeconfig".to_owned(),
        ),
        (
            vec!["node".to_owned(), "--kubeconfig=/nowhere/config".to_owned()],
            "kubeconfig /nowhere/config: No such file or directory (os error 2)".to_owned(),
            "name an existing file with --kubeconfig".to_owned(),
        ),
        (
            vec!["controller-manager".to_owned(), format!("--kubeconfig={malformed}")],
            format!("kubeconfig {malformed}: failed to parse kubeconfig YAML: "),
            format!("compare with `kubectl --kubeconfig {malformed} config view`"),
        ),
        (
            vec!["controller-manager".to_owned(), format!("--kubeconfig={without_context}")],
            format!("kubeconfig {without_context}: current-context: is missing"),
            "config use-context NAME` sets it".to_owned(),
        ),
        (
            vec!["controller-manager".to_owned()],
            "neither a kubeconfig nor a master was given".to_owned(),
            "outside of a pod, name a kubeconfig with --kubeconfig".to_owned(),
        ),
        (
            vec![
                "controller-manager".to_owned(),
                "--master=127.0.0.1:1".to_owned(),
                "--secure-port=0".to_owned(),
                format!("--http-address={address}"),
            ],
            format!("serving at {address}: Address already in use"),
            "choose another address with --http-address".to_owned(),
        ),
        (
            vec!["standalone".to_owned(), format!("--data-dir={data}"), format!("--https-address={address}")],
            format!("serving at {address}: Address already in use"),
            "choose another address with --https-address".to_owned(),
        ),
    ] {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let line = last_line(&args);
        let (found, said) = line.split_once(" remedy=").unwrap_or_else(|| panic!("{args:?}: {line}"));
        assert!(line.starts_with('E') && found.contains("\"command failed\" err=\""), "{line}");
        assert!(found.contains(&err), "{err} in {line}");
        assert!(said.contains(&remedy), "{remedy} in {line}");
    }
}

#[test]
fn the_version_says_what_it_is_built_from() {
    let output = run(&["version", "-o", "json"]);
    let version: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(version["steersmanVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    let platform = version["platform"].as_str().unwrap();
    assert!(platform.starts_with("linux/"), "{platform}");
}
