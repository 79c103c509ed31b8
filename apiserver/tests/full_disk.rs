//! A disk that is really full. It is mounted for the test, which takes root.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod common;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{delete, get, post, put};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

/// A file system of 32 MiB.
struct SmallDisk {
    at: TempDir,
}

impl SmallDisk {
    /// `None` where the user may not mount.
    fn mount() -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"]).arg(at.path()).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self { at })
    }

    fn data(&self) -> PathBuf {
        self.at.path().join("data")
    }

    /// Another program takes all that is left.
    fn fill(&self) {
        let mut file = File::create(self.at.path().join("log")).unwrap();
        let mut piece = vec![1; 1 << 20];
        while !piece.is_empty() {
            match file.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => piece.truncate(piece.len() / 2),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.at.path()).status();
    }
}

fn map(name: &str, filled_with: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": filled_with.repeat(200_000)}})
}

async fn start(data: &Path) -> TestServer {
    TestServer::builder()
        .kept_in(data)
        .try_start()
        .await
        .expect("a full disk must not keep a server from starting")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_full_disk_answers_and_starts_and_has_space_again_after_deletes() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: no file system can be mounted here (it takes root)");
        return;
    };
    let server = start(&disk.data()).await;
    // A program that fills the disk, and the objects that find no space: both at a time.
    let mut names = Vec::new();
    let refusal = loop {
        let name = format!("map-{}", names.len());
        let answer = post(&server, MAPS, map(&name, "a")).await;
        if answer.code != 201 {
            break answer.refusal();
        }
        names.push(name);
        assert!(names.len() < 1000, "32 MiB must be full at some time");
    };
    assert_eq!(refusal, (500, String::new(), NO_SPACE.to_owned()));
    disk.fill();
    let one = format!("{MAPS}/{}", names[0]);
    get(&server, &one).await.expect(200);
    put(&server, &one, map(&names[0], "b")).await.expect(200);
    server.stop().await;
    drop(server);

    let server = start(&disk.data()).await;
    let listed = get(&server, MAPS).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), names.len());
    assert_eq!(get(&server, &one).await.expect(200)["data"], map("", "b")["data"]);
    assert_eq!(post(&server, MAPS, map("more", "a")).await.refusal().2, NO_SPACE);
    for name in &names {
        delete(&server, &format!("{MAPS}/{name}"), Value::Null).await.expect(200);
    }
    // The disk stays full: the server uses the space of the deleted objects.
    let taken = async {
        while post(&server, MAPS, map("more", "a")).await.code != 201 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), taken).await.expect("deletes must make space for other objects");
    assert!(fs::metadata(disk.at.path().join("log")).unwrap().len() > 0);
}

/// The reserve is too small for what is on its way when the disk fills up.
#[tokio::test(flavor = "multi_thread")]
async fn all_requests_are_answered_when_the_reserve_is_used_up_and_reads_go_on() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: no file system can be mounted here (it takes root)");
        return;
    };
    let server = Arc::new(start(&disk.data()).await);
    let big =
        |n: usize| json!({"metadata": {"name": format!("big-{n}")}, "data": {"k": "x".repeat(900_000)}});
    post(&server, MAPS, big(0)).await.expect(201);
    disk.fill();
    let mut writes = JoinSet::new();
    for n in 1..40 {
        let (server, map) = (Arc::clone(&server), big(n));
        writes.spawn(async move { (n, post(&server, MAPS, map).await.code) });
    }
    let reading = async {
        for _ in 0..20 {
            get(&server, &format!("{MAPS}/big-0")).await.expect(200);
        }
        let mut stored = Vec::new();
        while let Some(write) = writes.join_next().await {
            let (n, code) = write.unwrap();
            assert!([201, 500, 504].contains(&code), "{code}");
            if code == 201 {
                stored.push(n);
            }
        }
        stored
    };
    let stored =
        timeout(Duration::from_secs(60), reading).await.expect("a full disk must keep no request waiting");
    server.stop().await;
    drop(server);

    let server = start(&disk.data()).await;
    for n in stored {
        get(&server, &format!("{MAPS}/big-{n}")).await.expect(200);
    }
    delete(&server, &format!("{MAPS}/big-0"), Value::Null).await.expect(200);
}
