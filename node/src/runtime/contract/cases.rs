//! The cases, one sentence each.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::subject::{
    FAILS, IMAGE, POLITE, SLOW_COMMANDS, STUBBORN, SUCCEEDS, Subject, TALKS, eventually, image,
};
use crate::cri::v1;
use crate::runtime::Error;

const GRACE: Duration = Duration::from_secs(20);

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

fn ids<T>(items: Vec<T>, id: fn(T) -> String) -> BTreeSet<String> {
    items.into_iter().map(id).collect()
}

pub(super) async fn the_runtime_says_who_and_how_it_is(subject: &Subject) {
    let version = subject.runtime.version("0.1.0").await.unwrap();
    assert_eq!((&*version.version, &*version.runtime_api_version), ("0.1.0", "v1"));
    let status = subject.runtime.status().await.unwrap().status.unwrap();
    for kind in ["RuntimeReady", "NetworkReady"] {
        assert!(
            status.conditions.iter().any(|condition| condition.r#type == kind && condition.status),
            "{kind}"
        );
    }
    let usage = subject.images.image_fs_info().await.unwrap();
    assert!(!usage.image_filesystems.is_empty());
}

pub(super) async fn a_sandbox_comes_up_with_an_address_and_what_it_was_given(subject: &Subject) {
    let id = subject.sandbox("a").await;
    let (status, config) = (subject.sandbox_status(&id).await, subject.sandbox_config("a"));
    assert_eq!(status.id, id);
    assert_eq!(status.state(), v1::PodSandboxState::SandboxReady);
    assert_eq!(status.metadata, config.metadata);
    assert_eq!(status.labels, config.labels);
    assert_eq!(status.annotations, config.annotations);
    status.network.unwrap().ip.parse::<std::net::IpAddr>().unwrap();
    let options = status.linux.unwrap().namespaces.unwrap().options.unwrap();
    assert_eq!(options.pid(), v1::NamespaceMode::Container);

    let listed = subject.runtime.list_pod_sandbox(&subject.own_sandboxes()).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].id, listed[0].created_at), (&id, status.created_at));
    assert_eq!((&listed[0].metadata, &listed[0].labels), (&config.metadata, &config.labels));
}

pub(super) async fn sandboxes_have_addresses_of_their_own(subject: &Subject) {
    let mut addresses = BTreeSet::new();
    for name in ["a", "b"] {
        let id = subject.sandbox(name).await;
        addresses.insert(subject.sandbox_status(&id).await.network.unwrap().ip);
    }
    assert_eq!(addresses.len(), 2);
}

pub(super) async fn a_sandbox_on_the_nodes_network_has_no_address(subject: &Subject) {
    let mut config = subject.sandbox_config("a");
    let security = config.linux.as_mut().unwrap().security_context.as_mut().unwrap();
    security.namespace_options.as_mut().unwrap().network = v1::NamespaceMode::Node.into();
    config.hostname.clear();
    let id = subject.runtime.run_pod_sandbox(&config, "").await.unwrap();
    assert_eq!(subject.sandbox_status(&id).await.network.unwrap_or_default().ip, "");
}

pub(super) async fn a_sandbox_name_serves_once_at_a_time(subject: &Subject) {
    let mut config = subject.sandbox_config("a");
    let first = subject.sandbox("a").await;
    let error = subject.runtime.run_pod_sandbox(&config, "").await.unwrap_err();
    assert!(error.message().contains("reserved"), "{error}");

    config.metadata.as_mut().unwrap().attempt = 1;
    let second = subject.runtime.run_pod_sandbox(&config, "").await.unwrap();
    assert_ne!(first, second);
    subject.runtime.remove_pod_sandbox(&first).await.unwrap();
    assert_ne!(subject.sandbox("a").await, first);
}

pub(super) async fn an_unknown_runtime_handler_is_refused(subject: &Subject) {
    let config = subject.sandbox_config("a");
    let error = subject.runtime.run_pod_sandbox(&config, "nobody-has-this").await.unwrap_err();
    assert!(error.message().contains("nobody-has-this"), "{error}");
}

pub(super) async fn a_stopped_sandbox_is_not_ready_and_its_containers_are_dead(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let container = subject.started(&sandbox, "main", STUBBORN).await;
    subject.runtime.stop_pod_sandbox(&sandbox).await.unwrap();

    let status = subject.sandbox_status(&sandbox).await;
    assert_eq!(status.state(), v1::PodSandboxState::SandboxNotready);
    assert_eq!(status.network.unwrap_or_default().ip, "");
    assert_eq!(subject.exited(&container).await.exit_code, 137);
    subject.runtime.stop_pod_sandbox(&sandbox).await.unwrap();

    let config = subject.container_config("late", POLITE);
    let late = subject.runtime.create_container(&sandbox, &config, &subject.sandbox_config("a")).await;
    late.unwrap_err();
}

pub(super) async fn a_removed_sandbox_is_gone_with_its_containers(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let container = subject.started(&sandbox, "main", SUCCEEDS).await;
    subject.exited(&container).await;
    subject.runtime.stop_pod_sandbox(&sandbox).await.unwrap();
    subject.runtime.remove_pod_sandbox(&sandbox).await.unwrap();
    assert!(subject.runtime.pod_sandbox_status(&sandbox).await.unwrap_err().is_not_found());
    assert!(subject.runtime.container_status(&container).await.unwrap_err().is_not_found());
    subject.runtime.remove_pod_sandbox(&sandbox).await.unwrap();
}

pub(super) async fn a_container_goes_through_created_running_exited(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.created(&sandbox, "main", POLITE).await;
    let config = subject.container_config("main", POLITE);
    let status = subject.status(&id).await;
    assert_eq!(status.state(), v1::ContainerState::ContainerCreated);
    assert_eq!((status.started_at, status.finished_at), (0, 0));
    assert_eq!(status.metadata, config.metadata);
    assert_eq!(status.labels, config.labels);
    assert_eq!(status.annotations, config.annotations);
    assert_eq!(status.log_path, subject.logs.path().join("main.log").display().to_string());
    assert_eq!(status.image.unwrap().image, IMAGE);

    subject.runtime.start_container(&id).await.unwrap();
    let status = subject.status(&id).await;
    assert_eq!(status.state(), v1::ContainerState::ContainerRunning);
    assert!(status.started_at >= status.created_at && status.created_at > 0);
    assert_eq!(status.finished_at, 0);

    subject.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    let status = subject.exited(&id).await;
    assert!(status.finished_at >= status.started_at && status.started_at > 0);

    subject.runtime.remove_container(&id).await.unwrap();
    assert!(subject.runtime.container_status(&id).await.unwrap_err().is_not_found());
}

pub(super) async fn a_container_starts_once(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", SUCCEEDS).await;
    subject.exited(&id).await;
    subject.runtime.start_container(&id).await.unwrap_err();
    assert_eq!(subject.status(&id).await.state(), v1::ContainerState::ContainerExited);
}

pub(super) async fn a_container_name_serves_once_at_a_time(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let pod = subject.sandbox_config("a");
    let mut config = subject.container_config("main", SUCCEEDS);
    let first = subject.runtime.create_container(&sandbox, &config, &pod).await.unwrap();
    let error = subject.runtime.create_container(&sandbox, &config, &pod).await.unwrap_err();
    assert!(error.message().contains("reserved"), "{error}");
    config.metadata.as_mut().unwrap().attempt = 1;
    subject.runtime.create_container(&sandbox, &config, &pod).await.unwrap();
    subject.runtime.remove_container(&first).await.unwrap();
    subject.created(&sandbox, "main", SUCCEEDS).await;
}

pub(super) async fn exit_codes_are_kept_with_their_reasons(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    for (name, program, code, reason) in [("good", SUCCEEDS, 0, "Completed"), ("bad", FAILS, 3, "Error")] {
        let id = subject.started(&sandbox, name, program).await;
        let status = subject.exited(&id).await;
        assert_eq!((status.exit_code, &*status.reason), (code, reason));
    }
}

pub(super) async fn a_container_may_end_by_itself_on_the_signal(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.up(&sandbox, "main", POLITE).await;
    let began = Instant::now();
    subject.runtime.stop_container(&id, GRACE).await.unwrap();
    assert!(began.elapsed() < GRACE);
    assert_eq!(subject.exited(&id).await.exit_code, 7);
}

pub(super) async fn a_container_that_ignores_the_signal_is_killed_after_its_grace(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.up(&sandbox, "main", STUBBORN).await;
    let began = Instant::now();
    subject.runtime.stop_container(&id, Duration::from_secs(1)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1) && began.elapsed() < GRACE, "{:?}", began.elapsed());
    assert_eq!(subject.exited(&id).await.exit_code, 137);
}

pub(super) async fn without_grace_a_container_is_killed_at_once(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.up(&sandbox, "main", POLITE).await;
    subject.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    assert_eq!(subject.exited(&id).await.exit_code, 137);
}

pub(super) async fn stopping_and_removing_may_be_repeated(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.created(&sandbox, "main", SUCCEEDS).await;
    subject.runtime.start_container(&id).await.unwrap();
    subject.exited(&id).await;
    subject.runtime.stop_container(&id, GRACE).await.unwrap();
    assert_eq!(subject.status(&id).await.exit_code, 0);
    subject.runtime.remove_container(&id).await.unwrap();
    subject.runtime.remove_container(&id).await.unwrap();
}

pub(super) async fn a_running_container_is_removed_by_force(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", STUBBORN).await;
    subject.runtime.remove_container(&id).await.unwrap();
    assert_eq!(subject.runtime.list_containers(&subject.own_containers()).await.unwrap(), []);
}

pub(super) async fn a_command_gives_output_and_exit_code(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", POLITE).await;
    let command = words(&["sh", "-c", "echo out; echo err >&2; exit 4"]);
    let answer = subject.runtime.exec_sync(&id, &command, GRACE).await.unwrap();
    assert_eq!((&*answer.stdout, &*answer.stderr, answer.exit_code), (&b"out\n"[..], &b"err\n"[..], 4));
}

pub(super) async fn a_command_that_takes_too_long_is_out_of_time(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", SLOW_COMMANDS).await;
    let error =
        subject.runtime.exec_sync(&id, &words(&["sleep", "30"]), Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_deadline_exceeded(), "{error}");
    assert_eq!(subject.status(&id).await.state(), v1::ContainerState::ContainerRunning);
}

pub(super) async fn commands_need_a_running_container(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", SUCCEEDS).await;
    subject.exited(&id).await;
    let error = subject.runtime.exec_sync(&id, &words(&["true"]), GRACE).await.unwrap_err();
    assert!(error.message().contains("CONTAINER_EXITED"), "{error}");
}

pub(super) async fn containers_are_listed_by_filter(subject: &Subject) {
    let (a, b) = (subject.sandbox("a").await, subject.sandbox("b").await);
    let running = subject.started(&a, "running", POLITE).await;
    let created = subject.created(&a, "created", POLITE).await;
    let other = subject.started(&b, "running", SUCCEEDS).await;
    subject.exited(&other).await;

    let state = |state: v1::ContainerState| Some(v1::ContainerStateValue { state: state.into() });
    let labelled = |value: &str| {
        let mut filter = subject.own_containers();
        filter.label_selector.insert("container".into(), value.into());
        filter
    };
    let own = || subject.own_containers();
    let table: Vec<(v1::ContainerFilter, Vec<&String>)> = vec![
        (own(), vec![&running, &created, &other]),
        (v1::ContainerFilter { id: created.clone(), ..own() }, vec![&created]),
        (v1::ContainerFilter { pod_sandbox_id: a.clone(), ..own() }, vec![&running, &created]),
        (v1::ContainerFilter { state: state(v1::ContainerState::ContainerRunning), ..own() }, vec![&running]),
        (v1::ContainerFilter { state: state(v1::ContainerState::ContainerCreated), ..own() }, vec![&created]),
        (v1::ContainerFilter { state: state(v1::ContainerState::ContainerExited), ..own() }, vec![&other]),
        (labelled("running"), vec![&running, &other]),
        (v1::ContainerFilter { pod_sandbox_id: b.clone(), ..labelled("running") }, vec![&other]),
        (v1::ContainerFilter { pod_sandbox_id: b.clone(), ..labelled("created") }, vec![]),
        (labelled("nobody"), vec![]),
    ];
    for (filter, expected) in table {
        let found = subject.runtime.list_containers(&filter).await.unwrap();
        assert_eq!(ids(found, |c| c.id), expected.into_iter().cloned().collect(), "{filter:?}");
    }
    let listed = subject.runtime.list_containers(&labelled("created")).await.unwrap().remove(0);
    assert_eq!(listed.metadata, subject.container_config("created", POLITE).metadata);
    assert_eq!(listed.pod_sandbox_id, a);
    assert!(!listed.image_ref.is_empty());
}

pub(super) async fn sandboxes_are_listed_by_filter(subject: &Subject) {
    let (ready, stopped) = (subject.sandbox("ready").await, subject.sandbox("stopped").await);
    subject.runtime.stop_pod_sandbox(&stopped).await.unwrap();
    let own = || subject.own_sandboxes();
    let state = |state: v1::PodSandboxState| Some(v1::PodSandboxStateValue { state: state.into() });
    let mut labelled = own();
    labelled.label_selector.insert("pod".into(), "stopped".into());
    let table: Vec<(v1::PodSandboxFilter, Vec<&String>)> = vec![
        (own(), vec![&ready, &stopped]),
        (v1::PodSandboxFilter { id: ready.clone(), ..own() }, vec![&ready]),
        (v1::PodSandboxFilter { state: state(v1::PodSandboxState::SandboxReady), ..own() }, vec![&ready]),
        (
            v1::PodSandboxFilter { state: state(v1::PodSandboxState::SandboxNotready), ..own() },
            vec![&stopped],
        ),
        (labelled, vec![&stopped]),
    ];
    for (filter, expected) in table {
        let found = subject.runtime.list_pod_sandbox(&filter).await.unwrap();
        assert_eq!(ids(found, |s| s.id), expected.into_iter().cloned().collect(), "{filter:?}");
    }
}

pub(super) async fn what_is_not_there_is_not_found(subject: &Subject) {
    let none = "steersman-contract-has-none";
    let runtime = &subject.runtime;
    let errors: [(&str, Option<Error>); 4] = [
        ("sandbox status", runtime.pod_sandbox_status(none).await.err()),
        ("container status", runtime.container_status(none).await.err()),
        ("start", runtime.start_container(none).await.err()),
        ("exec", runtime.exec_sync(none, &words(&["true"]), GRACE).await.err()),
    ];
    for (what, error) in errors {
        assert!(error.as_ref().is_some_and(Error::is_not_found), "{what}: {error:?}");
    }
    runtime.remove_container(none).await.unwrap();
    runtime.remove_pod_sandbox(none).await.unwrap();
}

pub(super) async fn images_at_hand_are_found_by_name_and_id(subject: &Subject) {
    let found = subject.images.image_status(&image(IMAGE)).await.unwrap().image.unwrap();
    assert!(found.repo_tags.contains(&IMAGE.to_owned()), "{found:?}");
    let by_id = subject.images.image_status(&image(&found.id)).await.unwrap().image.unwrap();
    assert_eq!(by_id.id, found.id);
    for filter in [v1::ImageFilter { image: Some(image(IMAGE)) }, v1::ImageFilter::default()] {
        let listed = subject.images.list_images(&filter).await.unwrap();
        assert!(listed.iter().any(|image| image.id == found.id), "{filter:?}");
    }

    let absent = subject.images.image_status(&image("docker.io/library/nobody-has-this:1")).await.unwrap();
    assert_eq!(absent.image, None);
}

pub(super) async fn a_container_needs_its_image_and_its_sandbox(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let pod = subject.sandbox_config("a");
    let mut config = subject.container_config("main", POLITE);
    subject.runtime.create_container("steersman-contract-has-none", &config, &pod).await.unwrap_err();
    config.image = Some(image("docker.io/library/nobody-has-this:1"));
    subject.runtime.create_container(&sandbox, &config, &pod).await.unwrap_err();
    assert_eq!(subject.runtime.list_containers(&subject.own_containers()).await.unwrap(), []);
}

pub(super) async fn output_goes_to_the_log_and_follows_its_path(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", TALKS).await;
    let (path, moved) = (subject.logs.path().join("main.log"), subject.logs.path().join("main.log.1"));
    let lines = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
    eventually("lines are logged", async || lines(&path).lines().count() > 1).await;
    for line in lines(&path).lines() {
        let (stamp, rest) = line.split_once(' ').unwrap();
        stamp.parse::<jiff::Timestamp>().unwrap();
        assert_eq!(rest, "stdout F hello");
    }

    fs::rename(&path, &moved).unwrap();
    subject.runtime.reopen_container_log(&id).await.unwrap();
    eventually("lines go to the new file", async || lines(&path).contains("hello")).await;
    subject.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    subject.exited(&id).await;
    subject.runtime.reopen_container_log(&id).await.unwrap_err();
}

pub(super) async fn resources_may_change_while_it_runs(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", POLITE).await;
    let linux = v1::LinuxContainerResources { cpu_shares: 512, ..Default::default() };
    let resources = v1::ContainerResources { linux: Some(linux), windows: None };
    subject.runtime.update_container_resources(&id, &resources).await.unwrap();
    // Runtimes of before 2023 do not tell.
    if let Some(told) = subject.status(&id).await.resources {
        assert_eq!(told.linux.unwrap().cpu_shares, 512);
    }
}

pub(super) async fn running_containers_have_statistics(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let id = subject.started(&sandbox, "main", POLITE).await;
    let stats = subject.runtime.container_stats(&id).await.unwrap();
    let attributes = stats.attributes.unwrap();
    assert_eq!((&attributes.id, attributes.metadata.unwrap().name), (&id, "main".to_owned()));
    let filter = v1::ContainerStatsFilter { pod_sandbox_id: sandbox.clone(), ..Default::default() };
    let listed = subject.runtime.list_container_stats(&filter).await.unwrap();
    assert_eq!(ids(listed, |stats| stats.attributes.unwrap().id), BTreeSet::from([id]));
    // A whole pod's come from its cgroup, which is the node agent's to make.
}

pub(super) async fn events_tell_of_a_container_where_the_runtime_has_them(subject: &Subject) {
    let sandbox = subject.sandbox("a").await;
    let mut events = subject.runtime.get_container_events().await.unwrap();
    let live = async {
        let id = subject.started(&sandbox, "main", SUCCEEDS).await;
        subject.exited(&id).await;
        id
    };
    let (first, id) = tokio::join!(events.next(), live);
    let mut told = Vec::new();
    let mut event = first.unwrap();
    loop {
        match event {
            // containerd has them since 1.7.
            Err(error) => return assert!(error.is_unimplemented(), "{error}"),
            Ok(event) if event.container_id == id => told.push(event.container_event_type()),
            Ok(_) => {}
        }
        if told.last() == Some(&v1::ContainerEventType::ContainerStoppedEvent) {
            break;
        }
        event = events.next().await.unwrap();
    }
    assert_eq!(
        told,
        [
            v1::ContainerEventType::ContainerCreatedEvent,
            v1::ContainerEventType::ContainerStartedEvent,
            v1::ContainerEventType::ContainerStoppedEvent
        ]
    );
}
