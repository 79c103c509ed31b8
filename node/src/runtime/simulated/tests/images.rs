//! Images at hand, pulled, missing and failing.

use super::*;
use crate::runtime::{Code, Error};

async fn is_at_hand(runtime: &SimulatedRuntime, name: &str) -> bool {
    runtime.image_status(&image(name)).await.unwrap().image.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_pull_takes_its_time_and_puts_the_image_at_hand() {
    let runtime = SimulatedRuntime::new(SimulatedConfig { pull: Pull::After(seconds(3)), ..config() });
    assert!(is_at_hand(&runtime, "app").await && !is_at_hand(&runtime, "web:2").await);
    let began = Instant::now();
    let reference = runtime.pull_image(&image("web:2"), None, None).await.unwrap();
    assert_eq!(began.elapsed(), seconds(3));
    let found = runtime.image_status(&image("web:2")).await.unwrap().image.unwrap();
    assert_eq!((found.id, found.repo_tags), (reference, vec!["docker.io/library/web:2".to_owned()]));
    let filter = v1::ImageFilter { image: Some(image("web:2")) };
    assert_eq!(runtime.list_images(&filter).await.unwrap().len(), 1);
    assert_eq!(runtime.list_images(&Default::default()).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pull_given_up_leaves_nothing() {
    let runtime = SimulatedRuntime::new(SimulatedConfig { pull: Pull::After(seconds(3)), ..config() });
    let pull = tokio::time::timeout(seconds(1), runtime.pull_image(&image("web"), None, None)).await;
    assert!(pull.is_err());
    tokio::time::sleep(seconds(9)).await;
    assert!(!is_at_hand(&runtime, "web").await);
}

#[tokio::test(start_paused = true)]
async fn a_pull_fails_as_set_until_it_is_set_otherwise() {
    let runtime = runtime();
    runtime.set_pull("gone", Pull::missing());
    runtime.set_pull("flaky", Pull::fails(Code::Unknown, "no route to host"));
    assert!(runtime.pull_image(&image("gone"), None, None).await.unwrap_err().is_not_found());
    let error = runtime.pull_image(&image("flaky"), None, None).await.unwrap_err();
    assert_eq!(error, Error::Pull("no route to host".into()));
    runtime.set_pull("flaky", Pull::AT_ONCE);
    runtime.pull_image(&image("flaky"), None, None).await.unwrap();
    let nameless = runtime.pull_image(&image(""), None, None).await.unwrap_err();
    assert_eq!(nameless.code(), Code::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn a_removed_image_is_no_longer_at_hand_and_frees_its_room() {
    let runtime = runtime();
    let used = async || {
        let info = runtime.image_fs_info().await.unwrap();
        info.image_filesystems[0].used_bytes.unwrap().value
    };
    assert!(used().await > 0);
    runtime.remove_image(&image("app")).await.unwrap();
    runtime.remove_image(&image("app")).await.unwrap();
    assert!(!is_at_hand(&runtime, "app").await);
    assert_eq!(used().await, 0);
    runtime.add_image("app");
    assert!(is_at_hand(&runtime, "app").await);
}
