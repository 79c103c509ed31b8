//! Tables of upstream's `cidrset`, and a comparison with a plain list of blocks.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::cidr_set::{Activity, BadSize, CidrSet};
use super::range;

fn set(cluster: &str, block_prefix: i32) -> CidrSet {
    CidrSet::new(range(cluster), block_prefix).unwrap()
}

fn allocate(set: &mut CidrSet, count: usize) -> Vec<String> {
    (0..count).map_while(|_| set.allocate_next()).map(|range| range.to_string()).collect()
}

#[test]
fn blocks_are_given_in_order_until_none_is_left() {
    for (cluster, prefix, blocks) in [
        ("10.0.0.0/30", 32, &["10.0.0.0/32", "10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32"][..]),
        ("127.123.234.0/30", 30, &["127.123.234.0/30"]),
        ("127.123.234.0/29", 30, &["127.123.234.0/30", "127.123.234.4/30"]),
        ("127.123.234.3/29", 30, &["127.123.234.0/30", "127.123.234.4/30"]),
        (
            "beef:1234::/110",
            112,
            &["beef:1234::/112", "beef:1234::1:0/112", "beef:1234::2:0/112", "beef:1234::3:0/112"],
        ),
        ("2001:db8::/63", 64, &["2001:db8::/64", "2001:db8:0:1::/64"]),
        ("::/0", 1, &["::/1", "8000::/1"]),
        ("::/0", 0, &["::/0"]),
        ("0.0.0.0/0", 1, &["0.0.0.0/1", "128.0.0.0/1"]),
    ] {
        let mut set = set(cluster, prefix);
        assert_eq!(allocate(&mut set, 9), blocks, "{cluster}");
        assert_eq!((set.len(), set.used()), (blocks.len() as u64, blocks.len() as u64), "{cluster}");
        // What is released is given again.
        set.release(range(blocks[0])).unwrap();
        assert_eq!(allocate(&mut set, 9), blocks[..1], "{cluster}");
    }
}

#[test]
fn a_block_that_was_released_is_given_after_those_that_were_never_used() {
    let mut set = set("10.0.0.0/30", 32);
    assert_eq!(allocate(&mut set, 2), ["10.0.0.0/32", "10.0.0.1/32"]);
    set.release(range("10.0.0.0/32")).unwrap();
    assert_eq!(allocate(&mut set, 9), ["10.0.0.2/32", "10.0.0.3/32", "10.0.0.0/32"]);
}

#[test]
fn a_block_has_a_size_that_fits_into_the_range() {
    for (cluster, prefix, why) in [
        ("10.0.0.0/8", 7, BadSize::NotWithin),
        ("10.0.0.0/8", 33, BadSize::NotWithin),
        ("10.0.0.0/8", -1, BadSize::NotWithin),
        ("fd00::/48", 65, BadSize::TooMany),
        ("fd00::/48", 129, BadSize::NotWithin),
    ] {
        assert_eq!(CidrSet::new(range(cluster), prefix).unwrap_err(), why, "{cluster} {prefix}");
    }
    assert_eq!(set("fd00::/48", 64).len(), 65536);
    // So many blocks take no memory until somebody holds them.
    let mut all = set("0.0.0.0/0", 32);
    all.occupy(range("0.0.0.0/1")).unwrap();
    assert_eq!(all.used(), 1 << 31);
    assert_eq!(allocate(&mut all, 1), ["128.0.0.0/32"]);
}

#[test]
fn a_range_occupies_every_block_that_it_touches() {
    for (cluster, prefix, occupied, first, used) in [
        ("10.0.0.0/16", 24, "10.0.0.0/24", Some("10.0.1.0/24"), 1),
        ("10.0.0.0/16", 24, "10.0.1.0/24", Some("10.0.0.0/24"), 1),
        // Smaller than a block.
        ("10.0.0.0/16", 24, "10.0.0.128/28", Some("10.0.1.0/24"), 1),
        ("10.0.0.0/16", 24, "10.0.0.0/23", Some("10.0.2.0/24"), 2),
        ("10.0.0.0/16", 24, "10.0.0.0/16", None, 256),
        ("10.0.0.0/16", 24, "10.0.0.0/8", None, 256),
        ("10.0.0.0/16", 24, "0.0.0.0/0", None, 256),
        ("fd00::/56", 64, "fd00:0:0:80::/57", Some("fd00::/64"), 128),
        ("fd00::/56", 64, "fd00::/57", Some("fd00:0:0:80::/64"), 128),
    ] {
        let mut set = set(cluster, prefix);
        set.occupy(range(occupied)).unwrap();
        assert_eq!(set.used(), used, "{occupied}");
        assert_eq!(allocate(&mut set, 1).first().map(String::as_str), first, "{occupied}");
    }
    let mut other = set("10.0.0.0/16", 24);
    for outside in ["10.1.0.0/24", "192.168.0.0/16", "fd00::/64", "::/0"] {
        let error = other.occupy(range(outside)).unwrap_err().to_string();
        assert_eq!(error, format!("cidr {outside} is out the range of cluster cidr 10.0.0.0/16"));
        other.release(range(outside)).unwrap_err();
    }
    assert_eq!(other.used(), 0);
}

#[test]
fn activity_is_counted_by_blocks_that_change() {
    let mut set = set("10.0.0.0/16", 24);
    set.occupy(range("10.0.0.0/23")).unwrap();
    // Is in use already.
    set.occupy(range("10.0.1.0/24")).unwrap();
    assert_eq!(set.take_activity(), Activity { allocations: 2, ..Activity::default() });
    set.allocate_next().unwrap();
    assert_eq!(set.take_activity(), Activity { allocations: 1, tries: vec![2], ..Activity::default() });
    set.release(range("10.0.0.0/23")).unwrap();
    assert_eq!(set.take_activity(), Activity { releases: 1, ..Activity::default() });
    set.release(range("10.0.77.0/24")).unwrap();
    assert_eq!(set.take_activity(), Activity::default());
}

#[derive(Clone, Debug)]
enum Event {
    Allocate,
    /// A range of so many blocks, a power of two, at this place.
    Occupy(u32, u32),
    Release(u32, u32),
}

fn event() -> impl Strategy<Value = Event> {
    let at = || (0..4_u32, 0..16_u32);
    prop_oneof![
        3 => Just(Event::Allocate),
        2 => at().prop_map(|(bits, at)| Event::Occupy(bits, at)),
        2 => at().prop_map(|(bits, at)| Event::Release(bits, at)),
    ]
}

/// The blocks of a range in 10.0.0.0/24, of which each has 16 addresses, and the range.
fn blocks(bits: u32, at: u32) -> (std::ops::Range<usize>, ipnet::IpNet) {
    let begin = at >> bits << bits;
    let text = format!("10.0.0.{}/{}", begin * 16, 28 - bits);
    (begin as usize..(begin + (1 << bits)) as usize, range(&text))
}

proptest! {
    #[test]
    fn a_set_does_what_a_list_of_the_holders_of_each_block_does(events in vec(event(), 0..60)) {
        let mut set = set("10.0.0.0/24", 28);
        let mut held: Vec<std::ops::Range<usize>> = Vec::new();
        let (mut cursor, mut allocations, mut releases) = (0, 0, 0);
        let is_used = |held: &[std::ops::Range<usize>], block| held.iter().any(|range| range.contains(&block));
        for event in events {
            match event {
                Event::Allocate => {
                    let free = (0..16).map(|step| (cursor + step) % 16).find(|block| !is_used(&held, *block));
                    let expected = free.map(|block| format!("10.0.0.{}/28", block * 16));
                    prop_assert_eq!(set.allocate_next().map(|range| range.to_string()), expected);
                    if let Some(block) = free {
                        held.push(block..block + 1);
                        cursor = (block + 1) % 16;
                    }
                }
                Event::Occupy(bits, at) => {
                    let (blocks, range) = blocks(bits, at);
                    set.occupy(range).unwrap();
                    held.push(blocks);
                }
                Event::Release(bits, at) => {
                    let (blocks, range) = blocks(bits, at);
                    set.release(range).unwrap();
                    if let Some(at) = held.iter().position(|range| *range == blocks) {
                        held.swap_remove(at);
                    }
                }
            }
            let used = (0..16).filter(|block| is_used(&held, *block)).count() as u64;
            prop_assert_eq!(set.used(), used);
            let activity = set.take_activity();
            allocations += activity.allocations;
            releases += activity.releases;
            prop_assert_eq!(allocations - releases, used);
        }
    }
}
