//! Which flags are accepted, as upstream's `core_test` and `validateCIDRs`.

use super::super::settings::{Invalid, Settings, parse_cidr};
use super::super::{CloudOptions, NodeIpamOptions};
use super::range;

fn cloud(cluster_cidr: &str) -> CloudOptions {
    CloudOptions {
        allocate_node_cidrs: true,
        cluster_cidr: cluster_cidr.to_owned(),
        ..CloudOptions::default()
    }
}

fn masks(mask_size: i32, mask_size_ipv4: i32, mask_size_ipv6: i32) -> NodeIpamOptions {
    NodeIpamOptions { mask_size, mask_size_ipv4, mask_size_ipv6, ..NodeIpamOptions::default() }
}

#[test]
fn each_cluster_range_has_blocks_of_the_size_of_its_family() {
    for (cluster, options, expected) in [
        ("10.0.0.0/16", masks(0, 0, 0), vec![24]),
        ("10.0.0.0/16", masks(20, 0, 0), vec![20]),
        ("10.0.0.0/16", masks(0, 26, 0), vec![26]),
        ("fd00::/48", masks(0, 0, 0), vec![64]),
        ("fd00::/48", masks(60, 0, 0), vec![60]),
        ("fd00::/48", masks(0, 0, 62), vec![62]),
        ("10.0.0.0/16,fd00::/48", masks(0, 0, 0), vec![24, 64]),
        ("fd00::/48,10.0.0.0/16", masks(0, 25, 0), vec![64, 25]),
        (" 10.0.0.0/16,fd00::/48 ", masks(0, 26, 62), vec![26, 62]),
    ] {
        let settings = Settings::of(&cloud(cluster), &options).unwrap();
        let sizes: Vec<i32> = settings.clusters.iter().map(|(_, prefix)| *prefix).collect();
        assert_eq!(sizes, expected, "{cluster} {options:?}");
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let of_family = |mask, cluster| Invalid::MaskOfOtherFamily { mask, cluster };
    for (cluster, options, why) in [
        ("", masks(0, 0, 0), Invalid::NoCluster),
        ("10.0.0.0", masks(0, 0, 0), Invalid::BadCluster { at: 0, text: "10.0.0.0".to_owned() }),
        ("10.0.0.0/16,", masks(0, 0, 0), Invalid::BadCluster { at: 1, text: String::new() }),
        ("10.0.0.0/16,10.1.0.0/16", masks(0, 0, 0), Invalid::NotDualStack(2)),
        ("fd00::/48,fd01::/48", masks(0, 0, 0), Invalid::NotDualStack(2)),
        ("10.0.0.0/16,fd00::/48,10.1.0.0/16", masks(0, 0, 0), Invalid::TooManyClusters(3)),
        ("10.0.0.0/16,fd00::/48", masks(24, 0, 0), Invalid::MaskOfDualStack),
        ("10.0.0.0/16", masks(24, 24, 0), Invalid::MasksBesideMask),
        ("fd00::/48", masks(64, 0, 64), Invalid::MasksBesideMask),
        ("fd00::/48", masks(0, 24, 0), of_family("ipv4", "IPv6")),
        ("10.0.0.0/16", masks(0, 0, 64), of_family("ipv6", "IPv4")),
    ] {
        assert_eq!(Settings::of(&cloud(cluster), &options), Err(why), "{cluster} {options:?}");
    }
    let with = |allocator: &str| {
        let cloud = CloudOptions { cidr_allocator_type: allocator.to_owned(), ..cloud("10.0.0.0/16") };
        Settings::of(&cloud, &masks(0, 0, 0)).map(drop)
    };
    assert_eq!(with("RangeAllocator"), Ok(()));
    assert_eq!(with(""), Err(Invalid::NoAllocator));
    for allocator in ["CloudAllocator", "IPAMFromCloud", "rangeallocator"] {
        assert_eq!(with(allocator), Err(Invalid::NotBuiltIn(allocator.to_owned())));
    }
}

#[test]
fn service_ranges_that_are_no_ranges_are_left_out() {
    let of = |services: &str| {
        let options = NodeIpamOptions { service_cidr: services.to_owned(), ..NodeIpamOptions::default() };
        Settings::of(&cloud("10.0.0.0/16"), &options).map(|settings| settings.services)
    };
    assert_eq!(of(""), Ok(vec![]));
    assert_eq!(of("10.0.0.0/20"), Ok(vec![range("10.0.0.0/20")]));
    assert_eq!(of("10.0.0.0/20, fd00::/108"), Ok(vec![range("10.0.0.0/20"), range("fd00::/108")]));
    assert_eq!(of("services,fd00::/108"), Ok(vec![range("fd00::/108")]));
    assert_eq!(of("10.0.0.0/20,10.0.16.0/20"), Err(Invalid::ServicesNotDualStack));
    assert_eq!(of("10.0.0.0/20,fd00::/108,"), Err(Invalid::TooManyServices));
}

#[test]
fn ranges_are_read_as_go_reads_them() {
    for (text, parsed) in [
        ("10.0.0.0/8", Some("10.0.0.0/8")),
        ("10.1.2.3/8", Some("10.0.0.0/8")),
        ("010.000.0.0/8", Some("10.0.0.0/8")),
        ("fd00::1/64", Some("fd00::/64")),
        ("FD00::/64", Some("fd00::/64")),
        ("10.0.0.0/33", None),
        ("10.0.0.0/+8", None),
        ("10.0.0.0/", None),
        ("10.0.0.0", None),
        ("10.0.0/8", None),
        ("", None),
    ] {
        assert_eq!(parse_cidr(text).map(|range| range.to_string()).as_deref(), parsed, "{text:?}");
    }
}
