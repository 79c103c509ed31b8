//! Records of who pulled which image, so that a pod can't use an image that it could not pull
//! (`KubeletEnsureSecretPulledImages` upstream).
//!
//! They lie in `image_manager` of the node's folder, in upstream's form, so that either agent can take over from the other:
//! an intent while a pull is under way, and a record of what was pulled. Unlike upstream's they are not cached in memory,
//! since a look at one costs a read of a small file.

mod files;
mod policy;
mod record;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use jiff::Timestamp;
use parking_lot::Mutex;

use self::files::Files;
pub use self::policy::{Allowlist, Error as PolicyError, VerificationPolicy};
use self::record::{Access, Intent, Pulled, Verdict};
use super::credentials::Credential;
use super::metrics::{Metrics, MustPull};
use super::reference;
use crate::cri::v1;

/// The records of one node. All calls are blocking, but for [`given_up`](Self::given_up).
#[derive(Debug)]
pub(super) struct PullRecords {
    /// By the image as the container names it.
    intents: Files,
    /// By the image's reference in the runtime.
    pulled: Files,
    policy: VerificationPolicy,
    metrics: Metrics,
    /// How many pulls of an image are under way; none is zero. Held while files are read and written, so that each change
    /// is seen whole. An intent's file without an entry here is from before a restart, or of a pull that was given up.
    under_way: Mutex<HashMap<String, usize>>,
}

impl PullRecords {
    /// The records under `root`, the node's folder.
    ///
    /// # Errors
    /// Folders can't be made.
    pub(super) fn open(root: &Path, policy: VerificationPolicy, metrics: Metrics) -> io::Result<Self> {
        let folder = root.join("image_manager");
        let records = Self {
            intents: Files::open(folder.join("pulling"))?,
            pulled: Files::open(folder.join("pulled"))?,
            policy,
            metrics,
            under_way: Mutex::default(),
        };
        records.measure();
        Ok(records)
    }

    /// A pull of `image` begins; to be ended by exactly one of the three calls below.
    ///
    /// # Errors
    /// The intent can't be written; then nothing has begun.
    pub(super) fn begin(&self, image: &str) -> io::Result<()> {
        let mut under_way = self.under_way.lock();
        self.intents.write(image, &Intent::new(image))?;
        *under_way.entry(image.to_owned()).or_default() += 1;
        self.measure();
        Ok(())
    }

    /// A pull of `image` ended well, with that credential. Should the record not be written, the intent stays, and the image
    /// counts as pulled by this node, by nobody known.
    pub(super) fn pulled(
        &self,
        image: &str,
        image_ref: &str,
        credential: Option<&Credential>,
        now: Timestamp,
    ) {
        let mut under_way = self.under_way.lock();
        let kept = match self.add(image, image_ref, Some(Access::of(credential)), now) {
            Ok(()) => false,
            Err(error) => {
                tracing::error!(image, image_ref, error, "Failed to write the record of an image pull");
                true
            }
        };
        self.end(&mut under_way, image, kept);
        self.measure();
    }

    /// A pull of `image` failed.
    pub(super) fn failed(&self, image: &str) {
        let mut under_way = self.under_way.lock();
        self.end(&mut under_way, image, false);
        self.measure();
    }

    /// Nobody waits for a pull of `image` any more, and how it ends is not known: the intent stays until a later pull ends or
    /// the node is started again.
    pub(super) fn given_up(&self, image: &str) {
        self.end(&mut self.under_way.lock(), image, true);
    }

    /// Whether a pod has to pull `image`, which is at hand as `image_ref`, to show that it may. `credentials` are those that
    /// the pod would pull with; they are asked for where they matter.
    ///
    /// # Errors
    /// Those of `credentials`.
    pub(super) fn must_pull<E>(
        &self,
        image: &str,
        image_ref: &str,
        credentials: impl FnOnce() -> Result<Vec<Credential>, E>,
        now: Timestamp,
    ) -> Result<bool, E> {
        let answer = self.judge(image, image_ref, credentials, now);
        self.metrics.checked(answer.as_ref().map_or(MustPull::Error, |checked| *checked));
        // Where the records can't be read, a pull shows it.
        answer.map(|checked| matches!(checked, MustPull::MustAuthenticate | MustPull::Error))
    }

    fn judge<E>(
        &self,
        image: &str,
        image_ref: &str,
        credentials: impl FnOnce() -> Result<Vec<Credential>, E>,
        now: Timestamp,
    ) -> Result<MustPull, E> {
        let under_way = self.under_way.lock();
        let (record, by_this_node) = match self.look(&under_way, image, image_ref) {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(image, image_ref, %error, "Unable to read the records of image pulls");
                return Ok(MustPull::Error);
            }
        };
        if !self.policy.verifies(image, by_this_node) {
            return Ok(MustPull::CredentialPolicyAllowed);
        }
        let Some(record) = record else { return Ok(MustPull::MustAuthenticate) };
        let Ok(repository) = reference::without_tag_and_digest(image) else { return Ok(MustPull::Error) };
        // Who needs none is not asked for credentials, which might be broken.
        let unasked = record.verdict(repository, &[]);
        let verdict = match unasked {
            Verdict::MustPull if record.has_secrets(repository) => {
                record.verdict(repository, &credentials()?)
            }
            verdict => verdict,
        };
        if let Verdict::AllowedAnd(access) = &verdict
            && let Err(error) = self.add(image, image_ref, Some(access.clone()), now)
        {
            tracing::error!(image, image_ref, error, "Failed to write the record of an image pull");
        }
        Ok(match verdict {
            Verdict::Allowed | Verdict::AllowedAnd(_) => MustPull::CredentialRecordFound,
            Verdict::MustPull => MustPull::MustAuthenticate,
        })
    }

    /// The image's record, and whether this node pulled it.
    fn look(
        &self,
        under_way: &HashMap<String, usize>,
        image: &str,
        image_ref: &str,
    ) -> io::Result<(Option<Pulled>, bool)> {
        let record = self.pulled.read::<Pulled>(image_ref)?.filter(|record| record.image_ref == image_ref);
        let intended = || -> io::Result<bool> {
            let intent = self.intents.read::<Intent>(image)?;
            Ok(intent.is_some_and(|intent| intent.image == image))
        };
        let by_this_node = record.is_some() || under_way.contains_key(image) || intended()?;
        Ok((record, by_this_node))
    }

    /// Settles the intents from before a restart: an image that is at hand now was pulled by this node, by nobody known. To
    /// be called once, before the first pull.
    ///
    /// # Errors
    /// The intents can't be listed.
    pub(super) fn settle(&self, at_hand: &[v1::Image], now: Timestamp) -> io::Result<()> {
        let _under_way = self.under_way.lock();
        for Intent { image, .. } in self.intents.list::<Intent>()? {
            let of_name =
                |known: &&v1::Image| known.repo_tags.contains(&image) || known.repo_digests.contains(&image);
            let Some(found) = at_hand.iter().find(of_name) else { continue };
            let settled = self
                .add(&image, &found.id, None, now)
                .and_then(|()| self.intents.remove(&image).map_err(|error| error.to_string()));
            if let Err(error) = settled {
                tracing::error!(image, error, "Failed to settle the record of an image pull");
            }
        }
        self.measure();
        Ok(())
    }

    /// Forgets images that are not in use and whose record was last changed before `before`.
    ///
    /// # Errors
    /// The records can't be listed, or one can't be removed.
    pub(super) fn prune(&self, in_use: &HashSet<String>, before: Timestamp) -> io::Result<()> {
        let _under_way = self.under_way.lock();
        for record in self.pulled.list::<Pulled>()? {
            let updated = record.last_updated_time.parse().unwrap_or(Timestamp::UNIX_EPOCH);
            if updated < before && !in_use.contains(&record.image_ref) {
                self.pulled.remove(&record.image_ref)?;
            }
        }
        self.measure();
        Ok(())
    }

    /// Adds to an image's record; `None` notes no more than that this node pulled it.
    fn add(
        &self,
        image: &str,
        image_ref: &str,
        access: Option<Access>,
        now: Timestamp,
    ) -> Result<(), String> {
        let repository = reference::without_tag_and_digest(image)
            .map_err(|error| format!("invalid image name {image:?}: {error}"))?;
        let known = self.pulled.read::<Pulled>(image_ref).unwrap_or_else(|error| {
            tracing::warn!(image, image_ref, %error, "The record of an image pull can't be read and is made anew");
            None
        });
        let is_new = known.is_none();
        let mut record = known.unwrap_or_else(|| Pulled::new(image_ref));
        let changed = access.is_some_and(|access| record.merge(repository, access));
        if !changed && !is_new {
            return Ok(());
        }
        record.last_updated_time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        self.pulled.write(image_ref, &record).map_err(|error| error.to_string())
    }

    /// One pull of `image` less; the last one takes the intent with it, unless it is kept.
    fn end(&self, under_way: &mut HashMap<String, usize>, image: &str, kept: bool) {
        let left = under_way.remove(image).unwrap_or(1) - 1;
        if left > 0 {
            under_way.insert(image.to_owned(), left);
        } else if !kept && let Err(error) = self.intents.remove(image) {
            tracing::error!(image, %error, "Failed to remove the intent of an image pull");
        }
    }

    fn measure(&self) {
        match (self.intents.count(), self.pulled.count()) {
            (Ok(intents), Ok(pulled)) => self.metrics.on_disk(intents, pulled),
            (Err(error), _) | (_, Err(error)) => {
                tracing::debug!(%error, "The records of image pulls can't be counted");
            }
        }
    }
}

#[cfg(test)]
mod tests;
