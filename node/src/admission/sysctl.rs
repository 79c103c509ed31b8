//! Which kernel settings pods may have.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

use super::Rejection;

/// Settings that harm no other pod, and the kernel since which each belongs to a namespace (`0.0`: since ever).
const SAFE: [(&str, [u32; 2]); 12] = [
    ("kernel.shm_rmid_forced", [0, 0]),
    ("net.ipv4.ip_local_port_range", [0, 0]),
    ("net.ipv4.tcp_syncookies", [0, 0]),
    ("net.ipv4.ping_group_range", [0, 0]),
    ("net.ipv4.ip_unprivileged_port_start", [0, 0]),
    ("net.ipv4.ip_local_reserved_ports", [3, 16]),
    ("net.ipv4.tcp_keepalive_time", [4, 5]),
    ("net.ipv4.tcp_fin_timeout", [4, 6]),
    ("net.ipv4.tcp_keepalive_intvl", [4, 5]),
    ("net.ipv4.tcp_keepalive_probes", [4, 5]),
    ("net.ipv4.tcp_rmem", [4, 15]),
    ("net.ipv4.tcp_wmem", [4, 15]),
];

/// The longest name of a setting.
const MAX_LENGTH: usize = 253;

/// A namespace that settings belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipc => "IPC",
            Self::Net => "Net",
        })
    }
}

/// The settings that pods may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowlist(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// The name, or what names begin with.
    text: String,
    is_prefix: bool,
    namespace: Namespace,
}

/// A pattern of `--allowed-unsafe-sysctls` that can't be. Ends the node's start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no name.
    #[error("sysctl {0:?} is neither the name of a sysctl nor one that ends in \"*\"")]
    Malformed(String),
    /// Allowing it would have pods change the host.
    #[error("the sysctls {0:?} are not known to be namespaced")]
    NotNamespaced(String),
}

impl Allowlist {
    /// The safe settings of this kernel (`6.1.0-1-amd64`), and those that `allowedUnsafeSysctls` names; a name may end in
    /// `*`.
    ///
    /// # Errors
    /// The first pattern that can't be.
    pub fn new(kernel_version: &str, allowed_unsafe: &[String]) -> Result<Self, Error> {
        let kernel = version(kernel_version);
        let safe = SAFE
            .iter()
            .filter(|(_, since)| *since == [0, 0] || kernel.is_some_and(|kernel| kernel >= *since));
        let all = safe.map(|(name, _)| *name).chain(allowed_unsafe.iter().map(String::as_str));
        all.map(pattern).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the pod may have its settings.
    pub(super) fn check(&self, pod: &Pod) -> Result<(), Rejection> {
        let Some(spec) = &pod.spec else { return Ok(()) };
        let settings = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
        let (net, ipc) = (spec.host_network == Some(true), spec.host_ipc == Some(true));
        for setting in settings {
            self.check_one(&setting.name, net, ipc)
                .map_err(|error| Rejection::new("SysctlForbidden", format!("forbidden sysctl: {error}")))?;
        }
        Ok(())
    }

    fn check_one(&self, name: &str, host_network: bool, host_ipc: bool) -> Result<(), String> {
        let name = normal(name);
        // A name in full comes before what it begins with.
        let exact = self.0.iter().rfind(|pattern| !pattern.is_prefix && pattern.text == name);
        let begun = || self.0.iter().find(|pattern| pattern.is_prefix && name.starts_with(&pattern.text));
        let Some(pattern) = exact.or_else(begun) else { return Err(format!("{name:?} not allowlisted")) };
        let of_host = match pattern.namespace {
            Namespace::Ipc => host_ipc,
            Namespace::Net => host_network,
        };
        match of_host {
            true => Err(format!("{name:?} not allowed with host {} enabled", pattern.namespace)),
            false => Ok(()),
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, Error> {
    if !is_pattern(text) {
        return Err(Error::Malformed(text.to_owned()));
    }
    let name = normal(text);
    let (text, is_prefix) = match name.split_once('*') {
        Some((prefix, _)) => (prefix.to_owned(), true),
        None => (name, false),
    };
    match namespace(&text) {
        Some(namespace) => Ok(Pattern { text, is_prefix, namespace }),
        None => Err(Error::NotNamespaced(text)),
    }
}

/// Segments of small letters, digits, inner dashes and underscores, between dots or slashes; the last may end in `*`.
fn is_pattern(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| plain(byte) || byte == b'-' || byte == b'_';
    let mut segments: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b'.' || *byte == b'/').collect();
    let last = segments.pop().unwrap_or_default();
    let segment = |bytes: &[u8]| {
        let ends = bytes.first().copied().is_some_and(plain) && bytes.last().copied().is_some_and(plain);
        ends && bytes.iter().copied().all(inner)
    };
    let is_last = match last.split_last() {
        Some((end, rest)) => {
            let begins = rest.first().copied().is_none_or(plain);
            (plain(*end) || *end == b'*') && begins && rest.iter().copied().all(inner)
        }
        None => false,
    };
    text.len() <= MAX_LENGTH && segments.into_iter().all(segment) && is_last
}

/// With dots between the parts: where slashes are, dots and slashes change places.
pub(crate) fn normal(name: &str) -> String {
    match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'/') => name
            .chars()
            .map(|character| match character {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn namespace(name: &str) -> Option<Namespace> {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    if IPC.contains(&name) || name.starts_with("fs.mqueue.") {
        Some(Namespace::Ipc)
    } else {
        name.starts_with("net.").then_some(Namespace::Net)
    }
}

/// The first two numbers of a kernel's version.
fn version(text: &str) -> Option<[u32; 2]> {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit());
    Some([numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(kernel: &str, unsafe_ones: &[&str]) -> Result<Allowlist, Error> {
        let unsafe_ones: Vec<_> = unsafe_ones.iter().map(|one| (*one).to_owned()).collect();
        Allowlist::new(kernel, &unsafe_ones)
    }

    #[test]
    fn safe_settings_depend_on_the_kernel() {
        for (kernel, setting, allowed) in [
            ("6.1.0-1-amd64", "net.ipv4.tcp_rmem", true),
            ("4.15.0", "net.ipv4.tcp_rmem", true),
            ("4.14.99", "net.ipv4.tcp_rmem", false),
            ("3.10", "net.ipv4.ip_local_reserved_ports", false),
            ("3.10", "kernel.shm_rmid_forced", true),
            ("odd", "net.ipv4.tcp_fin_timeout", false),
            ("6.1", "net/ipv4/tcp_syncookies", true),
            ("6.1", "net.core.somaxconn", false),
            ("6.1", "kernel.msgmax", false),
        ] {
            let found = list(kernel, &[]).unwrap().check_one(setting, false, false);
            assert_eq!(found.is_ok(), allowed, "{kernel} {setting}: {found:?}");
        }
    }

    #[test]
    fn unsafe_settings_are_allowed_by_name_or_by_what_they_begin_with() {
        let list =
            list("6.1", &["net.core.*", "kernel.msg*", "fs/mqueue/msg_max", "net/ipv4/conf/eno2.100/*"])
                .unwrap();
        for (setting, expected) in [
            ("net.core.somaxconn", Ok(())),
            ("kernel.msgmax", Ok(())),
            ("fs.mqueue.msg_max", Ok(())),
            ("net.ipv4.conf.eno2/100.rp_filter", Ok(())),
            ("net.ipv4.conf.eno3/100.rp_filter", Err("\"net.ipv4.conf.eno3/100.rp_filter\" not allowlisted")),
            ("kernel.sem", Err("\"kernel.sem\" not allowlisted")),
        ] {
            assert_eq!(list.check_one(setting, false, false), expected.map_err(str::to_owned), "{setting}");
        }
        assert_eq!(
            list.check_one("net/core/somaxconn", true, false).unwrap_err(),
            "\"net.core.somaxconn\" not allowed with host Net enabled"
        );
        assert_eq!(
            list.check_one("kernel.msgmax", true, true).unwrap_err(),
            "\"kernel.msgmax\" not allowed with host IPC enabled"
        );
    }

    #[test]
    fn what_can_not_be_allowed_ends_the_start() {
        for text in ["", "a..b", "A.b", "net.*.x", "net.core.**", "-a", "a.", &"a".repeat(254)] {
            assert_eq!(list("6.1", &[text]), Err(Error::Malformed(text.to_owned())), "{text}");
        }
        for text in ["vm.swappiness", "kernel.panic", "kernel.*", "*", "netx.a"] {
            let prefix = text.split('*').next().unwrap_or_default().to_owned();
            assert_eq!(list("6.1", &[text]), Err(Error::NotNamespaced(prefix)), "{text}");
        }
    }
}
