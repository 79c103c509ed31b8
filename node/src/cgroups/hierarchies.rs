//! Where the kernel shows control groups.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Error;

/// Which of the kernel's two interfaces to control groups the machine uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
}

const MOUNTS: &str = "/proc/self/mountinfo";
/// What is mounted here decides on the version.
const USUAL_PLACE: &str = "/sys/fs/cgroup";
/// Options of a mount of version 1 that are controllers.
const CONTROLLERS: [&str; 14] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "misc",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
];

/// The mounted hierarchies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchies {
    /// The interface.
    pub version: CgroupVersion,
    /// Where each controller is; on version 2 all are in one place.
    pub controllers: BTreeMap<String, PathBuf>,
    /// On version 1, the hierarchy of version 2 that is mounted too, without controllers: runtimes make groups there as well,
    /// and leave those of pods behind.
    pub beside: Option<PathBuf>,
}

impl Hierarchies {
    /// Those that this process sees.
    ///
    /// # Errors
    /// There are none, or they can't be read.
    pub fn find() -> Result<Self, Error> {
        let mounts =
            fs::read_to_string(MOUNTS).map_err(|source| Error::Read { path: MOUNTS.into(), source })?;
        Self::parse(&mounts, |root| {
            let path = root.join("cgroup.controllers");
            fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
        })
    }

    /// Those of `mountinfo`. A hierarchy of version 2 at the usual place is the one, whatever else is mounted; one elsewhere
    /// only if none of version 1 has a controller. `controllers` reads which a hierarchy of version 2 has.
    fn parse(
        mountinfo: &str,
        controllers: impl FnOnce(&Path) -> Result<String, Error>,
    ) -> Result<Self, Error> {
        let mut v1: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut v2: Option<PathBuf> = None;
        let mut at_usual_place = "";
        for mount in mountinfo.lines().filter_map(Mount::parse) {
            // Of several mounts at one place the last one shows.
            if mount.place == Path::new(USUAL_PLACE) {
                at_usual_place = mount.kind;
            }
            match mount.kind {
                "cgroup" => {
                    for controller in mount.options.split(',').filter_map(controller) {
                        let place = v1.entry(controller.to_owned()).or_insert_with(|| mount.place.clone());
                        // Of several mounts of one hierarchy the one with the shortest path, as the kubelet takes it.
                        if mount.place.as_os_str().len() < place.as_os_str().len() {
                            place.clone_from(&mount.place);
                        }
                    }
                }
                "cgroup2" if v2.is_none() => v2 = Some(mount.place),
                _ => {}
            }
        }
        let root = if at_usual_place == "cgroup2" {
            PathBuf::from(USUAL_PLACE)
        } else if v1.keys().any(|controller| CONTROLLERS.contains(&controller.as_str())) {
            return Ok(Self { version: CgroupVersion::V1, controllers: v1, beside: v2 });
        } else {
            v2.ok_or(Error::NoHierarchy)?
        };
        let controllers = controllers(&root)?;
        let place = |controller: &str| (controller.to_owned(), root.clone());
        Ok(Self {
            version: CgroupVersion::V2,
            controllers: controllers.split_whitespace().map(place).collect(),
            beside: None,
        })
    }

    /// Each place once: several controllers may share one. The one [`beside`](Self::beside) is not among them.
    pub fn places(&self) -> Vec<&Path> {
        let mut places: Vec<&Path> = self.controllers.values().map(PathBuf::as_path).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The controller that an option of a mount names, without the prefix of those that control nothing but have a name.
fn controller(option: &str) -> Option<&str> {
    option.strip_prefix("name=").or_else(|| CONTROLLERS.contains(&option).then_some(option))
}

struct Mount<'a> {
    kind: &'a str,
    place: PathBuf,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// `36 35 98:0 /root /place rw,noatime shared:1 - cgroup source rw,cpu`
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let place = mount.split(' ').nth(4)?;
        let mut system = system.split(' ');
        let kind = system.next()?;
        Some(Self { kind, place: unescaped(place).into(), options: system.nth(1)? })
    }
}

/// The kernel writes spaces, tabs, newlines and backslashes as `\040` and so on.
fn unescaped(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (escape, text)| path.replace(escape, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
        23 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        33 31 0:29 / /mnt/with\\040space/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 /docker/1 /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/x,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V2: &str = "\
        30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n\
        31 23 0:26 / /mnt/again rw - cgroup2 cgroup2 rw\n";

    fn none(_: &Path) -> Result<String, Error> {
        unreachable!("version 1 says it in the mounts")
    }

    #[test]
    fn version_one_has_a_place_for_each_controller() {
        let found = Hierarchies::parse(V1, none).unwrap();
        assert_eq!(found.version, CgroupVersion::V1);
        let places: Vec<(&str, &str)> =
            found.controllers.iter().map(|(name, place)| (name.as_str(), place.to_str().unwrap())).collect();
        assert_eq!(
            places,
            [
                ("cpu", "/sys/fs/cgroup/cpu,cpuacct"),
                ("cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
                ("memory", "/sys/fs/cgroup/memory"),
                ("systemd", "/sys/fs/cgroup/systemd"),
            ]
        );
        assert_eq!(found.places().len(), 3);
        assert_eq!(found.beside.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn version_two_has_one_place_for_all() {
        let found = Hierarchies::parse(V2, |root| {
            assert_eq!(root, Path::new("/sys/fs/cgroup"));
            Ok("cpuset cpu memory\n".to_owned())
        });
        let found = found.unwrap();
        assert_eq!(found.version, CgroupVersion::V2);
        assert_eq!(found.controllers.keys().collect::<Vec<_>>(), ["cpu", "cpuset", "memory"]);
        assert_eq!(found.places(), [Path::new("/sys/fs/cgroup")]);
    }

    #[test]
    fn what_is_mounted_at_the_usual_place_decides_on_the_version() {
        let v1_elsewhere = "50 23 0:40 / /mnt/net_cls rw - cgroup cgroup rw,net_cls\n";
        let v2_elsewhere = "20 23 0:26 / /mnt/early rw - cgroup2 cgroup2 rw\n";
        let over = "60 23 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n";
        for (mounts, version, place) in [
            (format!("{V2}{v1_elsewhere}"), CgroupVersion::V2, "/sys/fs/cgroup"),
            (format!("{v2_elsewhere}{v1_elsewhere}{V2}"), CgroupVersion::V2, "/sys/fs/cgroup"),
            (format!("{v2_elsewhere}{V1}"), CgroupVersion::V1, "/sys/fs/cgroup/memory"),
            (format!("{V2}{over}{v1_elsewhere}"), CgroupVersion::V1, "/mnt/net_cls"),
            (v2_elsewhere.to_owned(), CgroupVersion::V2, "/mnt/early"),
        ] {
            let found = Hierarchies::parse(&mounts, |_| Ok("cpu memory\n".to_owned())).unwrap();
            assert_eq!(found.version, version, "{mounts}");
            assert!(found.places().contains(&Path::new(place)), "{mounts}{found:?}");
        }
    }

    #[test]
    fn a_machine_without_control_groups_is_told_so() {
        let error = Hierarchies::parse("23 1 8:1 / / rw - ext4 /dev/sda1 rw\n", none).unwrap_err();
        assert_eq!(error.to_string(), "no control groups are mounted");
    }

    #[test]
    fn paths_are_read_as_the_kernel_escapes_them() {
        assert_eq!(unescaped("/mnt/with\\040space\\134040"), "/mnt/with space\\040");
    }
}
