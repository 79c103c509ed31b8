use std::time::Duration;

use jiff::Timestamp;

use super::*;

/// Timers stand still while a machine sleeps, and run on when its clock is set back.
#[tokio::test(start_paused = true)]
async fn the_time_of_day_is_the_machines_whatever_timers_say() {
    let server = ApiServer::new(Settings::default(), Outbound::new(None, None).unwrap());
    let before = Timestamp::now();
    let told = server.clock().now();
    assert!(told >= before, "timers stood still, and so did the time of day: {told} is before {before}");
    tokio::time::advance(Duration::from_secs(3600)).await;
    let told = server.clock().now();
    let after = Timestamp::now();
    assert!(told <= after, "timers ran ahead, and so did the time of day: {told} is after {after}");
}
