//! The ranges that the flags name.

use std::net::IpAddr;

use ipnet::IpNet;
use steersman_kinds::ip::parse_sloppy;

use super::{CloudOptions, NodeIpamOptions};

/// The length of the prefix of a node's block, unless a flag says otherwise.
const DEFAULT_MASK_IPV4: i32 = 24;
const DEFAULT_MASK_IPV6: i32 = 64;

/// The ranges to allocate from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The cluster ranges, one or one of each IP family, each with the length of the prefix of a node's block.
    pub clusters: Vec<(IpNet, i32)>,
    /// The ranges of services' addresses, which no node may get.
    pub services: Vec<IpNet>,
}

/// The flags contradict each other. The messages are upstream's where upstream's are clear.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Invalid {
    #[error("built-in cloud providers are disabled. The ipam {0} is not available")]
    NotBuiltIn(String),
    #[error("invalid CIDR allocator type: ")]
    NoAllocator,
    #[error("Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set")]
    NoCluster,
    #[error("--cluster-cidr: invalid CIDR[{at}]: invalid CIDR address: {text}")]
    BadCluster { at: usize, text: String },
    #[error(
        "len of ClusterCIDRs=={0} and they are not configured as dual stack (at least one from each IPFamily)"
    )]
    NotDualStack(usize),
    #[error("length of clusterCIDRs is:{0} more than max allowed of 2")]
    TooManyClusters(usize),
    #[error("--service-cluster-ip-range can not contain more than two entries")]
    TooManyServices,
    #[error("serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)")]
    ServicesNotDualStack,
    #[error("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")]
    MaskOfDualStack,
    #[error(
        "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size \
         is set. For dual-stack clusters please unset it and use IPFamily specific flags"
    )]
    MasksBesideMask,
    #[error("usage of --node-cidr-mask-size-{mask} is not allowed for a single-stack {cluster} cluster")]
    MaskOfOtherFamily { mask: &'static str, cluster: &'static str },
}

impl Settings {
    /// Checks those flags that must be right even if no ranges are allocated.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(super) fn check(cloud: &CloudOptions, options: &NodeIpamOptions) -> Result<(), Invalid> {
        let allocator = &cloud.cidr_allocator_type;
        if !["", "RangeAllocator"].contains(&allocator.as_str()) {
            return Err(Invalid::NotBuiltIn(allocator.clone()));
        }
        if options.service_cidr.split(',').count() > 2 {
            return Err(Invalid::TooManyServices);
        }
        Ok(())
    }

    /// Reads the flags.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(super) fn of(cloud: &CloudOptions, options: &NodeIpamOptions) -> Result<Self, Invalid> {
        Self::check(cloud, options)?;
        if cloud.cidr_allocator_type.is_empty() {
            return Err(Invalid::NoAllocator);
        }
        let clusters = clusters(&cloud.cluster_cidr)?;
        let services = services(&options.service_cidr)?;
        let [ipv4, ipv6] = masks(options, &clusters)?;
        let with_mask = |cluster: IpNet| (cluster, if is_ipv6(&cluster) { ipv6 } else { ipv4 });
        Ok(Self { clusters: clusters.into_iter().map(with_mask).collect(), services })
    }
}

/// Parses a range as Go's `net.ParseCIDR` does, but ignores leading zeros in the parts of an IPv4 address. Upstream:
/// `ParseCIDRSloppy`.
pub(super) fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    if !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // An address such as ::ffff:10.0.0.0 stays one of IPv6 in a range: its prefix counts 128 bits.
    let address = address.parse::<IpAddr>().ok().or_else(|| parse_sloppy(address))?;
    Some(IpNet::new(address, prefix.parse().ok()?).ok()?.trunc())
}

fn clusters(text: &str) -> Result<Vec<IpNet>, Invalid> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Invalid::NoCluster);
    }
    let parse = |(at, text): (usize, &str)| {
        parse_cidr(text).ok_or_else(|| Invalid::BadCluster { at, text: text.to_owned() })
    };
    let clusters: Vec<IpNet> = text.split(',').enumerate().map(parse).collect::<Result<_, _>>()?;
    match clusters.len() {
        1 => Ok(clusters),
        count if !are_dual_stack(&clusters) => Err(Invalid::NotDualStack(count)),
        2 => Ok(clusters),
        count => Err(Invalid::TooManyClusters(count)),
    }
}

fn services(text: &str) -> Result<Vec<IpNet>, Invalid> {
    let parse = |text: &str| {
        let range = parse_cidr(text);
        if range.is_none() {
            // Upstream goes on without the range as well.
            tracing::warn!(
                cidr = text,
                "Unsuccessful parsing of service CIDR, its addresses are not kept free"
            );
        }
        range
    };
    let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let services: Vec<IpNet> = texts.filter_map(parse).collect();
    if services.len() == 2 && !are_dual_stack(&services) {
        return Err(Invalid::ServicesNotDualStack);
    }
    Ok(services)
}

/// The lengths of the prefixes of blocks of IPv4 and IPv6. Zero in an option stands for an absent flag. Upstream:
/// `setNodeCIDRMaskSizes`.
fn masks(options: &NodeIpamOptions, clusters: &[IpNet]) -> Result<[i32; 2], Invalid> {
    let given = |mask: i32| Some(mask).filter(|mask| *mask != 0);
    let (both, ipv4, ipv6) =
        (given(options.mask_size), given(options.mask_size_ipv4), given(options.mask_size_ipv6));
    let masks = [ipv4.unwrap_or(DEFAULT_MASK_IPV4), ipv6.unwrap_or(DEFAULT_MASK_IPV6)];
    let [cluster] = clusters else {
        return if both.is_some() { Err(Invalid::MaskOfDualStack) } else { Ok(masks) };
    };
    match both {
        Some(_) if ipv4.or(ipv6).is_some() => Err(Invalid::MasksBesideMask),
        Some(mask) => Ok([mask; 2]),
        None if ipv4.is_some() && is_ipv6(cluster) => {
            Err(Invalid::MaskOfOtherFamily { mask: "ipv4", cluster: "IPv6" })
        }
        None if ipv6.is_some() && !is_ipv6(cluster) => {
            Err(Invalid::MaskOfOtherFamily { mask: "ipv6", cluster: "IPv4" })
        }
        None => Ok(masks),
    }
}

fn is_ipv6(range: &IpNet) -> bool {
    matches!(range, IpNet::V6(_))
}

/// Whether there is a range of each IP family.
fn are_dual_stack(ranges: &[IpNet]) -> bool {
    ranges.iter().any(is_ipv6) && !ranges.iter().all(is_ipv6)
}
