use steersman_controller::plan::Plan;

use super::plan::{Annotate, Observed, plan};
use super::size::ClusterSize;

#[test]
fn the_ttl_follows_the_size_of_the_cluster_with_hysteresis() {
    for (name, sizes) in [
        ("a small cluster", &[(0, 0), (1, 0), (90, 0), (100, 0)][..]),
        ("it grows", &[(100, 0), (101, 15), (500, 15), (501, 30), (1001, 60), (2001, 300), (50_000, 300)]),
        ("it shrinks", &[(2001, 300), (1800, 300), (1799, 60), (899, 30), (449, 15), (89, 0)]),
        ("it varies around a bound", &[(101, 15), (99, 15), (101, 15), (90, 15), (89, 0), (100, 0)]),
        ("many nodes come and go at once", &[(600, 30), (95, 15), (3, 0), (5000, 300), (0, 0)]),
    ] {
        let cluster = ClusterSize::default();
        let mut before = cluster.ttl();
        for (nodes, ttl) in sizes {
            let changed = cluster.resize(*nodes);
            assert_eq!((cluster.ttl(), changed), (*ttl, before != *ttl), "{name}: {nodes} nodes");
            before = *ttl;
        }
    }
}

#[test]
fn a_node_is_annotated_unless_it_has_the_ttl_already() {
    for (name, current, wanted, written) in [
        ("a new node", None, 0, true),
        ("a new node of a larger cluster", None, 15, true),
        ("it has the TTL", Some(15), 15, false),
        ("it has the TTL of a small cluster", Some(0), 0, false),
        ("it has another one", Some(0), 15, true),
        ("the cluster has shrunk", Some(30), 15, true),
    ] {
        let expected = if written { Plan::step(Annotate(wanted)) } else { Plan::done() };
        assert_eq!(plan(Observed { current, wanted }), expected, "{name}");
    }
}
