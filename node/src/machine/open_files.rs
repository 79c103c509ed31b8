//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Sets the limit of this process, which those it starts inherit. Where it may not be set as it is asked for, it becomes as
/// much of it as may be.
pub fn limit_open_files(files: u64) {
    let asked = Rlimit { current: Some(files), maximum: Some(files) };
    let Err(error) = setrlimit(Resource::Nofile, asked) else { return };
    let maximum = getrlimit(Resource::Nofile).maximum;
    let most = maximum.map_or(files, |maximum| maximum.min(files));
    tracing::warn!(%error, asked = files, most, "Failed to set rlimit on max file handles");
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }) {
        tracing::warn!(%error, "The limit on open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than any kernel lets a process have, whoever runs it.
    const TOO_MANY: u64 = 1 << 40;

    #[test]
    fn the_limit_is_set_or_as_much_of_it_as_may_be() {
        let maximum = getrlimit(Resource::Nofile).maximum.expect("a test must run under a limit");
        limit_open_files(maximum - 1);
        let set = getrlimit(Resource::Nofile);
        assert_eq!((set.current, set.maximum), (Some(maximum - 1), Some(maximum - 1)));
        let lower = Rlimit { current: Some(maximum - 10), maximum: set.maximum };
        setrlimit(Resource::Nofile, lower).unwrap();
        limit_open_files(TOO_MANY);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(maximum - 1));
    }
}
