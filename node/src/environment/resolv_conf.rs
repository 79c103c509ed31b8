//! The node's file of name servers.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::dns::{DnsSettings, MAX_SEARCH_CHARS, MAX_SEARCH_LENGTH, MAX_SEARCHES, line_length};

/// What such a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// `nameserver`: of all lines.
    pub servers: Vec<String>,
    /// `search`: of the last line, without dots at the end.
    pub searches: Vec<String>,
    /// `options`: of all lines; of those with the same name the last one.
    pub options: Vec<String>,
}

/// Why the file can't be used. The pod's next sync tries again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It can't be read.
    #[error("open {path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// What the file system says.
        source: io::Error,
    },
    /// It is no such file.
    #[error("Encountered error while parsing resolv conf file. Error: {0}")]
    Parse(&'static str),
}

/// In bytes.
const MAX_FILE: u64 = 10 << 20;

impl ResolvConf {
    /// What the node's file says; nothing where it has none. Blocking.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn of_node(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::default()) };
        let unread = |source| Error::Read { path: path.display().to_string(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unread)?;
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 >= MAX_FILE {
            return Err(Error::Parse("the read limit is reached"));
        }
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(Error::Parse)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// A `nameserver` line names none.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut conf = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut fields = line.split_whitespace();
            match fields.next() {
                Some("nameserver") => {
                    let server = fields.next().ok_or("nameserver list is empty ")?;
                    conf.servers.push(server.to_owned());
                }
                Some("search") => {
                    // A name with and without a dot at its end is the same one.
                    let names = fields.filter(|name| *name != ".");
                    conf.searches =
                        names.map(|name| name.strip_suffix('.').unwrap_or(name).to_owned()).collect();
                }
                Some("options") => fields.for_each(|option| conf.set(option)),
                _ => {}
            }
        }
        Ok(conf)
    }

    fn set(&mut self, option: &str) {
        let name = |option: &str| option.split(':').next().map(str::to_owned);
        match self.options.iter_mut().find(|known| name(known) == name(option)) {
            Some(known) => option.clone_into(known),
            None => self.options.push(option.to_owned()),
        }
    }
}

/// What is wrong with the node's file, for an event `CheckLimitsForResolvConf` of the node: pods' searches will be cut.
/// Blocking.
pub fn check_limits(settings: &DnsSettings) -> Option<String> {
    let path = settings.resolv_conf.as_deref()?;
    match ResolvConf::of_node(Some(path)) {
        Ok(conf) => exceeded(&conf.searches, path, &settings.cluster_domain),
        Err(Error::Parse(error)) => Some(error.to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn exceeded(searches: &[String], path: &Path, cluster_domain: &str) -> Option<String> {
    let path = path.display().to_string();
    // Those of the cluster come before them.
    let most = if cluster_domain.is_empty() { MAX_SEARCHES } else { MAX_SEARCHES - 3 };
    if searches.len() > most {
        Some(format!(
            "Resolv.conf file '{path}' contains search line consisting of more than {most} domains!"
        ))
    } else if searches.iter().any(|search| search.len() > MAX_SEARCH_LENGTH) {
        Some(format!(
            "Resolv.conf file {path:?} contains a search path which length is more than allowed {MAX_SEARCH_LENGTH} chars!"
        ))
    } else if line_length(searches) > MAX_SEARCH_CHARS {
        Some(format!(
            "Resolv.conf file '{path}' contains search line which length is more than allowed {MAX_SEARCH_CHARS} chars!"
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_file_is_read_line_by_line() {
        for (text, servers, searches, options) in [
            ("", &[][..], &[][..], &[][..]),
            (
                "# nameserver 1.1.1.1\n\n  nameserver 1.2.3.4\nnameserver fd00::1 x\n",
                &["1.2.3.4", "fd00::1"],
                &[],
                &[],
            ),
            ("search a b.\nsearch foo. . bar\tbaz", &[], &["foo", "bar", "baz"], &[]),
            ("search a\nsearch", &[], &[], &[]),
            ("search .", &[], &[], &[]),
            (
                "options ndots:5 timeout:2\noptions debug ndots:1",
                &[],
                &[],
                &["ndots:1", "timeout:2", "debug"],
            ),
            ("domain example.com\nsortlist x\nnameserver 1.1.1.1 # mine", &["1.1.1.1"], &[], &[]),
        ] {
            let expected =
                ResolvConf { servers: texts(servers), searches: texts(searches), options: texts(options) };
            assert_eq!(ResolvConf::parse(text), Ok(expected), "{text:?}");
        }
        assert_eq!(ResolvConf::parse("nameserver 1.1.1.1\nnameserver"), Err("nameserver list is empty "));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        assert_eq!(ResolvConf::of_node(None).unwrap(), ResolvConf::default());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let error = ResolvConf::of_node(Some(&path)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("open {}: No such file", path.display())), "{error}");
        std::fs::write(&path, "nameserver\n").unwrap();
        let error = ResolvConf::of_node(Some(&path)).unwrap_err().to_string();
        assert_eq!(
            error,
            "Encountered error while parsing resolv conf file. Error: nameserver list is empty "
        );
        let settings = DnsSettings { resolv_conf: Some(path), ..Default::default() };
        assert_eq!(check_limits(&settings).unwrap(), "nameserver list is empty ");
        assert_eq!(check_limits(&DnsSettings { resolv_conf: None, ..Default::default() }), None);
    }

    #[test]
    fn a_file_with_too_much_to_search_is_complained_of() {
        let many = |count| vec!["a".to_owned(); count];
        let path = Path::new("/r");
        for (searches, domain, expected) in [
            (many(32), "", None),
            (
                many(33),
                "",
                Some("Resolv.conf file '/r' contains search line consisting of more than 32 domains!"),
            ),
            (many(29), "cluster.local", None),
            (
                many(30),
                "cluster.local",
                Some("Resolv.conf file '/r' contains search line consisting of more than 29 domains!"),
            ),
            (
                vec!["a".repeat(254)],
                "",
                Some(
                    "Resolv.conf file \"/r\" contains a search path which length is more than allowed 253 chars!",
                ),
            ),
            (
                vec!["a".repeat(253); 9],
                "",
                Some(
                    "Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!",
                ),
            ),
        ] {
            assert_eq!(exceeded(&searches, path, domain).as_deref(), expected);
        }
    }
}
