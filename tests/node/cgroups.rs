//! Where the control groups of this run are, in the notation of either driver.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::pods::container;

/// Where control groups are mounted: one hierarchy of version 2, or those of version 1.
pub const TOP: &str = "/sys/fs/cgroup";

/// The group under which all that the agent makes is.
pub struct Cgroups {
    /// `cgroupRoot`, without the `/`.
    pub root: String,
    /// Whether the runtime and the agent have systemd make groups: where the environment says `CGROUP_DRIVER=systemd`.
    pub by_systemd: bool,
}

impl Cgroups {
    #[allow(clippy::disallowed_methods, reason = "that is how the runtime's driver is named")]
    pub fn new(root: String) -> Self {
        let by_systemd = std::env::var("CGROUP_DRIVER").is_ok_and(|driver| driver == "systemd");
        Self { root, by_systemd }
    }

    /// `cgroupDriver`.
    pub fn driver(&self) -> &'static str {
        if self.by_systemd { "systemd" } else { "cgroupfs" }
    }

    /// The names from the root down as a path below where a hierarchy is mounted.
    fn path(&self, names: &[&str]) -> String {
        let names = [self.root.as_str()].into_iter().chain(names.iter().copied());
        if !self.by_systemd {
            return names.collect::<Vec<_>>().join("/");
        }
        let (mut slice, mut path) = (String::new(), Vec::new());
        for name in names {
            let name = name.replace('-', "_");
            slice = if slice.is_empty() { name } else { format!("{slice}-{name}") };
            path.push(format!("{slice}.slice"));
        }
        path.join("/")
    }

    /// The root's folder in each hierarchy there is.
    pub fn folders(&self) -> Vec<PathBuf> {
        let (top, root) = (Path::new(TOP), self.path(&[]));
        if version_2() {
            return vec![top.join(root)];
        }
        let mut hierarchies: Vec<_> = std::fs::read_dir(top)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| std::fs::canonicalize(entry.path()).ok())
            .collect();
        hierarchies.sort();
        hierarchies.dedup();
        hierarchies.into_iter().filter(|path| path.is_dir()).map(|path| path.join(&root)).collect()
    }

    /// A pod's group; `class` is `burstable`, `besteffort` or nothing.
    pub fn of_pod(&self, class: &str, pod: &Pod) -> String {
        let own = format!("pod{}", pod.metadata.uid.as_ref().unwrap());
        let names = ["kubepods", class, &own];
        self.path(&names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>())
    }

    /// The group of its container `main`, as containerd names it.
    pub fn of_container(&self, class: &str, pod: &Pod) -> String {
        let id = container(pod, "main").unwrap().container_id.unwrap();
        let id = id.strip_prefix("containerd://").unwrap();
        let pod = self.of_pod(class, pod);
        if self.by_systemd { format!("{pod}/cri-containerd-{id}.scope") } else { format!("{pod}/{id}") }
    }

    /// Whether a folder of that name is a pod's.
    pub fn is_of_pod(&self, folder: &str) -> bool {
        if self.by_systemd {
            folder.ends_with(".slice") && folder.contains("-pod")
        } else {
            folder.starts_with("pod")
        }
    }

    /// The slices of pods that systemd knows.
    pub fn slices_of_pods(&self) -> Vec<String> {
        if !self.by_systemd {
            return Vec::new();
        }
        let pattern = format!("{}-kubepods*-pod*.slice", self.root.replace('-', "_"));
        let listed = std::process::Command::new("systemctl")
            .args(["list-units", "--all", "--plain", "--no-legend", &pattern])
            .output()
            .expect("systemctl must start");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    /// Has systemd let go of all that is below the root.
    pub fn stop(&self) {
        if self.by_systemd {
            let slice = self.path(&[]);
            let _ = std::process::Command::new("systemctl").args(["stop", &slice]).status();
        }
    }
}

/// Whether the machine has control groups of version 2.
pub fn version_2() -> bool {
    Path::new(TOP).join("cgroup.controllers").exists()
}
