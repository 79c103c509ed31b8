//! Images made sure of over the simulated runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::ByteString;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::advance;

use super::*;
use crate::events::testing::Kept;
use crate::events::{container_reference, testing::Said};
use crate::runtime::simulated::{Fault, Pull, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{Code, Operation, Result as RuntimeResult};

/// A runtime whose registry lets in those that it knows.
struct Registry {
    runtime: SimulatedRuntime,
    /// User names; empty for a registry that asks nobody.
    known: Vec<&'static str>,
    /// Who tried to pull; an empty name is nobody.
    tried: Mutex<Vec<String>>,
}

#[async_trait]
impl ImageService for Registry {
    async fn list_images(&self, filter: &v1::ImageFilter) -> RuntimeResult<Vec<v1::Image>> {
        self.runtime.list_images(filter).await
    }

    async fn image_status(&self, image: &v1::ImageSpec) -> RuntimeResult<v1::ImageStatusResponse> {
        self.runtime.image_status(image).await
    }

    async fn pull_image(
        &self,
        image: &v1::ImageSpec,
        auth: Option<&v1::AuthConfig>,
        sandbox_config: Option<&v1::PodSandboxConfig>,
    ) -> RuntimeResult<String> {
        let user = auth.map(|auth| auth.username.clone()).unwrap_or_default();
        self.tried.lock().push(user.clone());
        if self.known.is_empty() || self.known.contains(&user.as_str()) {
            return self.runtime.pull_image(image, auth, sandbox_config).await;
        }
        Err(runtime::Error::Pull(format!("401 for {user:?}")))
    }

    async fn remove_image(&self, image: &v1::ImageSpec) -> RuntimeResult<()> {
        self.runtime.remove_image(image).await
    }

    async fn image_fs_info(&self) -> RuntimeResult<v1::ImageFsInfoResponse> {
        self.runtime.image_fs_info().await
    }
}

struct World {
    registry: Arc<Registry>,
    runtime: SimulatedRuntime,
    events: Arc<Kept>,
    folder: TempDir,
    images: Arc<RuntimeImages>,
}

impl World {
    fn new(settings: Settings, known: &[&'static str]) -> Self {
        let runtime = SimulatedRuntime::new(SimulatedConfig {
            images: vec!["app:1".into()],
            pull: Pull::After(Duration::from_millis(1200)),
            ..Default::default()
        });
        let registry = Registry { runtime: runtime.clone(), known: known.to_vec(), tried: Mutex::default() };
        let (registry, events) = (Arc::new(registry), Arc::new(Kept::default()));
        let folder = tempfile::tempdir().unwrap();
        let root = RootDir::new(folder.path());
        let (service, sink) = (Arc::clone(&registry), Arc::clone(&events));
        let images = RuntimeImages::new(service, sink, &root, settings, Metrics::new()).unwrap();
        Self { registry, runtime, events, folder, images: Arc::new(images) }
    }

    fn plain() -> Self {
        Self::new(Settings::default(), &[])
    }

    async fn ensure(
        &self,
        image: &str,
        policy: Option<&str>,
        secrets: &[Secret],
    ) -> Result<String, ImageError> {
        ensure(&self.images, "web", image, policy, secrets).await
    }

    /// Reason and message of all events from the one numbered `since` on.
    fn said(&self, since: usize) -> Vec<(&'static str, String)> {
        self.events
            .all()
            .into_iter()
            .skip(since)
            .map(|Said { reason, message, .. }| (reason, message))
            .collect()
    }

    fn pulls(&self) -> usize {
        self.registry.tried.lock().len()
    }
}

async fn ensure(
    images: &RuntimeImages,
    pod: &str,
    image: &str,
    policy: Option<&str>,
    secrets: &[Secret],
) -> Result<String, ImageError> {
    let mut of = Pod::default();
    of.metadata.name = Some(pod.into());
    of.metadata.uid = Some(format!("uid-{pod}"));
    let container = Container {
        name: "main".into(),
        image: Some(image.into()),
        image_pull_policy: policy.map(str::to_owned),
        ..Default::default()
    };
    let involved = container_reference(&of, "spec.containers{main}");
    images.ensure_image_exists(&of, &container, &involved, secrets, &Default::default()).await
}

fn secret(user: &str) -> Secret {
    let data = format!(r#"{{"auths": {{"docker.io": {{"username": "{user}", "password": "p"}}}}}}"#);
    let mut secret = Secret { type_: Some("kubernetes.io/dockerconfigjson".into()), ..Default::default() };
    secret.metadata.name = Some(user.into());
    secret.metadata.uid = Some(format!("uid-{user}"));
    secret.data = Some(BTreeMap::from([(".dockerconfigjson".into(), ByteString(data.into()))]));
    secret
}

fn reason(error: &ImageError) -> &'static str {
    error.reason.as_str()
}

#[tokio::test(start_paused = true)]
async fn the_policy_says_whether_to_pull() {
    let (at_hand, not_at_hand) = ("app:1", "web:2");
    for (image, policy, pulls) in [
        (at_hand, Some("IfNotPresent"), Ok(0)),
        (at_hand, Some("Never"), Ok(0)),
        (at_hand, Some("Always"), Ok(1)),
        (at_hand, None, Ok(0)),
        ("app", None, Ok(1)),
        (not_at_hand, Some("IfNotPresent"), Ok(1)),
        (not_at_hand, Some("Never"), Err("ErrImageNeverPull")),
        (not_at_hand, Some("Always"), Ok(1)),
    ] {
        let world = World::plain();
        let answer = world.ensure(image, policy, &[]).await;
        let told = answer.as_ref().map(|_| world.pulls()).map_err(reason);
        assert_eq!(told, pulls, "{image} {policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_is_told_with_its_times_and_size() {
    let world = World::plain();
    world.ensure("web", Some("Always"), &[]).await.unwrap();
    assert_eq!(
        world.said(0),
        [
            ("Pulling", "Pulling image \"web\"".to_owned()),
            (
                "Pulled",
                "Successfully pulled image \"web\" in 1.2s (1.2s including waiting). Image size: 2000000 bytes."
                    .to_owned()
            ),
        ]
    );
    world.ensure("web", Some("IfNotPresent"), &[]).await.unwrap();
    let message = "Container image \"web\" already present on machine and can be accessed by the pod";
    assert_eq!(world.said(2), [("Pulled", message.to_owned())]);
    assert!(world.events.all().iter().all(|said| said.field_path == "spec.containers{main}"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_without_a_pull_is_told() {
    let world = World::plain();
    let never = world.ensure("web", Some("Never"), &[]).await.unwrap_err();
    assert_eq!(never.to_string(), "Container image \"web\" is not present with pull policy of Never");
    let invalid = world.ensure("We b", Some("Always"), &[]).await.unwrap_err();
    assert_eq!(reason(&invalid), "InvalidImageName");
    let text = "Failed to apply default image tag \"We b\": couldn't parse image name \"We b\": invalid reference \
                format: repository name (library/We b) must be lowercase";
    assert_eq!(invalid.to_string(), text);
    world.runtime.inject(
        Operation::ImageStatus,
        1,
        Fault::Fails { code: Code::Unavailable, message: "gone".into() },
    );
    let inspect = world.ensure("web", Some("IfNotPresent"), &[]).await.unwrap_err();
    assert_eq!(reason(&inspect), "ImageInspectError");
    let reasons: Vec<_> = world.events.reasons();
    assert_eq!(reasons, ["ErrImageNeverPull", "InspectFailed", "InspectFailed"]);
    let text = "Failed to inspect image \"\": rpc error: code = Unavailable desc = gone";
    assert_eq!(world.said(2)[0].1, text);
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_the_pod_waits_and_hears_what_went_wrong() {
    let world = World::plain();
    world.runtime.set_pull("web", Pull::fails(Code::Unknown, "no such host"));
    let failed = world.ensure("web", None, &[]).await.unwrap_err();
    assert_eq!((reason(&failed), failed.to_string().as_str()), ("ErrImagePull", "no such host"));
    assert_eq!(world.said(1), [("Failed", "Failed to pull image \"web\": no such host".to_owned())]);
    for _ in 0..2 {
        let waits = world.ensure("web", None, &[]).await.unwrap_err();
        assert_eq!(reason(&waits), "ImagePullBackOff");
        assert_eq!(waits.to_string(), "Back-off pulling image \"web\": ErrImagePull: no such host");
    }
    let back_off = ("BackOff", "Back-off pulling image \"web\"".to_owned());
    assert_eq!(world.said(2), [back_off.clone(), back_off], "the same event, to be counted as one");
    assert!(
        ensure(&world.images, "other", "web", None, &[]).await.is_err_and(|e| reason(&e) == "ErrImagePull")
    );
    advance(Duration::from_secs(10)).await;
    world.runtime.set_pull("web", Pull::AT_ONCE);
    world.ensure("web", None, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_the_runtime_says_of_registry_and_signature_has_its_own_reason() {
    for (text, expected, message) in [
        (
            "RegistryUnavailable: 503",
            "RegistryUnavailable",
            "image pull failed for web because the registry is unavailable: 503",
        ),
        (
            "SignatureValidationFailed",
            "SignatureValidationFailed",
            "image pull failed for web because the signature validation failed",
        ),
        ("no RegistryUnavailable", "ErrImagePull", "no RegistryUnavailable"),
    ] {
        let world = World::plain();
        world.runtime.set_pull("web", Pull::fails(Code::Unknown, text));
        let error = world.ensure("web", None, &[]).await.unwrap_err();
        assert_eq!((reason(&error), error.to_string().as_str()), (expected, message));
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_are_tried_in_turn_the_pods_before_the_nodes() {
    let world = World::new(Settings::default(), &["node"]);
    let node =
        r#"{"auths": {"https://index.docker.io/v1/": {"username": "node"}, "docker.io": {"username": "x"}}}"#;
    std::fs::write(
        world.folder.path().join("config.json"),
        node.replace("https://index.docker.io/v1/", "docker.io/library"),
    )
    .unwrap();
    world.ensure("web", None, &[secret("one"), secret("two")]).await.unwrap();
    assert_eq!(*world.registry.tried.lock(), ["one", "two", "node"]);
    let failed =
        ensure(&world.images, "other", "docker.io/me/app", None, &[secret("one"), secret("two")]).await;
    let all = r#"[401 for "one", 401 for "two", 401 for "x"]"#;
    assert_eq!(failed.unwrap_err().to_string(), all);
    let failed = ensure(&world.images, "other", "reg.io/app", None, &[secret("one")]).await.unwrap_err();
    assert_eq!(failed.to_string(), "401 for \"\"", "without credentials that fit, none are sent");
}

#[tokio::test(start_paused = true)]
async fn a_broken_secret_fails_the_pull() {
    let world = World::plain();
    let mut broken = secret("one");
    broken.data = Some(BTreeMap::from([(".dockerconfigjson".into(), ByteString(b"{".to_vec()))]));
    let error = world.ensure("web", None, &[broken]).await.unwrap_err();
    assert_eq!(reason(&error), "ErrImagePull");
    assert!(error.to_string().starts_with("image pull secret \"/one\": .dockerconfigjson:"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_one_pod_pulled_with_its_secret_another_must_pull_with_its_own() {
    let world = World::new(Settings::default(), &["one", "two"]);
    let policy = Some("IfNotPresent");
    world.ensure("web:1", policy, &[secret("one")]).await.unwrap();
    world.ensure("web:1", policy, &[secret("one")]).await.unwrap();
    assert_eq!(world.pulls(), 1);
    let stranger = ensure(&world.images, "other", "web:1", policy, &[]).await.unwrap_err();
    assert_eq!(reason(&stranger), "ErrImagePull");
    let never = ensure(&world.images, "other", "web:1", Some("Never"), &[]).await.unwrap_err();
    assert_eq!(reason(&never), "ErrImageNeverPull");
    ensure(&world.images, "third", "web:1", policy, &[secret("two")]).await.unwrap();
    assert_eq!(world.pulls(), 3);
    ensure(&world.images, "third", "web:1", policy, &[secret("two")]).await.unwrap();
    assert_eq!(world.pulls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pull_given_up_is_settled_when_the_node_comes_back() {
    let world = World::plain();
    assert!(world.ensure("docker.io/library/web:1", Some("IfNotPresent"), &[]).now_or_never().is_none());
    tokio::time::timeout(Duration::from_secs(1), world.ensure("docker.io/library/web:1", None, &[]))
        .await
        .unwrap_err();
    world.runtime.add_image("web:1");
    let root = RootDir::new(world.folder.path());
    let service: Arc<dyn ImageService> = world.registry.clone();
    let again = RuntimeImages::new(service, world.events.clone(), &root, Settings::default(), Metrics::new())
        .unwrap();
    again.settle().await.unwrap();
    let tried = world.pulls();
    ensure(&again, "web", "docker.io/library/web:1", None, &[]).await.unwrap();
    assert_eq!(world.pulls(), tried + 1, "nobody knows who pulled it");
    ensure(&again, "other", "docker.io/library/web:1", None, &[]).await.unwrap();
    assert_eq!(world.pulls(), tried + 1, "it needed no credentials");
}

#[tokio::test(start_paused = true)]
async fn only_as_many_pulls_go_on_as_may() {
    for (parallelism, seconds) in [
        (Parallelism::One, 4.8),
        (Parallelism::UpTo(2), 2.4),
        (Parallelism::UpTo(0), 1.2),
        (Parallelism::Unlimited, 1.2),
    ] {
        let world = World::new(Settings { parallelism, ..Default::default() }, &[]);
        let (began, mut pulls) = (Instant::now(), JoinSet::new());
        for number in 0..4 {
            let images = Arc::clone(&world.images);
            pulls.spawn(async move { ensure(&images, "web", &format!("web:{number}"), None, &[]).await });
        }
        for pulled in pulls.join_all().await {
            pulled.unwrap();
        }
        assert_eq!(began.elapsed(), Duration::from_secs_f64(seconds), "{parallelism:?}");
        let last = world.said(0).pop().unwrap().1;
        let whole = GoMillis(Duration::from_secs_f64(seconds));
        assert!(last.contains(&format!("in 1.2s ({whole} including waiting)")), "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn pulls_beyond_the_rate_fail_at_once() {
    let rate = Rate { qps: 1.0, burst: 1 };
    let world = World::new(Settings { rate, parallelism: Parallelism::Unlimited, ..Default::default() }, &[]);
    let (first, second) = tokio::join!(
        world.ensure("web:1", None, &[]),
        ensure(&world.images, "other", "web:1", Some("Always"), &[])
    );
    let mut errors: Vec<_> = [first, second].into_iter().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors.remove(0),
        ImageError { reason: ImageErrorReason::ErrImagePull, message: "pull QPS exceeded".into() }
    );
}

#[tokio::test(start_paused = true)]
async fn a_pull_counts_once_with_however_many_credentials() {
    let rate = Rate { qps: 1.0, burst: 1 };
    let world = World::new(Settings { rate, ..Default::default() }, &["two"]);
    world.ensure("web:1", None, &[secret("one"), secret("two")]).await.unwrap();
    assert_eq!(*world.registry.tried.lock(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn images_at_hand_are_listed() {
    let world = World::plain();
    world.runtime.add_image("web:1");
    let listed = world.images.list(None).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|image| image.size_bytes == Some(2_000_000)));
    assert_eq!(world.images.list(Some(1)).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_pulled_an_image_is_forgotten_once_it_is_gone() {
    let world = World::new(Settings::default(), &["one"]);
    world.ensure("web:1", None, &[secret("one")]).await.unwrap();
    world.images.forget_pulls().await.unwrap();
    ensure(&world.images, "other", "web:1", Some("IfNotPresent"), &[]).await.unwrap_err();
    let image = v1::ImageSpec { image: "web:1".into(), ..v1::ImageSpec::default() };
    world.runtime.remove_image(&image).await.unwrap();
    world.images.forget_pulls().await.unwrap();
    // Somebody loads it into the runtime.
    world.runtime.add_image("web:1");
    ensure(&world.images, "other", "web:1", Some("IfNotPresent"), &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn credential_plugins_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let service: Arc<dyn ImageService> = Arc::new(SimulatedRuntime::new(SimulatedConfig::default()));
    let settings =
        Settings { credential_provider_config: Some("/etc/providers.yaml".into()), ..Default::default() };
    let root = RootDir::new(folder.path());
    let refused = RuntimeImages::new(service, Arc::new(Kept::default()), &root, settings, Metrics::new());
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("not supported: /etc/providers.yaml must not be set"), "{error}");
}
