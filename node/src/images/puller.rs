//! Pulls: how many at a time, how often, with which credentials.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::credentials::Credential;
use crate::aggregate::aggregate;
use crate::cri::v1;
use crate::runtime::ImageService;

/// How many pulls go on at a time. Others wait for their turn in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parallelism {
    /// One (`serializeImagePulls`).
    #[default]
    One,
    /// So many (`maxParallelImagePulls`); zero counts as no limit.
    UpTo(usize),
    /// All that are asked for.
    Unlimited,
}

/// How often a registry is asked (`registryPullQPS`, `registryBurst`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Pulls a second in the long run. Zero or less: no limit.
    pub qps: f32,
    /// Pulls at once after a quiet time. Zero: none ever.
    pub burst: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Self { qps: 5.0, burst: 10 }
    }
}

/// Pulls images.
pub(super) struct Puller {
    service: Arc<dyn ImageService>,
    /// `None`: no limit.
    turns: Option<Semaphore>,
    bucket: Option<Bucket>,
}

/// A token bucket, as one instant: when it will be full again.
struct Bucket {
    period: Duration,
    /// How far `full_at` may lie ahead while a token is to be had; none for a bucket that holds none.
    tolerance: Option<Duration>,
    full_at: Mutex<Instant>,
}

/// A pull that ended well.
#[derive(Debug)]
pub(super) struct PulledImage {
    /// The image's reference in the runtime.
    pub(super) image_ref: String,
    /// In bytes; zero where the runtime could not tell.
    pub(super) size: u64,
    /// How long it took, without waiting for its turn.
    pub(super) took: Duration,
    /// Which credential did it; `None` for none.
    pub(super) credential: Option<Credential>,
}

impl Puller {
    pub(super) fn new(service: Arc<dyn ImageService>, parallelism: Parallelism, rate: Rate) -> Self {
        let turns = match parallelism {
            Parallelism::One => Some(1),
            Parallelism::UpTo(0) | Parallelism::Unlimited => None,
            Parallelism::UpTo(most) => Some(most),
        };
        Self { service, turns: turns.map(Semaphore::new), bucket: Bucket::new(rate) }
    }

    /// Pulls an image with one credential after the other until one does it; without, if there are none. Dropping the call
    /// gives up the pull.
    ///
    /// # Errors
    /// What the runtime said, each text once.
    pub(super) async fn pull(
        &self,
        image: &v1::ImageSpec,
        credentials: Vec<Credential>,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<PulledImage, String> {
        let _turn = match &self.turns {
            Some(turns) => Some(turns.acquire().await.expect("the semaphore must never be closed")),
            None => None,
        };
        if !self.bucket.as_ref().is_none_or(Bucket::take) {
            return Err("pull QPS exceeded".to_owned());
        }
        let began = Instant::now();
        let (image_ref, credential) = self.try_each(image, credentials, sandbox_config).await?;
        // Only for the event and the metric: not worth failing for.
        let status = self.service.image_status(image).await;
        let size = status.ok().and_then(|status| status.image).map_or(0, |image| image.size);
        Ok(PulledImage { image_ref, size, took: began.elapsed(), credential })
    }

    async fn try_each(
        &self,
        image: &v1::ImageSpec,
        credentials: Vec<Credential>,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<(String, Option<Credential>), String> {
        let mut tries: Vec<Option<Credential>> = credentials.into_iter().map(Some).collect();
        if tries.is_empty() {
            tries.push(None);
        }
        let mut errors: Vec<String> = Vec::new();
        for credential in tries {
            let auth = credential.as_ref().map(Credential::auth);
            let pulled = self.service.pull_image(image, auth.as_ref(), Some(sandbox_config)).await;
            match pulled.map_err(|error| error.to_string()) {
                Ok(image_ref) => return Ok((image_ref, credential)),
                Err(error) => errors.push(error),
            }
        }
        Err(aggregate(errors).unwrap_or_default())
    }
}

impl Bucket {
    /// `None` for no limit.
    fn new(Rate { qps, burst }: Rate) -> Option<Self> {
        let period = (qps > 0.0).then(|| Duration::try_from_secs_f64(1.0 / f64::from(qps)).ok()).flatten()?;
        let tolerance = burst.checked_sub(1).map(|more| period.saturating_mul(more));
        Some(Self { period, tolerance, full_at: Mutex::new(Instant::now()) })
    }

    /// Takes a token, if there is one.
    fn take(&self) -> bool {
        let mut full_at = self.full_at.lock();
        let now = Instant::now();
        let ahead = full_at.saturating_duration_since(now);
        let there = self.tolerance.is_some_and(|tolerance| ahead <= tolerance);
        if there {
            *full_at = (*full_at).max(now) + self.period;
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_one_a_period() {
        let bucket = Bucket::new(Rate { qps: 5.0, burst: 3 }).unwrap();
        let taken = [(); 5].map(|()| bucket.take());
        assert_eq!(taken, [true, true, true, false, false]);
        tokio::time::advance(Duration::from_millis(200)).await;
        assert!(bucket.take() && !bucket.take());
        assert!(Bucket::new(Rate { qps: 0.0, burst: 3 }).is_none());
        assert!(!Bucket::new(Rate { qps: 5.0, burst: 0 }).unwrap().take());
    }
}
