//! Processor time, in the kernel's units and back. An amount is in thousandths of a processor throughout.

/// The fewest shares the kernel knows: what who asks for nothing gets.
pub const MIN_SHARES: u64 = 2;
/// The most shares the kernel knows.
pub const MAX_SHARES: u64 = 262_144;
/// The kernel's shortest quota, in microseconds.
const MIN_QUOTA: i64 = 1000;
const MAX_WEIGHT: u64 = 10_000;
const SHARES_PER_CPU: i64 = 1024;
const MILLI: i64 = 1000;

/// The relative weight (`cpu.shares`) of who asks for this much.
pub fn shares_of_milli_cpu(milli_cpu: i64) -> u64 {
    let shares = milli_cpu.saturating_mul(SHARES_PER_CPU) / MILLI;
    u64::try_from(shares).unwrap_or(MIN_SHARES).clamp(MIN_SHARES, MAX_SHARES)
}

/// What such a weight asks for, rounded up.
pub fn milli_cpu_of_shares(shares: u64) -> i64 {
    if shares < MIN_SHARES {
        return 0;
    }
    let shares = i64::try_from(shares).unwrap_or(i64::MAX);
    shares.saturating_mul(MILLI).saturating_add(SHARES_PER_CPU - 1) / SHARES_PER_CPU
}

/// What may be used of each period, in the period's microseconds: 0 for no limit at all, and never less than the kernel
/// takes.
pub fn quota_of_milli_cpu(milli_cpu: i64, period: i64) -> i64 {
    if milli_cpu == 0 { 0 } else { (milli_cpu.saturating_mul(period) / MILLI).max(MIN_QUOTA) }
}

/// The limit that a quota comes to; 0 for none.
pub fn milli_cpu_of_quota(quota: i64, period: i64) -> i64 {
    if quota <= 0 || period <= 0 { 0 } else { quota.saturating_mul(MILLI) / period }
}

/// The weight of version 2 (`cpu.weight`, 1 to 10,000) in the place of shares: on a straight line from fewest to most, so that
/// weights keep the proportions of what was asked for. Runtimes may convert otherwise for containers; only siblings are
/// weighed against each other, and those are all converted by one.
pub fn weight_of_shares(shares: u64) -> u64 {
    let above = shares.clamp(MIN_SHARES, MAX_SHARES) - MIN_SHARES;
    1 + above * (MAX_WEIGHT - 1) / (MAX_SHARES - MIN_SHARES)
}

/// The shares in the place of a weight.
pub fn shares_of_weight(weight: u64) -> u64 {
    MIN_SHARES + (weight.clamp(1, MAX_WEIGHT) - 1) * (MAX_SHARES - MIN_SHARES) / (MAX_WEIGHT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_shares_within_what_the_kernel_takes() {
        for (milli_cpu, shares) in [
            (-1, 2),
            (0, 2),
            (1, 2),
            (2, 2),
            (3, 3),
            (100, 102),
            (250, 256),
            (500, 512),
            (1000, 1024),
            (2000, 2048),
            (256_000, 262_144),
            (512_000, 262_144),
            (i64::MAX, 262_144),
        ] {
            assert_eq!(shares_of_milli_cpu(milli_cpu), shares, "{milli_cpu}m");
        }
    }

    #[test]
    fn shares_say_what_was_asked_for() {
        for (shares, milli_cpu) in
            [(0, 0), (1, 0), (2, 2), (51, 50), (102, 100), (512, 500), (1024, 1000), (2048, 2000)]
        {
            assert_eq!(milli_cpu_of_shares(shares), milli_cpu, "{shares}");
        }
    }

    #[test]
    fn limits_become_quotas_of_a_millisecond_at_least() {
        const DEFAULT: i64 = 100_000;
        for (milli_cpu, period, quota) in [
            (0, DEFAULT, 0),
            (5, DEFAULT, 1000),
            (9, DEFAULT, 1000),
            (10, DEFAULT, 1000),
            (200, DEFAULT, 20_000),
            (500, DEFAULT, 50_000),
            (1500, DEFAULT, 150_000),
            (500, 5000, 2500),
            (500, 2000, 1000),
            (100, 5000, 1000),
            (i64::MAX, DEFAULT, i64::MAX / 1000),
        ] {
            assert_eq!(quota_of_milli_cpu(milli_cpu, period), quota, "{milli_cpu}m of {period}");
        }
        for (quota, period, milli_cpu) in
            [(-1, DEFAULT, 0), (0, DEFAULT, 0), (50_000, DEFAULT, 500), (2500, 5000, 500), (1000, 0, 0)]
        {
            assert_eq!(milli_cpu_of_quota(quota, period), milli_cpu, "{quota} of {period}");
        }
    }

    #[test]
    fn shares_and_weights_lie_on_a_straight_line() {
        for (shares, weight) in
            [(0, 1), (2, 1), (3, 1), (102, 4), (1024, 39), (2048, 79), (262_143, 9999), (262_144, 10_000)]
        {
            assert_eq!(weight_of_shares(shares), weight, "{shares}");
        }
        for (weight, shares) in
            [(0, 2), (1, 2), (2, 28), (3, 54), (4, 80), (245, 6398), (10_000, 262_144), (20_000, 262_144)]
        {
            assert_eq!(shares_of_weight(weight), shares, "{weight}");
        }
        assert!(
            (1..=MAX_WEIGHT).all(|weight| weight_of_shares(shares_of_weight(weight)).abs_diff(weight) <= 1)
        );
    }
}
