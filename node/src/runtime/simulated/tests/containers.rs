//! How containers start and end.

use tokio::time::{advance, timeout};

use super::*;
use crate::runtime::Code;

#[tokio::test(start_paused = true)]
async fn a_container_starts_after_its_delay() {
    let runtime = runtime();
    let (_, id) = created(&runtime, &[("start-delay", "3s")]).await;
    let began = Instant::now();
    runtime.start_container(&id).await.unwrap();
    assert_eq!(began.elapsed(), seconds(3));
    assert_eq!(status(&runtime, &id).await.started_at, BEGINNING + 3_000_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_container_ends_as_its_annotations_say() {
    // Annotations, seconds until it is looked at; whether it runs, code, reason, seconds until its end.
    type Row = (&'static [(&'static str, &'static str)], u64, bool, i32, &'static str, i64);
    let table: [Row; 8] = [
        (&[], 1_000_000, true, 0, "", 0),
        (&[("exit-after", "never")], 1_000_000, true, 0, "", 0),
        (&[("exit-after", "5s")], 4, true, 0, "", 0),
        (&[("exit-after", "5s")], 5, false, 0, "Completed", 5),
        (&[("exit-after", "5s"), ("exit-code", "2")], 60, false, 2, "Error", 5),
        (
            &[("exit-after", "5s"), ("exit-code", "137"), ("exit-reason", "OOMKilled")],
            60,
            false,
            137,
            "OOMKilled",
            5,
        ),
        (&[("exit-after", "0s")], 0, false, 0, "Completed", 0),
        (&[("exit-after.main", "1s"), ("exit-after", "9s")], 3, false, 0, "Completed", 1),
    ];
    for (annotations, later, runs, code, reason, ended) in table {
        let runtime = runtime();
        let id = started(&runtime, annotations).await;
        let began = status(&runtime, &id).await.started_at;
        advance(seconds(later)).await;
        let status = status(&runtime, &id).await;
        assert_eq!(status.state() == v1::ContainerState::ContainerRunning, runs, "{annotations:?}");
        assert_eq!((status.exit_code, &*status.reason), (code, reason), "{annotations:?}");
        if !runs {
            assert_eq!(status.finished_at - began, ended * 1_000_000_000, "{annotations:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_may_be_got_over() {
    let runtime = runtime();
    let pod = pod("a", &[("exit-after", "1s,1s,never"), ("exit-code", "1")]);
    let sandbox = runtime.run_pod_sandbox(&pod, "").await.unwrap();
    let mut runs = Vec::new();
    for attempt in 0..4 {
        let id = runtime.create_container(&sandbox, &container("main", attempt), &pod).await.unwrap();
        runtime.start_container(&id).await.unwrap();
        advance(seconds(10)).await;
        runs.push(status(&runtime, &id).await.exit_code);
    }
    assert_eq!(runs, [1, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn stopping_takes_as_long_as_the_container_or_its_grace() {
    // Annotations, grace; how long it takes, exit code.
    type Row = (&'static [(&'static str, &'static str)], u64, u64, i32);
    let table: [Row; 7] = [
        (&[], 30, 0, 143),
        (&[("stop-delay", "4s"), ("stop-code", "0")], 30, 4, 0),
        (&[("stop-delay", "4s")], 3, 3, 137),
        (&[("stop-delay", "3s")], 3, 3, 143),
        (&[("stop-delay", "never")], 30, 30, 137),
        (&[("stop-delay", "4s")], 0, 0, 137),
        (&[("stop-delay", "never"), ("exit-after", "2s"), ("exit-code", "5")], 30, 2, 5),
    ];
    for (annotations, grace, took, code) in table {
        let runtime = runtime();
        let id = started(&runtime, annotations).await;
        let began = Instant::now();
        runtime.stop_container(&id, seconds(grace)).await.unwrap();
        assert_eq!(began.elapsed(), seconds(took), "{annotations:?} {grace}");
        assert_eq!(status(&runtime, &id).await.exit_code, code, "{annotations:?} {grace}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_given_up_does_not_kill() {
    let runtime = runtime();
    let id = started(&runtime, &[("stop-delay", "never")]).await;
    assert!(timeout(seconds(1), runtime.stop_container(&id, seconds(5))).await.is_err());
    advance(seconds(60)).await;
    assert_eq!(status(&runtime, &id).await.state(), v1::ContainerState::ContainerRunning);
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_with_less_grace_ends_the_first() {
    let runtime = runtime();
    let id = started(&runtime, &[("stop-delay", "never")]).await;
    let began = Instant::now();
    let (long, short) =
        tokio::join!(runtime.stop_container(&id, seconds(60)), runtime.stop_container(&id, seconds(2)));
    long.unwrap();
    short.unwrap();
    assert_eq!(began.elapsed(), seconds(2));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_made_or_started_says_so() {
    let runtime = runtime();
    let bad = pod("bad", &[("create-error", "no room")]);
    let sandbox = runtime.run_pod_sandbox(&bad, "").await.unwrap();
    let error = runtime.create_container(&sandbox, &container("main", 0), &bad).await.unwrap_err();
    assert_eq!(error.message(), "no room");

    let (_, id) = created(&runtime, &[("start-error", "no such file")]).await;
    assert_eq!(runtime.start_container(&id).await.unwrap_err().message(), "no such file");
    let status = status(&runtime, &id).await;
    assert_eq!((status.state(), status.exit_code), (v1::ContainerState::ContainerExited, 128));
    assert_eq!((&*status.reason, &*status.message, status.started_at), ("StartError", "no such file", 0));
}

#[tokio::test(start_paused = true)]
async fn a_container_removed_while_it_starts_does_not_start() {
    let runtime = runtime();
    let (_, id) = created(&runtime, &[("start-delay", "3s")]).await;
    let remove = async {
        tokio::time::sleep(seconds(1)).await;
        runtime.remove_container(&id).await.unwrap();
    };
    let (start, ()) = tokio::join!(runtime.start_container(&id), remove);
    assert!(start.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn the_termination_message_goes_to_the_mounted_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("message");
    let runtime = runtime();
    let pod = pod("a", &[("termination-message", "out of luck"), ("exit-after", "1s")]);
    let sandbox = runtime.run_pod_sandbox(&pod, "").await.unwrap();
    let mut config = container("main", 0);
    let path = "/dev/termination-log".to_owned();
    config.annotations.insert("io.kubernetes.container.terminationMessagePath".into(), path.clone());
    let host_path = file.display().to_string();
    config.mounts.push(v1::Mount { container_path: path, host_path, ..Default::default() });
    let id = runtime.create_container(&sandbox, &config, &pod).await.unwrap();
    runtime.start_container(&id).await.unwrap();
    assert!(!file.exists());
    advance(seconds(1)).await;
    status(&runtime, &id).await;
    assert_eq!(std::fs::read_to_string(file).unwrap(), "out of luck");
}

#[tokio::test(start_paused = true)]
async fn commands_end_as_annotated_or_as_a_handler_says() {
    let runtime = runtime();
    let annotations =
        [("exec-delay", "2s"), ("exec-code", "1"), ("exec-stdout", "no"), ("exit-after", "10s")];
    let id = started(&runtime, &annotations).await;
    let command = ["probe".to_owned()];
    let began = Instant::now();
    let answer = runtime.exec_sync(&id, &command, seconds(2)).await.unwrap();
    assert_eq!((began.elapsed(), answer.exit_code, &*answer.stdout), (seconds(2), 1, &b"no"[..]));
    let error = runtime.exec_sync(&id, &command, seconds(1)).await.unwrap_err();
    assert_eq!((began.elapsed(), error.code()), (seconds(3), Code::DeadlineExceeded));

    runtime.on_exec(|status, command| {
        let known = command == ["ask"] && status.metadata.as_ref().is_some_and(|m| m.name == "main");
        known.then(|| v1::ExecSyncResponse { exit_code: 9, ..Default::default() })
    });
    assert_eq!(runtime.exec_sync(&id, &["ask".into()], Duration::ZERO).await.unwrap().exit_code, 9);
    assert_eq!(runtime.exec_sync(&id, &command, Duration::ZERO).await.unwrap().exit_code, 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_dies_with_its_container() {
    let runtime = runtime();
    let id = started(&runtime, &[("exec-delay", "1h"), ("exit-after", "5s")]).await;
    let began = Instant::now();
    let answer = runtime.exec_sync(&id, &["wait".into()], Duration::ZERO).await.unwrap();
    assert_eq!((began.elapsed(), answer.exit_code), (seconds(5), 137));
}

#[tokio::test(start_paused = true)]
async fn a_test_may_end_a_container() {
    let runtime = runtime();
    let id = started(&runtime, &[]).await;
    runtime.exit_container(&id, 137, Some("OOMKilled"));
    runtime.exit_container(&id, 0, None);
    let status = status(&runtime, &id).await;
    assert_eq!((status.exit_code, &*status.reason), (137, "OOMKilled"));
}

#[tokio::test(start_paused = true)]
async fn processor_time_grows_with_the_time_it_runs() {
    let runtime = runtime();
    let id = started(&runtime, &[("cpu-millis", "250"), ("memory-bytes", "4096")]).await;
    advance(seconds(8)).await;
    let stats = runtime.container_stats(&id).await.unwrap();
    assert_eq!(stats.cpu.unwrap().usage_core_nano_seconds.unwrap().value, 2_000_000_000);
    assert_eq!(stats.memory.unwrap().working_set_bytes.unwrap().value, 4096);
    let pods = runtime.list_pod_sandbox_stats(&Default::default()).await.unwrap();
    let linux = pods[0].linux.clone().unwrap();
    assert_eq!(linux.cpu.unwrap().usage_core_nano_seconds.unwrap().value, 2_000_000_000);
    assert_eq!((linux.process.unwrap().process_count.unwrap().value, linux.containers.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn logs_are_written_only_where_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (logs, expected) in [(Logs::Discarded, None), (Logs::Written, Some(3))] {
        let runtime = SimulatedRuntime::new(SimulatedConfig { logs, ..config() });
        let mut pod = pod("a", &[("log", "one\ntwo\nthree")]);
        pod.log_directory = folder.path().display().to_string();
        let sandbox = runtime.run_pod_sandbox(&pod, "").await.unwrap();
        let mut config = container("main", 0);
        config.log_path = "main.log".into();
        let id = runtime.create_container(&sandbox, &config, &pod).await.unwrap();
        runtime.start_container(&id).await.unwrap();
        let text = std::fs::read_to_string(folder.path().join("main.log")).ok();
        assert_eq!(text.map(|text| text.lines().count()), expected);
    }
}
