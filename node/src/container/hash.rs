//! The hash by which a running container is known to be of the present spec.

use k8s_openapi::api::core::v1::Container;

use crate::kuberuntime::go_json;

const FNV32_OFFSET: u32 = 0x811c_9dc5;
const FNV32_PRIME: u32 = 0x0100_0193;

/// The hash of what of a container may be changed in a running pod: its name and its image.
///
/// It is written into an annotation of the container and compared by whoever manages it next, so it is the kubelet's bit
/// for bit (since 1.31): 32 bits of FNV-1a over what Go's spew prints of the bytes of `{"image":...,"name":...}`.
pub fn hash_container(container: &Container) -> u64 {
    let fields = std::collections::BTreeMap::from([
        ("image", container.image.as_deref().unwrap_or_default()),
        ("name", container.name.as_str()),
    ]);
    let mut printed = String::from("([]uint8)[");
    for (at, byte) in go_json::to_string(&fields).bytes().enumerate() {
        if at > 0 {
            printed.push(' ');
        }
        printed.push_str(&byte.to_string());
    }
    printed.push(']');
    u64::from(fnv32a(printed.as_bytes()))
}

fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(FNV32_OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV32_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, image: &str) -> Container {
        Container { name: name.into(), image: Some(image.into()), ..Container::default() }
    }

    /// What `HashContainer` of Kubernetes 1.36.3 returned for them.
    #[test]
    fn hashes_are_the_kubelets() {
        let digest =
            "registry.k8s.io/pause@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for (name, image, hash) in [
            ("test_container", "foo/image:v1", 0x8e45_cbd0),
            ("nginx", "nginx", 2_774_804_510),
            ("", "", 3_990_256_836),
            ("a", "<script>&\u{2028}", 3_552_285_848),
            ("grüße", "\"quoted\"\\\n", 1_563_052_735),
            ("app", digest, 1_678_464_100),
        ] {
            assert_eq!(hash_container(&named(name, image)), hash, "{name} {image}");
        }
        assert_eq!(hash_container(&Container::default()), 3_990_256_836);
    }

    #[test]
    fn only_name_and_image_matter() {
        let plain = named("app", "busybox");
        let more = Container { args: Some(vec!["-x".into()]), tty: Some(true), ..plain.clone() };
        assert_eq!(hash_container(&plain), hash_container(&more));
        assert_ne!(hash_container(&plain), hash_container(&named("app", "busybox:2")));
        assert_ne!(hash_container(&plain), hash_container(&named("app2", "busybox")));
    }
}
