//! What a container left to say when it ended. Reads files, so these calls block.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::cri::v1;
use crate::kuberuntime::labels::AnnotatedInfo;
use crate::logs::read_last;
use crate::regular_file::open_regular;

/// The most bytes of a termination message; of a longer file the last ones count.
const MAX_MESSAGE: u64 = 4096;
/// The most lines, and bytes of their text, that are taken from the log instead.
const MAX_LOG_LINES: u64 = 80;
const MAX_LOG_TEXT: usize = 2048;

const FALLBACK_TO_LOGS: &str = "FallbackToLogsOnError";

/// The message of a container that exited: from the file mounted at its termination message path, or, where its policy says
/// so and it failed without writing there, the end of its log. What can't be read is said instead.
pub(super) fn of_exited(status: &v1::ContainerStatus) -> String {
    let annotated = AnnotatedInfo::from_annotations(&status.annotations);
    // One that could not even be started has no log.
    let fall_back = annotated.termination_message_policy == FALLBACK_TO_LOGS
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    // It is mounted at an absolute path, whatever the spec says.
    let path = format!("/{}", annotated.termination_message_path.trim_start_matches('/'));
    let mount = status.mounts.iter().find(|mount| path.len() > 1 && mount.container_path == path);
    // A container may have put a link there, to what is not its own.
    let written = mount.map(|mount| (&mount.host_path, tail(&mount.host_path)));
    match written {
        Some((_, Ok(message))) if !message.is_empty() => String::from_utf8_lossy(&message).into_owned(),
        Some((path, Err(error))) if error.kind() != io::ErrorKind::NotFound => {
            format!("Error on reading termination log {path}: {error}")
        }
        _ if fall_back => from_log(&status.log_path),
        _ => String::new(),
    }
}

/// The end of the file at a path, but of nothing that it links to.
fn tail(path: &str) -> io::Result<Vec<u8>> {
    let mut file = open_regular(Path::new(path), OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(MAX_MESSAGE)))?;
    let mut read = Vec::new();
    file.take(MAX_MESSAGE).read_to_end(&mut read)?;
    Ok(read)
}

fn from_log(path: &str) -> String {
    match read_last(Path::new(path), MAX_LOG_LINES, MAX_LOG_TEXT) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => format!("Error on reading termination message from logs: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::kuberuntime::labels;
    use crate::regular_file::make_pipe;

    fn exited(folder: &Path, policy: &str, exit_code: i32) -> v1::ContainerStatus {
        let path = |name: &str| folder.join(name).display().to_string();
        v1::ContainerStatus {
            exit_code,
            annotations: [
                (labels::CONTAINER_TERMINATION_MESSAGE_PATH, "/dev/termination-log"),
                (labels::CONTAINER_TERMINATION_MESSAGE_POLICY, policy),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            mounts: vec![v1::Mount {
                container_path: "/dev/termination-log".into(),
                host_path: path("message"),
                ..Default::default()
            }],
            log_path: path("0.log"),
            ..Default::default()
        }
    }

    #[test]
    fn the_file_is_read_and_the_log_where_the_policy_says_so() {
        const LOG: &str = "2024-05-06T07:08:09.01Z stdout F from log\n";
        for (file, policy, exit_code, reason, message) in [
            (Some("from file"), "File", 0, "Completed", "from file"),
            (Some("from file"), FALLBACK_TO_LOGS, 1, "Error", "from file"),
            (Some(""), "File", 1, "Error", ""),
            (None, "File", 1, "Error", ""),
            (Some(""), FALLBACK_TO_LOGS, 1, "Error", "from log\n"),
            (None, FALLBACK_TO_LOGS, 1, "Error", "from log\n"),
            (None, FALLBACK_TO_LOGS, 0, "Completed", ""),
            (None, FALLBACK_TO_LOGS, 128, "ContainerCannotRun", ""),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("0.log"), LOG).unwrap();
            if let Some(file) = file {
                fs::write(folder.path().join("message"), file).unwrap();
            }
            let mut status = exited(folder.path(), policy, exit_code);
            status.reason = reason.into();
            assert_eq!(of_exited(&status), message, "{file:?} {policy} {exit_code}");
        }
    }

    #[test]
    fn of_a_long_message_the_end_counts() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("message"), format!("cut{}", "x".repeat(4096))).unwrap();
        assert_eq!(of_exited(&exited(folder.path(), "File", 0)), "x".repeat(4096));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let missing = of_exited(&exited(folder.path(), FALLBACK_TO_LOGS, 1));
        assert!(missing.starts_with("Error on reading termination message from logs: "), "{missing}");
        fs::create_dir(folder.path().join("message")).unwrap();
        let unreadable = of_exited(&exited(folder.path(), FALLBACK_TO_LOGS, 1));
        assert!(unreadable.starts_with("Error on reading termination log "), "{unreadable}");
    }

    #[test]
    fn what_is_no_file_is_neither_waited_for_nor_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("message");
        let secret = folder.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        let make: [&dyn Fn(); 2] = [&|| make_pipe(&path), &|| symlink(&secret, &path).unwrap()];
        for make in make {
            make();
            let told = of_exited(&exited(folder.path(), "File", 0));
            assert!(told.starts_with("Error on reading termination log "), "{told}");
            fs::remove_file(&path).unwrap();
        }
    }

    /// What is told of a container whose log is this.
    fn told_of(log: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("0.log"), log).unwrap();
        of_exited(&exited(folder.path(), FALLBACK_TO_LOGS, 1))
    }

    #[test]
    fn of_a_log_the_last_lines_count() {
        let line = |text: &str| format!("2024-05-06T07:08:09.01Z stderr F {text}\n");
        let told = told_of(&(0..100).map(|n| line(&n.to_string())).collect::<String>());
        assert_eq!(
            told.lines().map(str::to_owned).collect::<Vec<_>>(),
            (20..100).map(|n| n.to_string()).collect::<Vec<_>>()
        );
        let long = line("a").repeat(3) + &line(&"b".repeat(2046));
        assert_eq!(told_of(&long), format!("\n{}\n", "b".repeat(2046)));
    }

    #[test]
    fn partial_lines_are_joined_and_others_than_the_cris_left_out() {
        let log = "2024-05-06T07:08:09.01Z stdout P one \n2024-05-06T07:08:09.02Z stdout F:x line\nnoise\n\
            2024-05-06T07:08:09.01Z nowhere F lost\n2024-05-06T07:08:09.03Z stdout F  two";
        assert_eq!(told_of(log), "one line\n two");
        assert!(told_of("noise\n").starts_with("Error on reading termination message from logs: "));
    }
}
