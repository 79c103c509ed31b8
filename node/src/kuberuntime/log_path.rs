//! Where the logs of pods and containers are.

use std::path::{Path, PathBuf};

use steersman_api::Uid;

/// Where the logs of all pods are, unless the configuration says otherwise.
pub const POD_LOGS_DIRECTORY: &str = "/var/log/pods";
/// Where links to the logs of all containers are, for collectors of the old way.
pub const LEGACY_CONTAINER_LOGS_DIRECTORY: &str = "/var/log/containers";

/// No file name of ext4 may be longer, in bytes.
const MAX_FILE_NAME: usize = 255;
const LEGACY_SUFFIX: &str = ".log";

/// The folder of a pod's logs: `<root>/<namespace>_<name>_<uid>`.
pub fn pod_logs_directory(root: &Path, namespace: &str, name: &str, uid: &Uid) -> PathBuf {
    root.join(format!("{namespace}_{name}_{uid}"))
}

/// The folder of one container's logs, below its pod's.
pub fn container_logs_directory(
    root: &Path,
    namespace: &str,
    name: &str,
    uid: &Uid,
    container: &str,
) -> PathBuf {
    pod_logs_directory(root, namespace, name, uid).join(container)
}

/// A container's log relative to its pod's folder, as the runtime is told it: `<container>/<restarts>.log`.
pub fn container_log_path(container: &str, restart_count: u32) -> String {
    format!("{container}/{restart_count}.log")
}

/// The uid in the name of a pod's log folder; a name without underscores is the uid itself, as it once was.
pub fn pod_uid_of_directory(name: &str) -> Uid {
    Uid::from(name.rsplit('_').next().unwrap_or(name))
}

/// The link to a container's log in `root`, its name cut to what a file name may be. Whatever the runtime says that the container
/// and its pod are called, it is a file in that folder.
pub fn legacy_log_symlink(
    root: &Path,
    namespace: &str,
    pod: &str,
    container: &str,
    container_id: &str,
) -> PathBuf {
    let mut name = format!("{pod}_{namespace}_{container}-{container_id}").replace('/', "_");
    let mut longest = (MAX_FILE_NAME - LEGACY_SUFFIX.len()).min(name.len());
    while !name.is_char_boundary(longest) {
        longest -= 1;
    }
    name.truncate(longest);
    root.join(name + LEGACY_SUFFIX)
}

/// The restart count of a container whose earlier ones the runtime has forgotten: one more than the highest among the
/// `names` of files in its log folder (`3.log`, and rotated ones like `3.log.20261121-105606`), or 0. So no log is written
/// over.
pub fn restart_count_by_logs<'a>(names: impl IntoIterator<Item = &'a str>) -> u32 {
    let count = |name: &str| {
        let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = name.split_at(digits);
        // A number that no restart count can be is somebody else's file.
        rest.starts_with(LEGACY_SUFFIX).then(|| number.parse::<u32>().ok()).flatten()
    };
    names.into_iter().filter_map(count).max().map_or(0, |highest| highest.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_kubelets() {
        let (root, uid) = (Path::new(POD_LOGS_DIRECTORY), Uid::from("u-1"));
        assert_eq!(pod_logs_directory(root, "shop", "web", &uid), Path::new("/var/log/pods/shop_web_u-1"));
        let container = container_logs_directory(root, "shop", "web", &uid, "app");
        assert_eq!(container, Path::new("/var/log/pods/shop_web_u-1/app"));
        assert_eq!(container_log_path("app", 3), "app/3.log");
    }

    #[test]
    fn the_uid_reads_back_from_the_folder() {
        assert_eq!(pod_uid_of_directory("shop_web_u-1"), Uid::from("u-1"));
        assert_eq!(pod_uid_of_directory("u-1"), Uid::from("u-1"));
    }

    #[test]
    fn links_name_the_container_and_stay_within_a_file_name() {
        let root = Path::new(LEGACY_CONTAINER_LOGS_DIRECTORY);
        let link = legacy_log_symlink(root, "shop", "web", "app", "4f1c");
        assert_eq!(link, Path::new("/var/log/containers/web_shop_app-4f1c.log"));
        let long = legacy_log_symlink(root, "shop", &"w".repeat(250), "app", "4f1c");
        let name = long.file_name().and_then(|name| name.to_str()).unwrap();
        assert_eq!(name, format!("{}_.log", "w".repeat(250)));
        assert_eq!(name.len(), MAX_FILE_NAME);
        let astray = legacy_log_symlink(root, "shop", "../web", "app", "/../id");
        assert_eq!(astray, Path::new("/var/log/containers/.._web_shop_app-_.._id.log"));
    }

    #[test]
    fn the_next_restart_count_is_above_all_logs() {
        for (names, count) in [
            (&[][..], 0),
            (&["0.log"], 1),
            (&["0.log", "3.log", "2.log"], 4),
            (&["5.log.20261121-105606", "5.log", "5.log.20261121-105606.gz"], 6),
            (&["app.log", "log", "1.txt", "x3.log", ".log"], 0),
            (&["99999999999999999999.log", "1.log"], 2),
        ] {
            assert_eq!(restart_count_by_logs(names.iter().copied()), count, "{names:?}");
        }
    }
}
