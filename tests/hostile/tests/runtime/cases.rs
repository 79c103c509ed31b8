//! Answers that are wrong in a way that one thinks of, each made of good ones.

use std::collections::BTreeMap;

use steersman_node::cri::v1;

use crate::answers::Answers;

/// A name for people, and what is wrong.
pub(crate) type Case = (&'static str, fn(&mut Answers));

const EXITED: i32 = v1::ContainerState::ContainerExited as i32;
const UNKNOWN: i32 = v1::ContainerState::ContainerUnknown as i32;

pub(crate) const CASES: &[Case] = &[
    ("there is nothing at all", |answers| *answers = Answers { long: true, ..Answers::default() }),
    ("an agent starts and there is nothing", |answers| {
        *answers = Answers { restart: true, version: answers.version.clone(), ..Answers::default() };
    }),
    ("an agent starts and the answers are as before", |answers| answers.restart = true),
    ("containers have no statuses", |answers| answers.container_statuses.clear()),
    ("statuses are empty", |answers| {
        answers.container_statuses.iter_mut().for_each(|answer| answer.status = None);
        answers.sandbox_statuses.iter_mut().for_each(|answer| answer.status = None);
    }),
    ("states are numbers that mean nothing", |answers| {
        statuses(answers).for_each(|status| (status.state, status.stop_signal) = (99, 9999));
        answers.containers.iter_mut().for_each(|container| container.state = -7);
        answers.sandboxes.iter_mut().for_each(|sandbox| sandbox.state = 7);
    }),
    ("each container has restarted as often as can be, and has ended", |answers| {
        statuses(answers).for_each(|status| {
            status.state = EXITED;
            annotate(&mut status.annotations, "restartCount", "4294967295");
        });
    }),
    ("each container has restarted as often as can be, and its state is unknown", |answers| {
        statuses(answers).for_each(|status| annotate(&mut status.annotations, "restartCount", "2147483647"));
        let app = |status: &&mut v1::ContainerStatus| status.labels.values().any(|label| label == "app");
        statuses(answers).filter(app).for_each(|status| status.state = UNKNOWN);
    }),
    ("numbers of attempts are as high as can be", |answers| {
        for answer in &mut answers.sandbox_statuses {
            let status = answer.status.get_or_insert_default();
            status.metadata.get_or_insert_default().attempt = u32::MAX;
            status.state = v1::PodSandboxState::SandboxNotready.into();
        }
    }),
    ("all happened long ago", |answers| stamp(answers, i64::MIN)),
    ("all happens in a far future", |answers| stamp(answers, i64::MAX)),
    ("logs of ended containers are elsewhere", |answers| ended_before(answers, "$root/precious")),
    ("logs of ended containers are elsewhere, by way of the folder of logs", |answers| {
        ended_before(answers, "$root/logs/../precious");
    }),
    ("the log of an ended container is the folder of logs", |answers| ended_before(answers, "$root/logs")),
    ("large logs are elsewhere", |answers| {
        statuses(answers).for_each(|status| status.log_path = "$root/large".into());
    }),
    ("links to logs are elsewhere", |answers| {
        ended_before(answers, "");
        for status in statuses(answers) {
            label(&mut status.labels, "pod.name", "../precious");
            label(&mut status.labels, "container.name", "app");
            status.id.replace_range(.., if status.id.starts_with("before-") { "id" } else { "other" });
        }
        for container in &mut answers.containers {
            container.id.replace_range(.., if container.id.starts_with("before-") { "id" } else { "other" });
        }
    }),
    ("what is created has the id of a path", |answers| {
        answers.created = "/../../precious".into();
        answers.containers.clear();
    }),
    ("a pod's uid is a path", |answers| {
        answers.long = true;
        let path = "../../precious_folder";
        answers.sandboxes.iter_mut().for_each(|sandbox| label(&mut sandbox.labels, "pod.uid", path));
        answers.containers.iter_mut().for_each(|container| label(&mut container.labels, "pod.uid", path));
    }),
    ("all have one id", |answers| {
        answers.containers.iter_mut().for_each(|container| container.id = "one".into());
        answers.sandboxes.iter_mut().for_each(|sandbox| sandbox.id = "one".into());
        statuses(answers).for_each(|status| status.id = "one".into());
    }),
    ("all have an empty id", |answers| {
        answers.containers.iter_mut().for_each(|container| container.id.clear());
        answers.sandboxes.iter_mut().for_each(|sandbox| sandbox.id.clear());
    }),
    ("all are of one pod", |answers| {
        let uid = "$uid-of-web";
        answers.sandboxes.iter_mut().for_each(|sandbox| label(&mut sandbox.labels, "pod.uid", uid));
        answers.containers.iter_mut().for_each(|container| label(&mut container.labels, "pod.uid", uid));
        answers.filters = false;
    }),
    ("nothing has labels", |answers| {
        answers.sandboxes.iter_mut().for_each(|sandbox| sandbox.labels.clear());
        answers.containers.iter_mut().for_each(|container| container.labels.clear());
        statuses(answers).for_each(|status| status.labels.clear());
    }),
    ("annotations say what they must not", |answers| {
        for status in statuses(answers) {
            annotate(&mut status.annotations, "hash", "ffffffffffffffffffff");
            annotate(&mut status.annotations, "preStopHandler", &"[".repeat(10_000));
            annotate(&mut status.annotations, "ports", r#"[{"containerPort":99999999999}]"#);
        }
    }),
    ("grace is endless", |answers| grace(answers, "9223372036854775807")),
    ("grace is less than none", |answers| grace(answers, "-9223372036854775808")),
    ("resources are as large as can be", |answers| {
        for status in statuses(answers) {
            let linux = v1::LinuxContainerResources {
                cpu_period: 1,
                cpu_quota: i64::MAX,
                cpu_shares: i64::MAX,
                memory_limit_in_bytes: i64::MAX,
                ..Default::default()
            };
            status.resources = Some(v1::ContainerResources { linux: Some(linux), windows: None });
        }
    }),
    ("a pod has many containers", |answers| {
        let some = answers.containers[0].clone();
        let one = |n: u32| v1::Container { id: n.to_string(), ..some.clone() };
        answers.containers.extend((0..50).map(one));
    }),
    ("there are many pods that nobody knows", |answers| {
        let some = answers.sandboxes[0].clone();
        answers.sandboxes.extend((0..100).map(|n| {
            let mut sandbox =
                v1::PodSandbox { id: n.to_string(), annotations: BTreeMap::new(), ..some.clone() };
            label(&mut sandbox.labels, "pod.uid", &n.to_string());
            sandbox
        }));
    }),
    ("addresses are none", |answers| {
        for answer in &mut answers.sandbox_statuses {
            let ip = "fe80::1%eth0".to_owned();
            let additional_ips = vec![v1::PodIp { ip: ip.clone() }; 100];
            let network = v1::PodSandboxNetworkStatus { ip, additional_ips };
            answer.status.get_or_insert_default().network = Some(network);
        }
    }),
    ("messages are long", |answers| {
        for status in statuses(answers) {
            (status.state, status.message) = (EXITED, "é".repeat(5000));
        }
    }),
];

fn statuses(answers: &mut Answers) -> impl Iterator<Item = &mut v1::ContainerStatus> {
    answers.container_statuses.iter_mut().filter_map(|answer| answer.status.as_mut())
}

fn label(labels: &mut BTreeMap<String, String>, name: &str, value: &str) {
    labels.insert(format!("io.kubernetes.{name}"), value.into());
}

fn annotate(annotations: &mut BTreeMap<String, String>, name: &str, value: &str) {
    label(annotations, &format!("container.{name}"), value);
}

/// Each container has one before it, which has ended, with this log.
fn ended_before(answers: &mut Answers, log: &str) {
    answers.long = true;
    let before = |id: &str| format!("before-{id}");
    let containers = answers.containers.clone().into_iter().map(|mut container| {
        (container.id, container.state, container.created_at) = (before(&container.id), EXITED, 1);
        container
    });
    let ended = answers.container_statuses.clone().into_iter().map(|mut answer| {
        let status = answer.status.get_or_insert_default();
        (status.id, status.state, status.created_at) = (before(&status.id), EXITED, 1);
        status.log_path = log.to_owned();
        answer
    });
    let (containers, ended): (Vec<_>, Vec<_>) = (containers.collect(), ended.collect());
    answers.containers.extend(containers);
    answers.container_statuses.extend(ended);
}

fn grace(answers: &mut Answers, seconds: &str) {
    for status in statuses(answers) {
        label(&mut status.annotations, "pod.deletionGracePeriod", seconds);
        label(&mut status.annotations, "pod.terminationGracePeriod", seconds);
    }
}

fn stamp(answers: &mut Answers, at: i64) {
    answers.sandboxes.iter_mut().for_each(|sandbox| sandbox.created_at = at);
    answers.containers.iter_mut().for_each(|container| container.created_at = at);
    for status in statuses(answers) {
        (status.created_at, status.started_at, status.finished_at) = (at, at, at);
        status.state = EXITED;
    }
    for answer in &mut answers.sandbox_statuses {
        answer.timestamp = at;
        answer.status.get_or_insert_default().created_at = at;
    }
}
