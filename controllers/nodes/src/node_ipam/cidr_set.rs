//! The blocks of one cluster range, one for each node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

/// Maximum number of bits by which a node's block of an IPv6 range may be smaller than the range. Upstream:
/// `clusterSubnetMaxDiff`.
const MAX_IPV6_BITS: u8 = 16;

/// A range of addresses, cut into blocks of one size. Nodes hold the blocks.
///
/// Several holders may have the same block: nodes whose users assigned it twice, or a node and a service range. A block is
/// free when the last of them has released it.
#[derive(Clone, Debug)]
pub(super) struct CidrSet {
    cluster: IpNet,
    /// The length of a block's prefix.
    block_prefix: u8,
    /// The number of blocks.
    len: u64,
    /// The block at which the search for the next free one begins: the one after the last that was allocated.
    cursor: u64,
    /// The number of holders of each block that something holds by itself.
    single: BTreeMap<u64, u32>,
    /// What holds several blocks at once: service ranges, and nodes with a larger range than a block.
    wide: Vec<RangeInclusive<u64>>,
    /// The number of blocks that are in `single` or `wide`.
    used: u64,
    activity: Activity,
}

/// What happened to the blocks since the last report, for the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Activity {
    /// The number of blocks that were free and are held now.
    pub allocations: u64,
    /// The number of blocks that became free.
    pub releases: u64,
    /// For each search: how many blocks it passed before it found a free one.
    pub tries: Vec<u64>,
}

/// A cluster range can't be cut into blocks of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadSize {
    /// The block is larger than the range, or its prefix is longer than an address. The message is upstream's.
    #[error(
        "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to \
         --node-cidr-mask-size configured for CIDR family"
    )]
    NotWithin,
    /// There would be more than 65,536 blocks of IPv6 addresses.
    #[error("New CIDR set failed; the node CIDR size is too big")]
    TooMany,
}

/// A range has no address in common with the cluster range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cidr {range} is out the range of cluster cidr {cluster}")]
pub(super) struct OutOfRange {
    range: IpNet,
    cluster: IpNet,
}

impl CidrSet {
    /// Cuts a range into blocks, all of them free.
    ///
    /// # Errors
    /// The range can't be cut into blocks of that size.
    pub(super) fn new(cluster: IpNet, block_prefix: i32) -> Result<Self, BadSize> {
        let block_prefix = u8::try_from(block_prefix).map_err(|_| BadSize::NotWithin)?;
        if !(cluster.prefix_len()..=cluster.max_prefix_len()).contains(&block_prefix) {
            return Err(BadSize::NotWithin);
        }
        let bits = block_prefix - cluster.prefix_len();
        if matches!(cluster, IpNet::V6(_)) && bits > MAX_IPV6_BITS {
            return Err(BadSize::TooMany);
        }
        Ok(Self {
            cluster: cluster.trunc(),
            block_prefix,
            len: 1 << bits,
            cursor: 0,
            single: BTreeMap::new(),
            wide: Vec::new(),
            used: 0,
            activity: Activity::default(),
        })
    }

    /// The range.
    pub(super) fn cluster(&self) -> IpNet {
        self.cluster
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The number of blocks that are not free.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Returns what happened since the last call.
    pub(super) fn take_activity(&mut self) -> Activity {
        std::mem::take(&mut self.activity)
    }

    /// Adds a holder to the next free block after the one that was allocated last. `None` if no block is free.
    pub(super) fn allocate_next(&mut self) -> Option<IpNet> {
        if self.used == self.len {
            return None;
        }
        let (mut block, mut tries) = (self.cursor, 0);
        while let Some(end) = self.end_of_used(block) {
            tries += end - block + 1;
            block = (end + 1) % self.len;
        }
        self.cursor = (block + 1) % self.len;
        self.add(block..=block);
        self.activity.tries.push(tries);
        Some(self.range_of(block))
    }

    /// Whether [`occupy`](Self::occupy) would accept a range.
    ///
    /// # Errors
    /// The range has no address in common with the cluster range.
    pub(super) fn check(&self, range: IpNet) -> Result<(), OutOfRange> {
        self.blocks_of(range).map(drop)
    }

    /// Adds a holder to all blocks that have an address in common with `range`.
    ///
    /// # Errors
    /// The range has no address in common with the cluster range.
    pub(super) fn occupy(&mut self, range: IpNet) -> Result<(), OutOfRange> {
        self.blocks_of(range).map(|blocks| self.add(blocks))
    }

    /// Removes a holder of `range`, if there is one.
    ///
    /// # Errors
    /// The range has no address in common with the cluster range.
    pub(super) fn release(&mut self, range: IpNet) -> Result<(), OutOfRange> {
        self.blocks_of(range).map(|blocks| self.remove(&blocks))
    }

    /// The last of the used blocks that `block` begins. `None` if the block is free.
    fn end_of_used(&self, block: u64) -> Option<u64> {
        let wide = self.wide.iter().find(|wide| wide.contains(&block)).map(|wide| *wide.end());
        wide.or_else(|| self.single.contains_key(&block).then_some(block))
    }

    fn is_in_wide(&self, block: u64) -> bool {
        self.wide.iter().any(|wide| wide.contains(&block))
    }

    fn add(&mut self, blocks: RangeInclusive<u64>) {
        let before = self.used;
        if blocks.start() == blocks.end() {
            let block = *blocks.start();
            let holders = self.single.entry(block).or_default();
            *holders = holders.saturating_add(1);
            if *holders == 1 && !self.is_in_wide(block) {
                self.used += 1;
            }
        } else {
            self.wide.push(blocks);
            self.used = self.count_used();
        }
        self.activity.allocations += self.used - before;
    }

    fn remove(&mut self, blocks: &RangeInclusive<u64>) {
        let before = self.used;
        if blocks.start() == blocks.end() {
            let block = *blocks.start();
            let Some(holders) = self.single.get_mut(&block) else { return };
            *holders -= 1;
            if *holders == 0 {
                self.single.remove(&block);
                if !self.is_in_wide(block) {
                    self.used -= 1;
                }
            }
        } else if let Some(at) = self.wide.iter().position(|wide| wide == blocks) {
            self.wide.swap_remove(at);
            self.used = self.count_used();
        }
        self.activity.releases += before - self.used;
    }

    /// Counts the used blocks anew. Needed only when something comes or goes that holds several of them.
    fn count_used(&self) -> u64 {
        let mut wide = self.wide.clone();
        wide.sort_unstable_by_key(|wide| *wide.start());
        // The first block after those that are counted already.
        let (mut next, mut count) = (0, 0);
        for range in &wide {
            let begin = next.max(*range.start());
            if begin <= *range.end() {
                count += range.end() - begin + 1;
                next = range.end() + 1;
            }
        }
        let singles = self.single.keys().filter(|block| !self.is_in_wide(**block)).count();
        count + u64::try_from(singles).expect("the number of blocks must fit into 64 bits")
    }

    /// The blocks that have an address in common with `range`.
    fn blocks_of(&self, range: IpNet) -> Result<RangeInclusive<u64>, OutOfRange> {
        if range.contains(&self.cluster) {
            return Ok(0..=self.len - 1);
        }
        if !self.cluster.contains(&range) {
            return Err(OutOfRange { range, cluster: self.cluster });
        }
        Ok(self.block_at(range.network())..=self.block_at(range.broadcast()))
    }

    /// The block that has an address of the cluster range.
    fn block_at(&self, address: IpAddr) -> u64 {
        let offset = number(address) - number(self.cluster.network());
        // A block may have all addresses of its family. Then it is the only one, and a shift by that many bits overflows.
        let block = offset.checked_shr(self.bits_in_block()).unwrap_or_default();
        u64::try_from(block).expect("the number of blocks must fit into 64 bits")
    }

    fn range_of(&self, block: u64) -> IpNet {
        let offset = u128::from(block).checked_shl(self.bits_in_block()).unwrap_or_default();
        let begin = number(self.cluster.network()) + offset;
        let address = match self.cluster {
            IpNet::V4(_) => {
                let begin = u32::try_from(begin).expect("an address of an IPv4 range must fit into 32 bits");
                Ipv4Addr::from(begin).into()
            }
            IpNet::V6(_) => Ipv6Addr::from(begin).into(),
        };
        IpNet::new(address, self.block_prefix).expect("a block's prefix must fit into its address")
    }

    fn bits_in_block(&self) -> u32 {
        u32::from(self.cluster.max_prefix_len() - self.block_prefix)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}
