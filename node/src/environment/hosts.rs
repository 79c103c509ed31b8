//! The file that a pod's containers see as `/etc/hosts`.

use std::fmt::Write;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use k8s_openapi::api::core::v1::HostAlias;
use rustix::fs::{Mode, OFlags};

use crate::regular_file::open_regular;

const HEADER: &str = "# Kubernetes-managed hosts file.\n\
                      127.0.0.1\tlocalhost\n\
                      ::1\tlocalhost ip6-localhost ip6-loopback\n\
                      fe00::0\tip6-localnet\n\
                      fe00::0\tip6-mcastprefix\n\
                      fe00::1\tip6-allnodes\n\
                      fe00::2\tip6-allrouters\n";
const HOST_NETWORK_HEADER: &str = "# Kubernetes-managed hosts file (host network).\n";

/// The file of a pod with addresses of its own.
pub fn managed_hosts(pod_ips: &[String], hostname: &str, domain: &str, aliases: &[HostAlias]) -> String {
    let mut text = HEADER.to_owned();
    let names =
        if domain.is_empty() { hostname.to_owned() } else { format!("{hostname}.{domain}\t{hostname}") };
    for ip in pod_ips {
        line(&mut text, ip, &names);
    }
    text.push_str(&alias_lines(aliases));
    text
}

/// The file of a pod in the host's network: the node's own, `node_hosts`, and the aliases.
pub fn host_network_hosts(node_hosts: &[u8], aliases: &[HostAlias]) -> Vec<u8> {
    [HOST_NETWORK_HEADER.as_bytes(), node_hosts, alias_lines(aliases).as_bytes()].concat()
}

fn alias_lines(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let mut text = "\n# Entries added by HostAliases.\n".to_owned();
    for alias in aliases {
        line(&mut text, &alias.ip, &alias.hostnames.as_deref().unwrap_or_default().join("\t"));
    }
    text
}

fn line(text: &mut String, ip: &str, names: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(text, "{ip}\t{names}");
}

/// Makes the file be `content`, readable by all. It is changed in place: containers that run have this very file mounted,
/// and may write to it, so no more of it is read than `content` has. Blocking.
///
/// # Errors
/// The file system's, and that something else than a file is there.
pub fn write_hosts(path: &Path, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
    let file = open_regular(path, flags, Mode::from_raw_mode(0o644))?;
    if !is(&file, content)? {
        file.set_len(0)?;
        file.write_all_at(content, 0)?;
    }
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Whether that is what the file has.
fn is(file: &File, content: &[u8]) -> io::Result<bool> {
    if file.metadata()?.len() != content.len() as u64 {
        return Ok(false);
    }
    let mut present = vec![0; content.len()];
    match file.read_exact_at(&mut present, 0) {
        Ok(()) => Ok(present == content),
        // It was cut off meanwhile.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::regular_file::make_pipe;

    fn aliases() -> Vec<HostAlias> {
        let alias = |ip: &str, names: &[&str]| HostAlias {
            ip: ip.into(),
            hostnames: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        };
        vec![alias("10.1.1.1", &["a", "b.example.com"]), alias("fd00::1", &["c"])]
    }

    const ALIASES: &str = "\n# Entries added by HostAliases.\n10.1.1.1\ta\tb.example.com\nfd00::1\tc\n";

    #[test]
    fn a_pods_own_file_names_it_under_all_its_addresses() {
        let ips = ["10.2.0.3".to_owned(), "fd00::3".to_owned()];
        for (domain, aliases, expected) in [
            ("", vec![], "10.2.0.3\tweb\nfd00::3\tweb\n".to_owned()),
            (
                "farm.local",
                vec![],
                "10.2.0.3\tweb.farm.local\tweb\nfd00::3\tweb.farm.local\tweb\n".to_owned(),
            ),
            ("", aliases(), format!("10.2.0.3\tweb\nfd00::3\tweb\n{ALIASES}")),
        ] {
            let text = managed_hosts(&ips, "web", domain, &aliases);
            assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{text}");
            assert_eq!(text.strip_prefix(HEADER), Some(expected.as_str()));
        }
    }

    #[test]
    fn in_the_hosts_network_the_nodes_file_is_copied() {
        let text = host_network_hosts(b"127.0.0.1\tnode\n", &aliases());
        let expected = format!("# Kubernetes-managed hosts file (host network).\n127.0.0.1\tnode\n{ALIASES}");
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn the_file_is_changed_in_place_and_readable_by_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etc-hosts");
        write_hosts(&path, b"one, the longer one").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        write_hosts(&path, b"two").unwrap();
        let now = fs::metadata(&path).unwrap();
        assert_eq!((now.ino(), now.mode() & 0o777), (inode, 0o644));
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(write_hosts(&folder.path().join("none/etc-hosts"), b"").is_err());
    }

    /// What this thread has read so far.
    fn bytes_read() -> u64 {
        let told = fs::read_to_string("/proc/thread-self/io").unwrap();
        let read = told.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        read.parse().unwrap()
    }

    #[test]
    fn whatever_a_container_made_of_the_file_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etc-hosts");
        File::create(&path).unwrap().set_len(64 << 20).unwrap();
        let before = bytes_read();
        write_hosts(&path, b"own").unwrap();
        assert!(bytes_read() - before < 1 << 20, "what it grew to must not be read");
        for present in ["", "own", "mine", "other"] {
            fs::write(&path, present).unwrap();
            write_hosts(&path, b"own").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"own", "{present}");
        }
        let other = folder.path().join("other");
        fs::write(&other, "theirs").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        assert!(write_hosts(&path, b"own").is_err());
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        fs::remove_file(&path).unwrap();
        make_pipe(&path);
        assert!(write_hosts(&path, b"own").is_err());
    }
}
