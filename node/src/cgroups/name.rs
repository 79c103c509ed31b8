//! Where a group is in the tree, in the notation of either driver.

use steersman_api::Uid;

/// Who makes control groups on this machine, and so how they are named. The runtime must be set to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Whoever needs one makes a folder: `/kubepods/burstable/pod<uid>`.
    Cgroupfs,
    /// They are slices of systemd: `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice`, a `-` within
    /// a name being `_`.
    Systemd,
}

const SLICE: &str = ".slice";
const POD_PREFIX: &str = "pod";

/// A group by the names of those above it and its own, whatever the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupName(Vec<String>);

impl GroupName {
    /// The group at a path such as `/kubepods/burstable`; `/` is the root.
    pub fn parse(path: &str) -> Self {
        Self(path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// The group that the driver has at that path. Of slices the last one counts, with or without its ending, since it says which
    /// those are that it is in: `/system`, `system.slice`, `/kube.slice/kube-daemons.slice`.
    pub fn of_driver(path: &str, driver: CgroupDriver) -> Self {
        match driver {
            CgroupDriver::Cgroupfs => Self::parse(path),
            CgroupDriver::Systemd => {
                let slice = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                let parts = slice.strip_suffix(SLICE).unwrap_or(slice).split('-');
                Self(parts.filter(|part| !part.is_empty()).map(|part| part.replace('_', "-")).collect())
            }
        }
    }

    /// A group in this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self(self.0.iter().map(String::as_str).chain([name]).map(str::to_owned).collect())
    }

    /// A pod's group in this one; `None` for a uid that can't be read back from the name of a folder. Uids of the API server
    /// and of static pods without one of their own always can.
    #[must_use]
    pub fn pod(&self, uid: &Uid) -> Option<Self> {
        let uid = uid.to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        (!uid.is_empty() && uid.chars().all(plain)).then(|| self.child(&format!("{POD_PREFIX}{uid}")))
    }

    /// Its path below where a hierarchy is mounted, with a leading `/`.
    pub fn path(&self, driver: CgroupDriver) -> String {
        match driver {
            CgroupDriver::Cgroupfs => format!("/{}", self.0.join("/")),
            CgroupDriver::Systemd if self.0.is_empty() => "/".to_owned(),
            CgroupDriver::Systemd => self.slices(),
        }
    }

    /// Each slice is in those that its name begins with.
    fn slices(&self) -> String {
        let (mut path, mut slice) = (String::new(), String::new());
        for part in &self.0 {
            if !slice.is_empty() {
                slice.push('-');
            }
            slice.push_str(&part.replace('-', "_"));
            path.extend(["/", &slice, SLICE]);
        }
        path
    }

    /// The names from the root down, as upstream's messages show them: `["kubepods" "burstable"]`.
    pub fn quoted(&self) -> String {
        let parts: Vec<String> = self.0.iter().map(|part| format!("{part:?}")).collect();
        format!("[{}]", parts.join(" "))
    }
}

/// The pod whose group a folder is, by the folder's name.
pub fn pod_of_folder(folder: &str, driver: CgroupDriver) -> Option<Uid> {
    let name = match driver {
        CgroupDriver::Cgroupfs => folder.to_owned(),
        CgroupDriver::Systemd => folder.strip_suffix(SLICE)?.rsplit('-').next()?.replace('_', "-"),
    };
    name.strip_prefix(POD_PREFIX).filter(|uid| !uid.is_empty()).map(Uid::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_or_slices() {
        let uid = "6c1a4e95-6bb6-11e6-bc26-28d2444e470d";
        for (path, fs, systemd) in [
            ("/", "/", "/"),
            ("", "/", "/"),
            ("/system", "/system", "/system.slice"),
            ("/a/b/", "/a/b", "/a.slice/a-b.slice"),
            ("/Burstable/pod-123", "/Burstable/pod-123", "/Burstable.slice/Burstable-pod_123.slice"),
        ] {
            let name = GroupName::parse(path);
            assert_eq!(name.path(CgroupDriver::Cgroupfs), fs);
            assert_eq!(name.path(CgroupDriver::Systemd), systemd);
        }
        let pod = GroupName::parse("/kubepods").child("besteffort").pod(&Uid::from(uid)).unwrap();
        assert_eq!(pod.path(CgroupDriver::Cgroupfs), format!("/kubepods/besteffort/pod{uid}"));
        assert_eq!(
            pod.path(CgroupDriver::Systemd),
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod6c1a4e95_6bb6_11e6_bc26_28d2444e470d.slice"
        );
        assert_eq!(GroupName::parse("/a/kubepods").quoted(), r#"["a" "kubepods"]"#);
    }

    #[test]
    fn groups_of_the_host_are_named_as_the_driver_names_them() {
        use CgroupDriver::{Cgroupfs, Systemd};
        for (driver, named, path) in [
            (Cgroupfs, "/system.slice", "/system.slice"),
            (Cgroupfs, "daemons/kube/", "/daemons/kube"),
            (Systemd, "/system", "/system.slice"),
            (Systemd, "system.slice", "/system.slice"),
            (Systemd, "/kube.slice/kube-daemons.slice", "/kube.slice/kube-daemons.slice"),
            (Systemd, "/kube-node_daemons", "/kube.slice/kube-node_daemons.slice"),
            (Systemd, "/", "/"),
            (Systemd, "-.slice", "/"),
        ] {
            assert_eq!(GroupName::of_driver(named, driver).path(driver), path, "{named}");
        }
    }

    #[test]
    fn pods_read_back_from_their_folders() {
        use CgroupDriver::{Cgroupfs, Systemd};
        for (folder, driver, uid) in [
            ("podab-cd", Cgroupfs, Some("ab-cd")),
            ("poda.podb", Cgroupfs, Some("a.podb")),
            ("pod", Cgroupfs, None),
            ("burstable", Cgroupfs, None),
            ("cpu.shares", Cgroupfs, None),
            ("kubepods-burstable-podab_cd.slice", Systemd, Some("ab-cd")),
            ("kubepods-podab_cd.slice", Systemd, Some("ab-cd")),
            ("kubepods-burstable.slice", Systemd, None),
            ("cri-containerd-podab.scope", Systemd, None),
        ] {
            assert_eq!(pod_of_folder(folder, driver), uid.map(Uid::from), "{folder}");
        }
    }

    #[test]
    fn no_uid_leads_out_of_the_tree() {
        let root = GroupName::default();
        for uid in ["", "..", "../x", "a/b", "a_b", "a b", "ä"] {
            let name = root.pod(&Uid::from(uid)).map(|name| name.path(CgroupDriver::Cgroupfs));
            // Two dots are harmless behind the prefix.
            assert_eq!(name.as_deref(), (uid == "..").then_some("/pod.."), "{uid:?}");
        }
    }
}
