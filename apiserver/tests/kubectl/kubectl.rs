//! kubectl, and a server that it talks to.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use steersman_apiserver::TestServer;
use tempfile::TempDir;

/// kubectl with a server and a home of its own.
pub(crate) struct Kubectl {
    binary: PathBuf,
    home: TempDir,
    pub(crate) server: TestServer,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) good: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Kubectl {
    /// `None`, and a word about it, where there is no kubectl.
    pub(crate) async fn start() -> Option<Self> {
        let Some(binary) = find() else {
            #[expect(clippy::print_stderr, reason = "whoever runs the tests shall see it")]
            {
                eprintln!("skipped: no kubectl in KUBEBUILDER_ASSETS or on the PATH");
            }
            return None;
        };
        let server = TestServer::start().await;
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = serde_json::to_string(&server.kubeconfig()).unwrap();
        std::fs::write(home.path().join("kubeconfig"), kubeconfig).unwrap();
        Some(Self { binary, home, server })
    }

    /// Runs a command; its words are separated by blanks.
    pub(crate) fn run(&self, command: &str) -> Said {
        self.run_with(command, "")
    }

    /// Runs a command with something on its standard input.
    pub(crate) fn run_with(&self, command: &str, input: &str) -> Said {
        self.run_words(&command.split_whitespace().collect::<Vec<_>>(), input)
    }

    /// Runs a command whose words may contain blanks.
    pub(crate) fn run_words(&self, words: &[&str], input: &str) -> Said {
        let run = || {
            let mut child = Command::new(&self.binary)
                .args(words)
                .env("KUBECONFIG", self.home.path().join("kubeconfig"))
                .env("HOME", self.home.path())
                // An editor that changes one word.
                .env("KUBE_EDITOR", "sed -i s/before/after/")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        // The server goes on meanwhile, on other threads.
        let output = tokio::task::block_in_place(run);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { good: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must succeed, and gives what it printed, without blanks at the end.
    #[track_caller]
    pub(crate) fn good(&self, command: &str) -> String {
        let said = self.run(command);
        assert!(said.good, "kubectl {command}: {said:?}");
        said.out.trim_end().to_owned()
    }

    /// Runs a command that must fail, and gives why it did.
    #[track_caller]
    pub(crate) fn bad(&self, command: &str) -> String {
        let said = self.run(command);
        assert!(!said.good, "kubectl {command}: {said:?}");
        said.err.trim_end().to_owned()
    }

    /// Makes an object.
    #[track_caller]
    pub(crate) fn create(&self, object: &Value) {
        let said = self.run_with("create -f -", &object.to_string());
        assert!(said.good, "{object}: {said:?}");
    }

    /// Writes an object's status.
    #[track_caller]
    pub(crate) fn set_status(&self, object: &str, status: &Value) {
        let patch = serde_json::json!({"status": status}).to_string();
        let words: Vec<&str> = object.split_whitespace().collect();
        let said = self.run_words(
            &[&["patch"], words.as_slice(), &["--subresource=status", "--type=merge", "-p", &patch]].concat(),
            "",
        );
        assert!(said.good, "{object}: {said:?}");
    }

    /// A table as lists of cells; ages are all alike.
    #[track_caller]
    pub(crate) fn table(&self, command: &str) -> Vec<Vec<String>> {
        let is_age = |cell: &str| {
            cell.strip_suffix('s')
                .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        };
        let cell = |cell: &str| if is_age(cell) { "AGE".to_owned() } else { cell.to_owned() };
        self.good(command).lines().map(|line| line.split_whitespace().map(cell).collect()).collect()
    }
}

fn find() -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = assets.into_iter().chain(std::env::split_paths(&path).collect::<Vec<_>>());
    folders.map(|folder| folder.join("kubectl")).find(|binary| binary.is_file())
}

/// The words of each line of a table.
pub(crate) fn rows<const N: usize>(lines: [&str; N]) -> Vec<Vec<String>> {
    lines.iter().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}
