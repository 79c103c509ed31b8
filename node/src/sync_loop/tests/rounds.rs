//! How the loop goes round.

use super::*;

#[tokio::test(start_paused = true)]
async fn it_rests_while_the_runtime_is_unwell_and_takes_up_what_came_meanwhile() {
    let rig = Rig::unwell();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(rig.done().await, [""; 0]);
    rig.say_ready();
    let ready = Instant::now();
    while rig.world.said.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(ready.elapsed() <= Duration::from_secs(5), "{:?}", ready.elapsed());
    assert_eq!(rig.done().await[..2], ["admit a beside []", "sync a"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn its_first_rest_is_short() {
    let rig = Rig::unwell();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.settle().await;
    rig.say_ready();
    tokio::time::sleep(Duration::from_millis(101)).await;
    assert_eq!(rig.done().await, ["admit a beside []", "sync a"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_node_that_hangs_holds_up_no_pod() {
    let rig = Rig::new();
    *rig.world.asleep.lock() = true;
    rig.world.stuck.lock().insert("stuck".into());
    rig.tell(PodOperation::Add, &[pod("stuck"), pod("a")]).await;
    rig.done_after(6).await;
    assert_eq!(*rig.world.looks.lock(), 1, "one at a time");
    rig.pleg_says("a", EventKind::PodSync).await;
    rig.tell(PodOperation::Add, &[pod("b")]).await;
    let mut done = rig.done().await;
    done.sort();
    assert_eq!(done, ["admit b beside [a stuck]", "sync a", "sync b"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_synced_when_they_are_due() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    assert_eq!(rig.done_after(59).await, [""; 0]);
    assert_eq!(rig.done_after(33).await, ["sync a"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_looked_at_is_looked_at_again() {
    let rig = Rig::new();
    *rig.world.on_node.lock() = Some(Err("no cgroups".to_owned()));
    assert_eq!(rig.done_after(3).await, [""; 0]);
    let running = vec![runtime_pod("old")];
    *rig.world.on_node.lock() = Some(Ok(OnNode { running, ..OnNode::default() }));
    assert_eq!(rig.done_after(2).await, ["terminate-runtime old"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_settles_once_the_pods_of_all_sources_are_admitted_or_some_time_has_passed() {
    for all_are_heard in [true, false] {
        let rig = Rig::unwell();
        let silent = rig.config.source(Source::File);
        tokio::time::sleep(Duration::from_secs(60)).await;
        rig.say_ready();
        rig.done_after(6).await;
        rig.tell(PodOperation::Add, &[pod("a")]).await;
        rig.done().await;
        assert!(!*rig.world.settled.lock(), "a source may still tell of pods");
        if all_are_heard {
            silent.set(Vec::new()).await.unwrap();
            let update = PodUpdate { pods: Vec::new(), op: PodOperation::Add, source: Source::File };
            rig.updates.send(update).await.unwrap();
            rig.done().await;
        } else {
            rig.done_after(3).await;
            assert!(!*rig.world.settled.lock(), "the time counts from when the runtime was well");
            rig.done_after(8).await;
        }
        assert!(*rig.world.settled.lock());
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_sources_can_say_nothing_any_more() {
    let Rig { updates, mut tasks, stop, .. } = Rig::new();
    drop(updates);
    tasks.join_next().await.expect("the loop must end").unwrap();
    stop.cancel();
    tasks.join_next().await.expect("so must the deletor").unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_tells_when_it_does_not_go_round() {
    let rig = Rig::unwell();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.health.check(), Ok(()), "it has not begun");
    rig.say_ready();
    rig.done_after(6).await;
    assert_eq!(rig.health.check(), Ok(()));
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(
        rig.health.check().map_err(|error| error.to_string()),
        Err("sync Loop took longer than expected".into())
    );
    rig.stop().await;
}
