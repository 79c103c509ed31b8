//! The images that a node tells in its status.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::ContainerImage;

use crate::cri::v1;

/// How many names of an image a node tells.
const MAX_NAMES: usize = 5;

/// The images as a node's status has them: the greatest first, at most `max` of them (`nodeStatusMaxImages`; `None` for
/// all), each with its digests and then its tags as names.
pub fn node_status_images(images: &[v1::Image], max: Option<usize>) -> Vec<ContainerImage> {
    let mut sorted: Vec<_> = images.iter().collect();
    sorted.sort_by_key(|image| Reverse((image.size, &image.id)));
    sorted.into_iter().take(max.unwrap_or(usize::MAX)).map(told).collect()
}

fn told(image: &v1::Image) -> ContainerImage {
    let names = image.repo_digests.iter().chain(&image.repo_tags).take(MAX_NAMES).cloned().collect();
    ContainerImage { names: Some(names), size_bytes: Some(i64::try_from(image.size).unwrap_or(i64::MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, size: u64, digests: &[&str], tags: &[&str]) -> v1::Image {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        v1::Image {
            id: id.into(),
            size,
            repo_digests: texts(digests),
            repo_tags: texts(tags),
            ..Default::default()
        }
    }

    #[test]
    fn the_greatest_images_come_first_with_digests_before_tags() {
        let images = [
            image("a", 1, &[], &["small"]),
            image("b", 9, &["d1", "d2"], &["t1", "t2", "t3", "t4"]),
            image("c", 5, &[], &["c"]),
            image("d", 5, &[], &["d"]),
        ];
        let told: Vec<_> = node_status_images(&images, Some(3))
            .into_iter()
            .map(|image| (image.size_bytes.unwrap(), image.names.unwrap().join(" ")))
            .collect();
        assert_eq!(told, [(9, "d1 d2 t1 t2 t3".into()), (5, "d".into()), (5, "c".into())]);
        assert_eq!(node_status_images(&images, None).len(), 4);
        assert!(node_status_images(&images, Some(0)).is_empty());
    }
}
