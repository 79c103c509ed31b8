//! Which node holds which blocks.

use std::collections::HashMap;

use ipnet::IpNet;
use steersman_api::{ArcStr, Uid};

use super::cidr_set::{BadSize, CidrSet, OutOfRange};
use super::settings::{Settings, parse_cidr};

/// The blocks of all cluster ranges, and the nodes that hold them.
///
/// A node holds blocks from when they are proposed to it, before they are written, until it is deleted. So no other node gets
/// them, whatever the outcome of the write.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// One for each cluster range, in the order of the flag. The first range of a node is of the first one, and so on.
    sets: Vec<CidrSet>,
    nodes: HashMap<Uid, Holding>,
}

/// The blocks of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    /// One for each cluster range. Of a node whose ranges its user assigned, those that are parts of cluster ranges: the
    /// place of each is that of its cluster range.
    pub ranges: Vec<Option<IpNet>>,
    /// How certain it is that the node has them.
    pub certainty: Certainty,
}

/// How certain it is that a node has the blocks that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// No write of them has begun.
    Proposed,
    /// The outcome of a write is unknown.
    InDoubt,
    /// The API server has shown them.
    Written,
}

/// A node has a range that the cluster ranges do not provide for. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    #[error("failed to parse node {node}, CIDR {cidr}")]
    Unparseable { node: String, cidr: ArcStr },
    #[error(
        "node:{node} has an allocated cidr: {cidr} at index:{at} that does not exist in cluster cidrs configuration"
    )]
    NoSuchRange { node: String, cidr: ArcStr, at: usize },
    #[error("failed to mark cidr[{cidr}] at idx [{at}] as occupied for node: {node}: {why}")]
    OutOfRange { node: String, cidr: ArcStr, at: usize, why: OutOfRange },
}

/// All blocks of a cluster range are held. The message is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to allocate cidr from cluster cidr at idx:{at}: CIDR allocation failed; there are no remaining CIDRs left \
     to allocate in the accepted range"
)]
pub(super) struct Exhausted {
    at: usize,
}

impl Ledger {
    /// No node holds anything. The blocks that services get addresses from are never free.
    ///
    /// # Errors
    /// A cluster range can't be cut into blocks of the wanted size.
    pub(super) fn new(settings: &Settings) -> Result<Self, BadSize> {
        let cut = |(cluster, block_prefix): &(IpNet, i32)| CidrSet::new(*cluster, *block_prefix);
        let mut sets = settings.clusters.iter().map(cut).collect::<Result<Vec<_>, _>>()?;
        for set in &mut sets {
            for service in &settings.services {
                // Most service ranges are outside of the cluster ranges.
                _ = set.occupy(*service);
            }
        }
        Ok(Self { sets, nodes: HashMap::new() })
    }

    /// The blocks, by cluster range.
    pub(super) fn sets(&mut self) -> &mut [CidrSet] {
        &mut self.sets
    }

    /// What a node holds.
    pub(super) fn holding(&self, node: &Uid) -> Option<&Holding> {
        self.nodes.get(node)
    }

    /// The nodes that hold something.
    pub(super) fn nodes(&self) -> Vec<Uid> {
        self.nodes.keys().cloned().collect()
    }

    /// Records the ranges that a node has, as the API server shows it.
    ///
    /// # Errors
    /// The cluster ranges do not provide for one of them. The node holds the others all the same.
    pub(super) fn written(&mut self, node: &Uid, name: &str, cidrs: &[ArcStr]) -> Result<(), Misfit> {
        let (ranges, result) = self.parse(name, cidrs);
        let new = Holding { ranges, certainty: Certainty::Written };
        if self.nodes.get(node).is_none_or(|held| held.ranges != new.ranges) {
            // Before the old ones become free, so that none that stays is free meanwhile.
            self.each(&new, CidrSet::occupy);
            self.release(node);
        }
        self.nodes.insert(node.clone(), new);
        result
    }

    /// Holds the next free blocks for a node, one of each cluster range.
    ///
    /// # Errors
    /// A cluster range has none. The node holds nothing then.
    pub(super) fn propose(&mut self, node: &Uid) -> Result<&Holding, Exhausted> {
        if !self.nodes.contains_key(node) {
            let mut ranges = Vec::new();
            for at in 0..self.sets.len() {
                let Some(range) = self.sets[at].allocate_next() else {
                    self.each(&Holding { ranges, certainty: Certainty::Proposed }, CidrSet::release);
                    return Err(Exhausted { at });
                };
                ranges.push(Some(range));
            }
            self.nodes.insert(node.clone(), Holding { ranges, certainty: Certainty::Proposed });
        }
        Ok(&self.nodes[node])
    }

    /// Records what the outcome of a write says about the blocks of a node. Does nothing if the node holds none: it is gone.
    pub(super) fn now(&mut self, node: &Uid, certainty: Certainty) {
        if let Some(held) = self.nodes.get_mut(node) {
            held.certainty = certainty;
        }
    }

    /// Releases the blocks of a node. Returns whether it held any.
    pub(super) fn release(&mut self, node: &Uid) -> bool {
        let Some(held) = self.nodes.remove(node) else { return false };
        self.each(&held, CidrSet::release);
        true
    }

    fn each(&mut self, holding: &Holding, change: fn(&mut CidrSet, IpNet) -> Result<(), OutOfRange>) {
        for (set, range) in self.sets.iter_mut().zip(&holding.ranges) {
            if let Some(range) = range {
                change(set, *range).expect("a held range must be a part of its cluster range");
            }
        }
    }

    /// The ranges that are parts of the cluster ranges, and the first error about the others.
    fn parse(&self, node: &str, cidrs: &[ArcStr]) -> (Vec<Option<IpNet>>, Result<(), Misfit>) {
        let mut result = Ok(());
        let mut ranges = Vec::new();
        for (at, cidr) in cidrs.iter().enumerate() {
            let (node, cidr) = (node.to_owned(), cidr.clone());
            let range = match (parse_cidr(&cidr), self.sets.get(at)) {
                (None, _) => Err(Misfit::Unparseable { node, cidr }),
                (_, None) => Err(Misfit::NoSuchRange { node, cidr, at }),
                (Some(range), Some(set)) => match set.check(range) {
                    Ok(()) => Ok(range),
                    Err(why) => Err(Misfit::OutOfRange { node, cidr, at, why }),
                },
            };
            ranges.push(range.as_ref().ok().copied());
            result = result.and(range.map(drop));
        }
        (ranges, result)
    }
}
