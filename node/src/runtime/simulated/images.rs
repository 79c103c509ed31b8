//! The images that are at hand, and what comes of pulling others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ids;
use crate::cri::v1;
use crate::runtime::{Code, Error, Result};

/// In bytes: containerd's busybox, in round numbers. An image's size is never zero.
const SIZE: u64 = 2_000_000;

/// What comes of pulling an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pull {
    /// It is at hand after this time.
    After(Duration),
    /// It fails after this time.
    Fails {
        /// When.
        after: Duration,
        /// The code; registries' failures mostly have `Unknown`.
        code: Code,
        /// What is said.
        message: String,
    },
}

impl Pull {
    /// At hand at once.
    pub const AT_ONCE: Self = Self::After(Duration::ZERO);

    /// The registry has no such image.
    pub fn missing() -> Self {
        Self::fails(Code::NotFound, "failed to pull and unpack image: failed to resolve reference: not found")
    }

    /// It fails at once.
    pub fn fails(code: Code, message: impl Into<String>) -> Self {
        Self::Fails { after: Duration::ZERO, code, message: message.into() }
    }
}

/// Images by the names that containerd would give them: host, repository, tag.
#[derive(Debug)]
pub(super) struct Images {
    /// By full name.
    present: BTreeMap<String, v1::Image>,
    pulls: BTreeMap<String, Pull>,
    otherwise: Pull,
}

impl Images {
    /// `otherwise` comes of pulling an image for which nothing else is [set](Self::set_pull).
    pub(super) fn new(otherwise: Pull) -> Self {
        Self { present: BTreeMap::new(), pulls: BTreeMap::new(), otherwise }
    }

    pub(super) fn set_pull(&mut self, name: &str, pull: Pull) {
        self.pulls.insert(full_name(name), pull);
    }

    /// What comes of pulling `name`.
    pub(super) fn pull(&self, name: &str) -> Pull {
        self.pulls.get(&full_name(name)).unwrap_or(&self.otherwise).clone()
    }

    /// Puts an image at hand; answers with its id.
    pub(super) fn add(&mut self, name: &str) -> String {
        let name = full_name(name);
        let id = format!("sha256:{}", ids::of_text(&name));
        let repository = repository(&name);
        let digest = match name.split_once('@') {
            Some((_, digest)) => format!("{repository}@{digest}"),
            None => format!("{repository}@sha256:{}", ids::of_text(&format!("manifest of {name}"))),
        };
        let tags = if name.contains('@') { Vec::new() } else { vec![name.clone()] };
        let image = v1::Image {
            id: id.clone(),
            repo_tags: tags,
            repo_digests: vec![digest],
            size: SIZE,
            ..Default::default()
        };
        self.present.insert(name, image);
        id
    }

    /// By id, with or without its algorithm, by digest or by name.
    pub(super) fn find(&self, reference: &str) -> Option<&v1::Image> {
        let by_name = self.present.get(&full_name(reference));
        by_name.or_else(|| {
            self.present.values().find(|image| {
                image.id == reference
                    || image.id.strip_prefix("sha256:") == Some(reference)
                    || image.repo_digests.iter().any(|digest| *digest == full_name(reference))
            })
        })
    }

    pub(super) fn remove(&mut self, reference: &str) {
        if let Some(id) = self.find(reference).map(|image| image.id.clone()) {
            self.present.retain(|_, image| image.id != id);
        }
    }

    /// All, or the one that `filter` names.
    pub(super) fn list(&self, filter: &v1::ImageFilter) -> Vec<v1::Image> {
        match filter.image.as_ref().map(|image| image.image.as_str()).filter(|name| !name.is_empty()) {
            Some(name) => self.find(name).cloned().into_iter().collect(),
            None => self.present.values().cloned().collect(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.present.values().map(|image| image.size).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.present.len()
    }
}

/// The name in a request.
pub(super) fn named(image: &v1::ImageSpec) -> Result<&str> {
    let missing = || Error::status(Code::InvalidArgument, "the request names no image");
    Some(image.image.as_str()).filter(|name| !name.is_empty()).ok_or_else(missing)
}

/// `busybox` is `docker.io/library/busybox:latest`.
fn full_name(name: &str) -> String {
    let host = |part: &str| part.contains(['.', ':']) || part == "localhost";
    let mut full = match name.split_once('/') {
        Some((first, _)) if host(first) => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    };
    if repository(&full) == full {
        full.push_str(":latest");
    }
    full
}

/// The name without tag and digest.
fn repository(name: &str) -> &str {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_containerd_does() {
        for (short, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("me/app", "docker.io/me/app:latest"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("localhost/app", "localhost/app:latest"),
            ("host:5000/app", "host:5000/app:latest"),
            ("busybox@sha256:12", "docker.io/library/busybox@sha256:12"),
        ] {
            assert_eq!(full_name(short), full, "{short}");
        }
    }

    #[test]
    fn an_image_is_found_by_name_id_and_digest() {
        let mut images = Images::new(Pull::AT_ONCE);
        let id = images.add("busybox:1.36");
        let digest = images.find(&id).unwrap().repo_digests[0].clone();
        for reference in ["busybox:1.36", "docker.io/library/busybox:1.36", &id, &id[7..], &digest] {
            assert_eq!(images.find(reference).map(|image| &image.id), Some(&id), "{reference}");
        }
        assert_eq!(images.find("busybox"), None);
        images.remove(&digest);
        assert_eq!(images.find("busybox:1.36"), None);
    }

    #[test]
    fn what_comes_of_a_pull_goes_by_the_full_name() {
        let mut images = Images::new(Pull::AT_ONCE);
        images.set_pull("app", Pull::missing());
        assert_eq!(images.pull("docker.io/library/app:latest"), Pull::missing());
        assert_eq!(images.pull("app:2"), Pull::AT_ONCE);
    }
}
