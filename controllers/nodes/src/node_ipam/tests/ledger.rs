use super::super::ledger::{Certainty, Holding, Ledger};
use super::ledger;

fn proposed(ledger: &mut Ledger, node: &str) -> Result<Vec<String>, String> {
    let holding = ledger.propose(&node.into()).map_err(|error| error.to_string())?;
    assert_eq!(holding.certainty, Certainty::Proposed);
    Ok(texts(holding))
}

fn texts(holding: &Holding) -> Vec<String> {
    holding.ranges.iter().map(|range| range.map_or("-".to_owned(), |range| range.to_string())).collect()
}

fn written(ledger: &mut Ledger, node: &str, cidrs: &[&str]) -> Result<(), String> {
    let cidrs: Vec<_> = cidrs.iter().map(|cidr| (*cidr).into()).collect();
    ledger.written(&node.into(), node, &cidrs).map_err(|error| error.to_string())
}

#[test]
fn a_node_gets_a_block_of_each_range_and_keeps_it() {
    let mut ledger = ledger(&[("10.0.0.0/16", 24), ("fd00::/48", 64)], &[]);
    let first = ["10.0.0.0/24", "fd00::/64"].map(str::to_owned).to_vec();
    assert_eq!(proposed(&mut ledger, "a"), Ok(first.clone()));
    assert_eq!(proposed(&mut ledger, "a"), Ok(first.clone()), "it holds them already");
    assert_eq!(proposed(&mut ledger, "b").unwrap(), ["10.0.1.0/24", "fd00:0:0:1::/64"]);
    ledger.now(&"a".into(), Certainty::InDoubt);
    assert_eq!(ledger.holding(&"a".into()).unwrap().certainty, Certainty::InDoubt);
    written(&mut ledger, "a", &["10.0.0.0/24", "fd00::/64"]).unwrap();
    let holding = ledger.holding(&"a".into()).unwrap();
    assert_eq!((texts(holding), holding.certainty), (first, Certainty::Written));
}

#[test]
fn blocks_of_services_are_never_given_even_after_a_node_had_one() {
    let mut ledger = ledger(&[("10.0.0.0/30", 32)], &["10.0.0.0/31", "192.168.0.0/16", "fd00::/108"]);
    written(&mut ledger, "odd", &["10.0.0.1/32"]).unwrap();
    assert!(ledger.release(&"odd".into()));
    assert_eq!(proposed(&mut ledger, "a").unwrap(), ["10.0.0.2/32"]);
    assert_eq!(proposed(&mut ledger, "b").unwrap(), ["10.0.0.3/32"]);
    let full = proposed(&mut ledger, "c").unwrap_err();
    assert_eq!(
        full,
        "failed to allocate cidr from cluster cidr at idx:0: CIDR allocation failed; there are no remaining CIDRs \
         left to allocate in the accepted range"
    );
    // A service range may contain the cluster range.
    let mut none = super::ledger(&[("10.0.0.0/30", 32)], &["10.0.0.0/8"]);
    proposed(&mut none, "a").unwrap_err();
}

#[test]
fn a_node_that_finds_no_block_of_the_second_range_holds_none_of_the_first() {
    let mut ledger = ledger(&[("10.0.0.0/31", 32), ("fd00::/64", 64)], &[]);
    proposed(&mut ledger, "a").unwrap();
    assert!(proposed(&mut ledger, "b").unwrap_err().contains("at idx:1"));
    assert!(ledger.holding(&"b".into()).is_none());
    assert_eq!(ledger.sets()[0].used(), 1);
    assert!(ledger.release(&"a".into()));
    assert_eq!(proposed(&mut ledger, "b").unwrap().len(), 2);
}

#[test]
fn a_block_of_two_nodes_is_free_when_both_are_gone() {
    let mut ledger = ledger(&[("10.0.0.0/31", 32)], &[]);
    written(&mut ledger, "a", &["10.0.0.0/32"]).unwrap();
    written(&mut ledger, "b", &["10.0.0.0/32"]).unwrap();
    assert!(ledger.release(&"a".into()));
    assert!(!ledger.release(&"a".into()));
    assert_eq!(proposed(&mut ledger, "c").unwrap(), ["10.0.0.1/32"]);
    proposed(&mut ledger, "d").unwrap_err();
    assert!(ledger.release(&"b".into()));
    assert_eq!(proposed(&mut ledger, "d").unwrap(), ["10.0.0.0/32"]);
}

#[test]
fn a_node_with_other_ranges_than_were_proposed_gives_those_back() {
    let mut ledger = ledger(&[("10.0.0.0/30", 32)], &[]);
    assert_eq!(proposed(&mut ledger, "a").unwrap(), ["10.0.0.0/32"]);
    written(&mut ledger, "a", &["10.0.0.3/32"]).unwrap();
    assert_eq!(ledger.sets()[0].used(), 1);
    assert_eq!(proposed(&mut ledger, "b").unwrap(), ["10.0.0.1/32"]);
}

#[test]
fn a_node_holds_what_it_can_of_ranges_that_do_not_fit() {
    for (cidrs, error, held) in [
        (
            &["10.9.0.0/24"][..],
            "failed to mark cidr[10.9.0.0/24] at idx [0] as occupied for node: n: cidr 10.9.0.0/24 is out the range of cluster cidr 10.0.0.0/16",
            &["-"][..],
        ),
        (&["garbage"], "failed to parse node n, CIDR garbage", &["-"]),
        (
            &["10.0.5.0/24", "fd00::/64"],
            "node:n has an allocated cidr: fd00::/64 at index:1 that does not exist in cluster cidrs configuration",
            &["10.0.5.0/24", "-"],
        ),
    ] {
        let mut ledger = ledger(&[("10.0.0.0/16", 24)], &[]);
        assert_eq!(written(&mut ledger, "n", cidrs).unwrap_err(), error);
        assert_eq!(texts(ledger.holding(&"n".into()).unwrap()), held);
        let used = held.iter().filter(|range| **range != "-").count() as u64;
        assert_eq!(ledger.sets()[0].used(), used);
        assert!(ledger.release(&"n".into()));
        assert_eq!(ledger.sets()[0].used(), 0);
    }
}
