use std::time::Duration;

use futures::FutureExt;
use tokio::time::timeout;

use super::*;
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation};

/// What is said next, within the time that a test may take.
async fn next(reader: &mut LogReader) -> Option<String> {
    let piece = timeout(Duration::from_secs(10), reader.next()).await.expect("more must come").unwrap();
    piece.map(|piece| String::from_utf8(piece.into()).unwrap())
}

#[tokio::test]
async fn follow_shows_what_is_written_and_ends_with_the_container() {
    let container = Running::start().await;
    append(&container.log, &line(1, "stdout", "F", "one"));
    let mut reader = container.follow(LogOptions::default()).await;
    assert_eq!(next(&mut reader).await.unwrap(), "one\n");
    assert!(reader.next().now_or_never().is_none(), "nothing was written");
    append(&container.log, &line(2, "stdout", "F", "two"));
    assert_eq!(next(&mut reader).await.unwrap(), "two\n");
    append(&container.log, &line(3, "stdout", "F", "three"));
    container.end();
    assert_eq!(next(&mut reader).await.unwrap(), "three\n");
    assert_eq!(next(&mut reader).await, None);
}

#[tokio::test]
async fn follow_of_a_tail_goes_on_after_it() {
    let container = Running::start().await;
    append(&container.log, &(line(1, "stdout", "F", "one") + &line(2, "stdout", "F", "two")));
    let mut reader = container.follow(LogOptions { tail_lines: Some(1), ..Default::default() }).await;
    assert_eq!(next(&mut reader).await.unwrap(), "two\n");
    append(&container.log, &line(3, "stdout", "F", "three"));
    assert_eq!(next(&mut reader).await.unwrap(), "three\n");
}

#[tokio::test]
async fn follow_loses_nothing_when_the_log_is_rotated() {
    let container = Running::start().await;
    let mut reader = container.follow(LogOptions::default()).await;
    let rotated = container.log.with_extension("log.20261121-105606");
    append(&container.log, &line(1, "stdout", "F", "one"));
    assert_eq!(next(&mut reader).await.unwrap(), "one\n");
    std::fs::rename(&container.log, &rotated).unwrap();
    append(&rotated, &line(2, "stdout", "F", "two"));
    container.runtime.reopen_container_log(&container.id).await.unwrap();
    append(&container.log, &line(3, "stdout", "F", "three"));
    assert_eq!(next(&mut reader).await.unwrap(), "two\n");
    assert_eq!(next(&mut reader).await.unwrap(), "three\n");
    // Rotated once more, just before the end.
    std::fs::rename(&container.log, rotated).unwrap();
    append(&container.log, &line(4, "stdout", "F", "four"));
    container.end();
    assert_eq!(next(&mut reader).await.unwrap(), "four\n");
    assert_eq!(next(&mut reader).await, None);
}

#[tokio::test]
async fn follow_reads_a_log_again_that_was_emptied() {
    let container = Running::start().await;
    append(&container.log, &line(1, "stdout", "F", "a line that is long enough"));
    let mut reader = container.follow(LogOptions::default()).await;
    assert_eq!(next(&mut reader).await.unwrap(), "a line that is long enough\n");
    std::fs::write(&container.log, line(2, "stdout", "F", "two")).unwrap();
    assert_eq!(next(&mut reader).await.unwrap(), "two\n");
}

#[tokio::test]
async fn follow_outlasts_a_runtime_that_is_away_and_ends_when_the_container_is_forgotten() {
    let container = Running::start().await;
    let away = Fault::Fails { code: Code::Unavailable, message: "away".into() };
    container.runtime.inject(Operation::ContainerStatus, 1, away);
    let mut reader = container.follow(LogOptions::default()).await;
    assert!(reader.next().now_or_never().is_none());
    append(&container.log, &line(1, "stdout", "F", "one"));
    assert_eq!(next(&mut reader).await.unwrap(), "one\n");
    container.runtime.remove_container(&container.id).await.unwrap();
    assert_eq!(next(&mut reader).await, None);
}

#[tokio::test]
async fn follow_ends_at_its_limit_though_the_container_runs() {
    let container = Running::start().await;
    append(&container.log, &line(1, "stdout", "F", "one"));
    let mut reader = container.follow(LogOptions { limit_bytes: Some(3), ..Default::default() }).await;
    assert_eq!(next(&mut reader).await.unwrap(), "one");
    assert_eq!(next(&mut reader).await, None);
}
