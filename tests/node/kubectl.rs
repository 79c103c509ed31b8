//! What kubectl does with a pod through the API server and the node's port.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::pods::{Pods, container, shell, staying};
use support::{eventually, patience};

/// Killed and waited for when dropped, whatever else fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a stream, as they come.
fn lines(stream: impl std::io::Read + Send + 'static) -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

async fn next(lines: &mut tokio::sync::mpsc::UnboundedReceiver<String>) -> Option<String> {
    tokio::time::timeout(patience(), lines.recv()).await.expect("a line must come, or the end")
}

pub async fn logs_are_followed_cut_and_of_the_container_before(pods: Pods) {
    pods.run(
        "talks",
        json!({ "containers": [{
        "command": shell("echo one; echo two; echo three; while [ ! -e /go ]; do sleep 0.1; done; echo four"),
    }] }),
    )
    .await;
    pods.ready("talks").await;
    let mut follow = Running(pods.kubectl_command(&["logs", "-f", "talks"]).spawn().unwrap());
    let mut followed = lines(follow.0.stdout.take().unwrap());
    for line in ["one", "two", "three"] {
        assert_eq!(next(&mut followed).await.as_deref(), Some(line));
    }
    assert_eq!(pods.kubectl_ok(&["logs", "--tail=2", "talks"]).await, "two\nthree\n");
    assert_eq!(pods.kubectl_ok(&["logs", "--since=1h", "talks"]).await, "one\ntwo\nthree\n");
    assert_eq!(pods.kubectl_ok(&["logs", "--since-time=2099-01-01T00:00:00Z", "talks"]).await, "");
    assert_eq!(pods.kubectl_ok(&["logs", "--limit-bytes=5", "talks"]).await, "one\nt");
    pods.exec("talks", "touch /go").await;
    assert_eq!(next(&mut followed).await.as_deref(), Some("four"));
    assert_eq!(next(&mut followed).await, None, "it ends with the container");

    pods.run("twice", json!({
        "restartPolicy": "OnFailure",
        "containers": [{
            "command": shell("test -e /scratch/seen && { echo second; exec sleep 3600; }; touch /scratch/seen; echo first; exit 1"),
            "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
        }],
        "volumes": [{ "name": "scratch", "emptyDir": {} }],
    }))
    .await;
    pods.wait("twice", "it runs again", |pod| {
        let main = container(pod, "main")?;
        (main.restart_count == 1 && main.state?.running.is_some()).then_some(())
    })
    .await;
    eventually("the second one speaks", || async {
        (pods.kubectl_ok(&["logs", "twice"]).await == "second\n").then_some(())
    })
    .await;
    assert_eq!(pods.kubectl_ok(&["logs", "--previous", "twice"]).await, "first\n");
}

pub async fn a_command_gets_input_and_gives_its_exit_code(pods: Pods) {
    pods.run("works", json!({ "containers": [staying()] })).await;
    pods.ready("works").await;
    let script = "cat; echo complaint >&2; exit 42";
    let output = pods.kubectl(&["exec", "-i", "works", "--", "sh", "-c", script], "from here\n").await;
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from here\n");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("complaint\n"));
}

pub async fn an_attached_terminal_talks_to_the_container(pods: Pods) {
    pods.run("echoes", json!({ "containers": [{
        "stdin": true, "command": shell("while read line; do echo got $line; test $line = end && exit 5; done"),
    }] }))
    .await;
    pods.ready("echoes").await;
    let mut command = pods.kubectl_command(&["attach", "-i", "-q", "echoes"]);
    let mut attached = Running(command.stdin(Stdio::piped()).spawn().unwrap());
    let mut said = lines(attached.0.stdout.take().unwrap());
    let mut input = attached.0.stdin.take().unwrap();
    for word in ["one", "end"] {
        writeln!(input, "{word}").unwrap();
        assert_eq!(next(&mut said).await, Some(format!("got {word}")));
    }
    let ended = pods.phase("echoes", &["Failed"]).await;
    assert_eq!(container(&ended, "main").unwrap().state.unwrap().terminated.unwrap().exit_code, 5);
}

pub async fn a_forwarded_port_leads_into_the_pod(pods: Pods) {
    pods.run(
        "web",
        json!({ "containers": [{
        "command": ["nc", "-ll", "-p", "8080", "-e", "echo", "hello"],
    }] }),
    )
    .await;
    pods.ready("web").await;
    let mut forward = Running(pods.kubectl_command(&["port-forward", "web", ":8080"]).spawn().unwrap());
    let mut said = lines(forward.0.stdout.take().unwrap());
    let line = next(&mut said).await.expect("it must say where it listens");
    let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
    let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    // Twice: each connection has streams of its own.
    for _ in 0..2 {
        let answer = eventually("the port answers", async || {
            tokio::task::spawn_blocking(move || {
                let mut answer = String::new();
                let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
                stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
                stream.read_to_string(&mut answer).ok()?;
                (!answer.is_empty()).then_some(answer)
            })
            .await
            .unwrap()
        });
        assert_eq!(answer.await, "hello\n");
    }
}

pub async fn files_are_copied_in_and_out(pods: Pods) {
    pods.run("files", json!({ "containers": [staying()] })).await;
    pods.ready("files").await;
    let folder = tempfile::tempdir().unwrap();
    let (here, back) = (folder.path().join("here"), folder.path().join("back"));
    let content: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    std::fs::write(&here, &content).unwrap();
    pods.kubectl_ok(&["cp", here.to_str().unwrap(), "files:/tmp-file"]).await;
    pods.kubectl_ok(&["cp", "files:/tmp-file", back.to_str().unwrap()]).await;
    assert!(std::fs::read_to_string(&back).unwrap() == content, "what comes back is what went");
}
