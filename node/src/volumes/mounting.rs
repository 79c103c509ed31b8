//! One volume of a pod: from the pod's spec to what containers can mount.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Volume};
use rand::Rng;
use steersman_api::Uid;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::claims::ClaimReference;
use super::error::MountError;
use super::kinds::{Kind, Sources, empty_dir};
use super::manager::VolumeManager;
use super::metrics::Operation;
use super::payload;
use super::refusal::{Refusal, Step};
use super::set_up::SetUp;
use super::state::{PodVolumes, VolumeState, Written, on_disk};
use super::{MountedVolume, Rights};

/// Files that should be as they are already are looked at again after this long to half as long again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Why one volume is not there.
pub(super) struct Failure {
    /// The volume's name in the pod's spec.
    pub(super) volume: String,
    refusal: Refusal,
    retry_in: Duration,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It was just tried.
    Tried,
    /// It was not tried, because of its back-off.
    LeftAlone,
}

/// A volume that was mounted, or filled anew.
struct Done {
    mounted: MountedVolume,
    written: Option<Written>,
}

/// What the failures, which are in the order of their volumes, come to. `None` without any.
pub(super) fn mount_error<'a>(failures: impl Iterator<Item = &'a Failure> + Clone) -> Option<MountError> {
    let names = |wanted: fn(&Failure) -> bool| {
        failures.clone().filter(|failure| wanted(failure)).map(|failure| failure.volume.clone()).collect()
    };
    Some(MountError {
        retry_in: failures.clone().map(|failure| failure.retry_in).min()?,
        unmounted: names(|_| true),
        unprocessed: names(|failure| failure.refusal.is_before_mount()),
        unsupported: names(|failure| failure.refusal.is_unsupported()),
        reasons: failures.map(|failure| failure.refusal.to_string()).collect(),
    })
}

/// The message of an event about volumes of which no mount could be tried. `None` if none of them was looked at just now.
pub(super) fn unprocessed_message(failures: &[Failure]) -> Option<String> {
    let unprocessed = failures.iter().filter(|failure| failure.refusal.is_before_mount());
    if !unprocessed.clone().any(|failure| failure.stage == Stage::Tried) {
        return None;
    }
    let unmounted = failures.iter().map(|failure| failure.volume.clone()).collect();
    let error = MountError { unmounted, ..mount_error(unprocessed)? };
    Some(format!("Unable to attach or mount volumes: {error}"))
}

impl VolumeManager {
    /// Makes or mounts one volume of the pod, or brings it up to date.
    pub(super) async fn mount_one(
        &self,
        pod: &Arc<Pod>,
        uid: &Uid,
        state: &Arc<PodVolumes>,
        volume: &Volume,
    ) -> Result<(), Failure> {
        let before = state.volumes.lock().get(&volume.name).cloned().unwrap_or_default();
        let claim = ClaimReference::of(pod, volume);
        if claim.is_some() && before.mounted.is_some() {
            // What it is bound to does not change any more.
            return Ok(());
        }
        let failure = |refusal: Refusal, retry_in: Duration, stage: Stage| {
            let failure = Failure { volume: volume.name.clone(), refusal, retry_in, stage };
            if before.mounted.is_some() { Ok(()) } else { Err(failure) }
        };
        if let Some((left, why)) = before.back_off.waits(Instant::now()) {
            return failure(why.clone(), left, Stage::LeftAlone);
        }
        let kind = match &claim {
            Some(claim) => self.kind_of_claim(claim).await,
            None => Kind::of(volume).map_err(Refusal::Unsupported),
        };
        let is_adopted = kind.is_err() && before.mounted.is_some();
        if is_adopted {
            return Ok(());
        }
        let outcome = match &kind {
            Ok(kind) => {
                let began = Instant::now();
                let done = self.refresh(pod, uid, state, (volume, kind), &before).await;
                if !matches!(done, Ok(None)) {
                    let metrics = &self.shared.parts.metrics;
                    metrics.done(Operation::Mount, kind.plugin(), done.is_ok(), began.elapsed());
                }
                done
            }
            Err(refusal) => Err(refusal.clone()),
        };
        let mut states = state.volumes.lock();
        let entry = states.entry(volume.name.clone()).or_default();
        entry.plugin = kind.as_ref().ok().map(Kind::plugin);
        match outcome {
            Ok(done) => {
                entry.back_off.succeeded();
                if let Some(done) = done {
                    (entry.mounted, entry.written) = (Some(done.mounted), done.written);
                    entry.group = kind.as_ref().ok().and_then(Kind::group);
                }
                Ok(())
            }
            Err(refusal) => {
                let now = Instant::now();
                entry.back_off.failed(now, refusal.clone());
                let left = entry.back_off.waits(now).map_or(Duration::ZERO, |(left, _)| left);
                drop(states);
                tracing::warn!(pod = %uid, volume = %volume.name, error = %refusal, "volume can't be mounted");
                if !refusal.is_before_mount() {
                    self.warn(pod, &refusal.to_string());
                }
                failure(refusal, left, Stage::Tried)
            }
        }
    }

    /// Reads what a claim is bound to.
    async fn kind_of_claim(&self, reference: &ClaimReference<'_>) -> Result<Kind, Refusal> {
        let parts = &self.shared.parts;
        let claim = parts.claims.claim(reference.namespace(), reference.name()).await;
        let claim = claim.map_err(|reason| reference.unread_claim(&reason))?;
        let name = reference.bound_volume(&claim)?;
        let volume = parts.claims.volume(name).await;
        let volume = volume.map_err(|reason| reference.unread_volume(name, &reason))?;
        if parts.rights == Rights::Ordinary {
            // Nobody reads what a simulated container mounts: an empty folder stands for any volume.
            reference.check(&claim, &volume)?;
            return Ok(Kind::EmptyDir(Default::default()));
        }
        let persistent = reference.persistent(&claim, &volume)?;
        persistent.check(parts.node.node().as_deref(), parts.node.name())?;
        Ok(Kind::Persistent(Box::new(persistent)))
    }

    /// Makes the volume or brings it up to date. `None` if there was nothing to do.
    async fn refresh(
        &self,
        pod: &Arc<Pod>,
        uid: &Uid,
        state: &Arc<PodVolumes>,
        (volume, kind): (&Volume, &Kind),
        before: &VolumeState,
    ) -> Result<Option<Done>, Refusal> {
        let name = kind.own_name().unwrap_or(&volume.name);
        let failed = |reason: String| Refusal::failed(Step::SetUp, name, reason);
        for (what, text) in [("uid", &*uid.to_string()), ("volume", &volume.name), ("volume", name)] {
            if matches!(text, "" | "." | "..") || text.contains(['/', '\0']) {
                return Err(failed(format!("{what} {text:?} can't name a folder")));
            }
        }
        let parts = &self.shared.parts;
        let sources = Sources { pod, objects: &*parts.objects, tokens: &parts.tokens, node: &*parts.node };
        let payload = kind.payload(&sources).await.map_err(failed)?;
        let now = Instant::now();
        let written = payload.as_ref().map(|payload| {
            let spread = LOOK_AGAIN.mul_f64(1.0 + rand::rng().random::<f64>() / 2.0);
            Written { digest: payload::digest(payload), look_again: now + spread }
        });
        if before.mounted.is_some() {
            let same = |(new, old): (Written, Written)| new.digest == old.digest && now < old.look_again;
            if written.is_none() || written.zip(before.written).is_some_and(same) {
                return Ok(None);
            }
        }
        let own = match kind {
            Kind::EmptyDir(source) => Some(source),
            _ => None,
        };
        let set_up = SetUp {
            pod: Arc::clone(pod),
            volume: volume.name.clone(),
            kind: kind.clone(),
            payload,
            memory_size: empty_dir::memory_size(own, pod, &*parts.node),
            now: (parts.now)(),
            rights: parts.rights,
            locks: Arc::clone(&self.shared.locks),
            one_pod: Arc::clone(&self.shared.one_pod),
            events: Arc::clone(&parts.events),
        };
        // Dropped with this future: what has not begun by then must not begin.
        let dropped = CancellationToken::new();
        let _guard = dropped.clone().drop_guard();
        let (root, uid) = (parts.root.clone(), uid.clone());
        let mounted = on_disk(state, move || {
            if dropped.is_cancelled() {
                return Err(set_up.failed("the pod's sync was interrupted"));
            }
            set_up.run(&root, &uid)
        })
        .await?;
        Ok(Some(Done { mounted, written }))
    }
}
