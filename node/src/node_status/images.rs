//! `status.images`. Pure.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::{ContainerImage, Node};

use crate::cri::v1;

/// How many names of an image are told.
const MAX_NAMES: usize = 5;

/// Puts images in the order in which the status tells them: the largest first.
pub fn sort(images: &mut [v1::Image]) {
    images.sort_by(|one, other| {
        let key = |image: &v1::Image| (Reverse(image.size), Reverse(image.id.clone()));
        key(one).cmp(&key(other))
    });
}

/// Sets the images: at most `max` of these, which are in order. Digests come before tags.
pub fn set(node: &mut Node, images: &[v1::Image], max: Option<usize>) {
    let told = images.iter().take(max.unwrap_or(usize::MAX)).map(|image| {
        let names = image.repo_digests.iter().chain(&image.repo_tags).take(MAX_NAMES);
        ContainerImage {
            names: Some(names.cloned().collect()),
            size_bytes: Some(i64::try_from(image.size).unwrap_or(i64::MAX)),
        }
    });
    node.status.get_or_insert_default().images = Some(told.collect());
}
