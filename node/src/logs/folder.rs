//! The folder that logs are in.

use std::path::{Component, Path};

/// Whether the text of a log's path says that it is below `folder`. The runtime says where a container's log is; the node renames
/// and removes files only where it has told the runtime to put logs.
pub fn is_below(folder: &Path, log: &Path) -> bool {
    log != folder && log.starts_with(folder) && !log.components().any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_pods_are_below_their_folder() {
        for (log, is_one) in [
            ("/var/log/pods/shop_web_u-1/app/0.log", true),
            ("/var/log/pods", false),
            ("/var/log/pods/", false),
            ("/var/log/podsother/0.log", false),
            ("/var/log/pods/../messages", false),
            ("/etc/passwd", false),
            ("shop_web_u-1/app/0.log", false),
            ("", false),
        ] {
            assert_eq!(is_below(Path::new("/var/log/pods"), Path::new(log)), is_one, "{log:?}");
        }
    }
}
