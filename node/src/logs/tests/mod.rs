//! Logs on temporary files.

mod follow;
mod format;
mod rotate;
mod tail;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::cri::v1;
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
