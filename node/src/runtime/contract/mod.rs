//! What holds of every runtime: written once against the two traits, and run on the simulated runtime always, on a
//! real one where `CONTAINER_RUNTIME_ENDPOINT` names its socket.

mod cases;
mod subject;

use self::subject::Subject;

/// Two tests for each case.
macro_rules! contract {
    ($($case:ident),+ $(,)?) => {$(
        mod $case {
            use super::{Subject, cases};

            #[tokio::test(start_paused = true)]
            async fn on_the_simulated_runtime() {
                Subject::simulated().run(cases::$case).await;
            }

            #[tokio::test]
            async fn on_a_real_runtime() {
                match Subject::real() {
                    Some(subject) => subject.run(cases::$case).await,
                    None => eprintln!("skipped: CONTAINER_RUNTIME_ENDPOINT is not set"),
                }
            }
        }
    )+};
}

contract! {
    the_runtime_says_who_and_how_it_is,
    a_sandbox_comes_up_with_an_address_and_what_it_was_given,
    sandboxes_have_addresses_of_their_own,
    a_sandbox_on_the_nodes_network_has_no_address,
    a_sandbox_name_serves_once_at_a_time,
    an_unknown_runtime_handler_is_refused,
    a_stopped_sandbox_is_not_ready_and_its_containers_are_dead,
    a_removed_sandbox_is_gone_with_its_containers,
    a_container_goes_through_created_running_exited,
    a_container_starts_once,
    a_container_name_serves_once_at_a_time,
    exit_codes_are_kept_with_their_reasons,
    a_container_may_end_by_itself_on_the_signal,
    a_container_that_ignores_the_signal_is_killed_after_its_grace,
    without_grace_a_container_is_killed_at_once,
    stopping_and_removing_may_be_repeated,
    a_running_container_is_removed_by_force,
    a_command_gives_output_and_exit_code,
    a_command_that_takes_too_long_is_out_of_time,
    commands_need_a_running_container,
    containers_are_listed_by_filter,
    sandboxes_are_listed_by_filter,
    what_is_not_there_is_not_found,
    images_at_hand_are_found_by_name_and_id,
    a_container_needs_its_image_and_its_sandbox,
    output_goes_to_the_log_and_follows_its_path,
    resources_may_change_while_it_runs,
    running_containers_have_statistics,
    events_tell_of_a_container_where_the_runtime_has_them,
}
