//! `steersman node` with a real API server and real containers.
//!
//! It runs as root where `KUBEBUILDER_ASSETS` names a folder with `etcd`, `kube-apiserver` and `kubectl`, and
//! `CONTAINER_RUNTIME_ENDPOINT` a runtime on this machine that holds the image `docker.io/library/busybox:1.36` and that no other
//! agent takes for its own; images are made of the busybox on the PATH; elsewhere it says that it does not. All tests share one cluster with one node, each in a
//! namespace of its own; pods are bound to the node by name. Those of [`TOGETHER`] run side by side, those of [`ALONE`] after
//! them one by one, since they stop the agent or need the node for themselves. Then every pod is deleted, and nothing may be left.
//!
//! An argument that is no flag chooses the tests whose names contain it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test may fail in this way, and say how it goes"
)]

mod admission;
mod agent;
mod cgroups;
mod claims;
mod containers;
mod crashes;
mod images;
mod kubectl;
mod left;
mod lifecycle;
mod network;
mod pods;
mod probes;
mod resources;
mod restarts;
mod security;
mod server;
mod static_pods;
mod sysctls;
mod volumes;
mod web;
mod world;

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use self::pods::Pods;
use self::world::World;

type Run = fn(Pods) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A test: its name, and what it does with a namespace of its own.
struct Test(&'static str, Run);

macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$(Test(concat!(stringify!($module), "::", stringify!($name)), |pods| Box::pin($module::$name(pods)))),*]
    };
}

/// Enough to keep two cores busy, and no more than a busy machine bears.
const AT_ONCE: usize = 6;

const TOGETHER: &[Test] = tests![
    volumes::config_maps_secrets_and_fields_are_variables_and_files,
    volumes::variables_come_from_a_file_that_an_earlier_container_wrote,
    volumes::a_token_is_projected_for_the_pods_service_account,
    volumes::a_sub_path_is_all_a_container_sees_of_a_volume,
    volumes::files_are_of_the_pods_group,
    volumes::a_host_path_is_of_the_machine,
    volumes::what_a_container_mounts_is_seen_by_the_next,
    volumes::a_volume_that_is_not_supported_is_named_in_an_event,
    claims::what_a_pod_writes_to_its_claim_is_there_for_the_next,
    claims::a_pod_waits_for_its_claim_to_be_bound,
    claims::a_local_volume_belongs_to_the_pods_group,
    claims::a_claim_to_be_read_only_takes_no_writes,
    claims::what_the_node_can_not_mount_is_told_by_an_event,
    security::a_container_runs_as_the_user_and_groups_it_is_told,
    security::capabilities_are_added_and_dropped,
    security::a_read_only_root_takes_no_writes,
    security::a_privileged_container_has_all_capabilities,
    security::a_container_that_must_not_be_root_is_refused,
    security::seccomp_sysctls_and_the_oom_score_are_as_the_spec_has_them,
    security::namespaces_are_the_hosts_or_shared_where_the_spec_says_so,
    resources::requests_and_limits_are_in_control_groups_by_class,
    resources::a_running_containers_resources_change_in_place,
    resources::a_pod_as_a_whole_has_and_tells_its_resources,
    network::a_pod_on_the_hosts_network_has_the_hosts_address,
    network::a_host_port_leads_to_the_container,
    network::host_aliases_and_names_are_in_the_hosts_file,
    network::the_clusters_dns_is_in_resolv_conf,
    network::a_pod_may_have_the_hosts_dns,
    lifecycle::hooks_run_after_the_start_and_before_the_end,
    lifecycle::a_termination_message_comes_from_its_file,
    lifecycle::a_termination_message_falls_back_to_the_log,
    lifecycle::a_readiness_probe_flips_the_condition,
    lifecycle::a_failing_liveness_probe_restarts_the_container,
    lifecycle::a_deleted_pod_is_gone_after_its_grace,
    probes::http_hooks_reach_the_pod,
    probes::a_sleep_hook_holds_up_the_end,
    probes::a_tcp_hook_can_not_be_run,
    probes::an_http_probe_flips_readiness,
    probes::a_readiness_gate_keeps_a_pod_from_being_ready,
    probes::a_tcp_probe_restarts_a_container_that_does_not_listen,
    containers::init_containers_run_one_by_one_and_sidecars_stay,
    containers::a_failed_pod_that_never_restarts_says_how_it_ended,
    containers::a_pod_that_restarts_on_failure_ends_in_success,
    containers::a_container_that_keeps_failing_waits_longer_and_longer,
    containers::a_containers_end_may_restart_all,
    containers::a_long_log_is_rotated,
    containers::commands_and_variables_are_as_the_spec_has_them,
    images::an_image_that_may_not_be_pulled_must_be_there,
    images::a_name_that_is_none_is_said_to_be_invalid,
    images::a_registry_out_of_reach_is_an_error_that_says_so,
    images::an_image_is_pulled_and_runs,
    images::a_private_image_is_for_those_who_have_its_secret,
    images::an_image_that_is_not_there_is_one_event_and_no_error_a_sync,
    admission::a_pod_too_big_for_the_node_is_refused,
    admission::a_pod_for_other_nodes_is_refused,
    admission::a_pod_that_does_not_bear_the_nodes_taint_is_refused,
    admission::a_host_port_is_given_once,
    static_pods::a_manifest_runs_and_is_mirrored_until_it_goes,
    static_pods::a_manifest_of_a_url_runs_and_is_mirrored_until_it_goes,
    kubectl::logs_are_followed_cut_and_of_the_container_before,
    kubectl::a_command_gets_input_and_gives_its_exit_code,
    kubectl::an_attached_terminal_talks_to_the_container,
    kubectl::a_forwarded_port_leads_into_the_pod,
    kubectl::files_are_copied_in_and_out,
    server::a_command_without_credentials_is_refused,
    server::the_node_is_ready_and_holds_its_lease,
    server::the_nodes_certificate_opens_what_its_pods_use_and_no_more,
    server::a_reserved_group_that_is_missing_ends_the_start,
    server::the_metrics_that_dashboards_rely_on_are_served,
];

const ALONE: &[Test] = tests![
    admission::a_critical_pod_starts_and_grows_in_the_place_of_others,
    restarts::containers_go_on_while_the_agent_is_away,
    restarts::a_result_that_came_meanwhile_is_told,
    claims::a_local_volume_stays_mounted_while_the_agent_is_away,
    crashes::ten_kills_leave_nothing_behind,
];

#[tokio::main]
async fn main() -> ExitCode {
    let world = match World::start().await {
        Ok(world) => Arc::new(world),
        Err(missing) => {
            println!("{missing}: not run");
            return ExitCode::SUCCESS;
        }
    };
    let chosen = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let chosen = |test: &&Test| test.0.contains(&chosen);
    let mut failed: Vec<_> = futures::stream::iter(TOGETHER.iter().filter(chosen))
        .map(|test| run(&world, test))
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    for test in ALONE.iter().filter(chosen) {
        failed.extend(run(&world, test).await);
    }
    let ending = Arc::clone(&world);
    let ended = caught(async move { left::nothing_is_left_when_all_pods_are_gone(&ending).await }).await;
    let ended = report("left::nothing_is_left_when_all_pods_are_gone", Duration::ZERO, ended);
    failed.extend(ended);
    world.end(!failed.is_empty()).await;
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Runs it to its end or panic.
async fn caught(test: impl Future<Output = ()> + Send + 'static) -> Result<(), JoinError> {
    let mut task = JoinSet::new();
    task.spawn(test);
    task.join_next().await.expect("it was just spawned")
}

/// Runs one, and tells its name if it failed.
async fn run(world: &Arc<World>, test: &Test) -> Option<&'static str> {
    let began = Instant::now();
    let pods = Pods::new(world).await;
    let ended = caught((test.1)(pods.clone())).await;
    if ended.is_err() {
        pods.show().await;
    }
    pods.delete_all().await;
    report(test.0, began.elapsed(), ended)
}

fn report(name: &'static str, took: Duration, ended: Result<(), JoinError>) -> Option<&'static str> {
    if ended.is_ok() {
        println!("test {name} ... ok");
        return None;
    }
    println!("test {name} ... FAILED after {} s", took.as_secs());
    Some(name)
}
