//! Logs on temporary files.

mod follow;
mod format;
mod rotate;
mod tail;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::cri::v1;
use crate::regular_file::make_pipe;
use crate::runtime::RuntimeService;
use crate::runtime::simulated::{Logs, SimulatedConfig, SimulatedRuntime};

/// A line as runtimes write it, of second `second`.
fn line(second: u32, stream: &str, tag: &str, text: &str) -> String {
    format!("2026-11-21T10:00:{second:02}.000000000Z {stream} {tag} {text}\n")
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// All that a reader gives until it ends.
async fn rest(reader: &mut LogReader) -> String {
    let mut all = Vec::new();
    while let Some(piece) = reader.next().await.unwrap() {
        all.extend_from_slice(&piece);
    }
    String::from_utf8(all).unwrap()
}

async fn read(path: &Path, options: LogOptions) -> Result<String, Error> {
    let mut reader = LogReader::open(path, options, None).await?;
    let mut all = Vec::new();
    while let Some(piece) = reader.next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(all).unwrap())
}

/// A container that runs, says nothing by itself, and has a log.
struct Running {
    runtime: SimulatedRuntime,
    id: String,
    log: PathBuf,
    _folder: TempDir,
}

impl Running {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = SimulatedRuntime::new(SimulatedConfig {
            images: vec!["app".into()],
            logs: Logs::Written,
            ..Default::default()
        });
        let sandbox_config = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: "p".into(),
                uid: "u".into(),
                ..Default::default()
            }),
            log_directory: folder.path().to_str().unwrap().into(),
            ..Default::default()
        };
        let sandbox = runtime.run_pod_sandbox(&sandbox_config, "").await.unwrap();
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: "c".into(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: "app".into(), ..Default::default() }),
            log_path: "0.log".into(),
            ..Default::default()
        };
        let id = runtime.create_container(&sandbox, &config, &sandbox_config).await.unwrap();
        runtime.start_container(&id).await.unwrap();
        let log = folder.path().join("0.log");
        Self { runtime, id, log, _folder: folder }
    }

    async fn follow(&self, options: LogOptions) -> LogReader {
        let followed =
            Followed { runtime: std::sync::Arc::new(self.runtime.clone()), container_id: self.id.clone() };
        LogReader::open(&self.log, options, Some(followed)).await.unwrap()
    }

    fn end(&self) {
        self.runtime.exit_container(&self.id, 0, None);
    }
}

#[tokio::test]
async fn a_log_is_a_regular_file_of_that_name() {
    let container = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    append(&precious, &line(1, "stdout", "F", "precious"));
    let at = |name: &str| container.log.with_file_name(name);
    std::os::unix::fs::symlink(&precious, at("1.log")).unwrap();
    make_pipe(&at("2.log"));
    for name in ["1.log", "2.log"] {
        let opened = LogReader::open(at(name), LogOptions::default(), None);
        let opened = tokio::time::timeout(Duration::from_secs(20), opened).await;
        let error = opened.expect("nobody writes to a pipe").err().expect("it must be refused").to_string();
        assert!(error.starts_with("failed to open log file"), "{error}");
        read_last(&at(name), 1, 100).unwrap_err();
    }
    // Nor does one that is followed turn into something else.
    append(&container.log, &line(1, "stdout", "F", "one"));
    let mut reader = container.follow(LogOptions::default()).await;
    assert_eq!(reader.next().await.unwrap().unwrap(), "one\n");
    std::fs::rename(at("1.log"), &container.log).unwrap();
    let next = tokio::time::timeout(Duration::from_secs(20), reader.next()).await;
    next.expect("it must end").unwrap_err();
}
