//! The flags of the secure port.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use steersman_node::configuration::GoDuration;
use steersman_serving::Streams;
use steersman_serving::auth::{HeaderNames, PathRules};
use steersman_serving::tls::{CipherSuites, HttpVersions, KeyExchanges, MinVersion, Spoken};

use super::pflag::Refusal;
use super::values::{boolean, items};

/// Maximum number of concurrent requests on a connection if no flag says otherwise (upstream: `secure_serving.go`).
const STREAMS: u32 = 100;

/// The checked settings of the secure port.
#[derive(Debug)]
pub(crate) struct SecurePort {
    /// The address. Unspecified: all addresses of the machine, of both families.
    pub address: IpAddr,
    /// The port, not 0.
    pub port: u16,
    /// `--permit-port-sharing`.
    pub port_sharing: PortSharing,
    /// The serving certificate.
    pub certificate: Certificate,
    /// Further certificates, for some names.
    pub named: Vec<NamedFiles>,
    /// The protocols.
    pub spoken: Spoken,
    /// Maximum number of concurrent requests on a connection.
    pub streams: Streams,
    /// Who the users are.
    pub authentication: Authentication,
    /// What users may do.
    pub authorization: Authorization,
    /// `--profiling`.
    pub profiling: bool,
}

/// Whether other processes may listen at the same port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortSharing {
    /// Other processes may do so, if they allow it as well.
    Permitted,
    /// The port is this process's alone.
    Refused,
}

/// Where the serving certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// From these files: certificate and key.
    Files(PathBuf, PathBuf),
    /// From `kube-controller-manager.crt` and `.key` in this folder, where a self-signed one is written if there is none.
    Folder(PathBuf),
    /// Self-signed, in memory.
    Generated,
}

/// A certificate for some names, from files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The names. If there are none, those in the certificate count.
    pub names: Vec<String>,
}

/// Who the users are.
#[derive(Debug)]
pub(crate) struct Authentication {
    /// `--authentication-kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// Whether settings that no flag sets are looked up in the cluster, and what a failure leads to.
    pub lookup: Lookup,
    /// How long a valid token is remembered.
    pub token_ttl: Duration,
    /// `--client-ca-file`.
    pub client_ca: Option<PathBuf>,
    /// `--requestheader-client-ca-file`, and the other flags of that kind.
    pub request_headers: Option<(PathBuf, HeaderNames)>,
}

/// Whether settings for authentication are looked up in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// They are not.
    Skipped,
    /// They are. A failure ends the start.
    Required,
    /// They are. A failure is logged.
    Tolerant,
}

/// What users may do.
#[derive(Debug)]
pub(crate) struct Authorization {
    /// `--authorization-kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// Paths that every user may request.
    pub always_allow: PathRules,
    /// How long a permission is remembered.
    pub allowed_ttl: Duration,
    /// How long a refusal is remembered.
    pub denied_ttl: Duration,
}

/// The flags as given, unchecked.
#[derive(Args, Debug)]
#[command(next_help_heading = "Secure serving")]
#[group(id = "secure_port_flags")]
pub(crate) struct Flags {
    /// Port of HTTPS, with authentication and authorization; 0: none
    #[arg(long, value_name = "int", default_value_t = 10257)]
    pub secure_port: i64,
    /// Address of the secure port; empty, 0.0.0.0 or ::: all addresses of the machine, of both families
    #[arg(long, value_name = "ip", default_value = "0.0.0.0")]
    pub bind_address: String,
    /// Let other processes listen at the secure port as well (SO_REUSEPORT)
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub permit_port_sharing: bool,
    /// Do not wait until the system releases the address of the secure port (SO_REUSEADDR); always on, as in Go programs
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub permit_address_sharing: bool,
    /// Folder of the certificate kube-controller-manager.crt and its key; a self-signed one is written there if there is
    /// none. Without it and --tls-cert-file, the self-signed certificate stays in memory
    #[arg(long, value_name = "folder", default_value = "")]
    pub cert_dir: String,
    /// File with the serving certificate and its chain; read again when it changes
    #[arg(long, value_name = "file", default_value = "")]
    pub tls_cert_file: String,
    /// File with the key of --tls-cert-file
    #[arg(long, value_name = "file", default_value = "")]
    pub tls_private_key_file: String,
    /// Certificate and key for some names: cert,key or cert,key:name,*.name; may be repeated
    #[arg(long, value_name = "files", action = ArgAction::Append, value_parser = named_files)]
    pub tls_sni_cert_key: Vec<NamedFiles>,
    /// Oldest version of TLS: VersionTLS12 or VersionTLS13; older ones are never used
    #[arg(long, value_name = "version", default_value = "")]
    pub tls_min_version: String,
    /// Cipher suites of TLS 1.2, by Go's names; by default all that this program has
    #[arg(long, value_name = "list", action = ArgAction::Append)]
    pub tls_cipher_suites: Vec<String>,
    /// Key exchanges that clients may use, by their numbers in TLS: 23 (P-256), 24 (P-384), 29 (X25519); by default all of these
    #[arg(long, value_name = "list", action = ArgAction::Append)]
    pub tls_curve_preferences: Vec<String>,
    /// Do not use HTTP/2
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub disable_http2_serving: bool,
    /// Maximum number of concurrent requests on a connection over HTTP/2; 0: 100 with a verified client certificate, else 8
    #[arg(long, value_name = "int", default_value_t = 0)]
    pub http2_max_streams_per_connection: i64,
    /// Serve pages for debugging of the process: PUT /debug/flags/v changes the verbosity of the log. There are no profiles
    #[arg(long, value_name = "bool", default_value_t = true, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub profiling: bool,

    /// File with the authorities of client certificates; read again when it changes. By default looked up in the cluster
    #[arg(long, value_name = "file", default_value = "", help_heading = "Authentication")]
    pub client_ca_file: String,
    /// Kubeconfig with the right to create tokenreviews; without it, the pod's service account is used. Without both,
    /// tokens do not count
    #[arg(long, value_name = "file", default_value = "", help_heading = "Authentication")]
    pub authentication_kubeconfig: String,
    /// How long a valid token is remembered
    #[arg(long, value_name = "duration", default_value = "10s", help_heading = "Authentication")]
    pub authentication_token_webhook_cache_ttl: GoDuration,
    /// Do not look up in the cluster what no flag sets of authentication
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Authentication")]
    pub authentication_skip_lookup: bool,
    /// Start even if that can't be looked up
    #[arg(long, value_name = "bool", default_value_t = false, action = ArgAction::Set, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", value_parser = boolean)]
    #[arg(help_heading = "Authentication")]
    pub authentication_tolerate_lookup_failure: bool,
    /// File with the authorities of proxies that name users in headers. By default looked up in the cluster, with the rest
    #[arg(long, value_name = "file", default_value = "", help_heading = "Authentication")]
    pub requestheader_client_ca_file: String,
    /// Headers with the names of users
    #[arg(long, value_name = "list", default_value = "x-remote-user", action = ArgAction::Append)]
    #[arg(help_heading = "Authentication")]
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the uids of users
    #[arg(long, value_name = "list", action = ArgAction::Append, help_heading = "Authentication")]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers with the groups of users
    #[arg(long, value_name = "list", default_value = "x-remote-group", action = ArgAction::Append)]
    #[arg(help_heading = "Authentication")]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with further facts about users
    #[arg(long, value_name = "list", default_value = "x-remote-extra-", action = ArgAction::Append)]
    #[arg(help_heading = "Authentication")]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Common names of the proxies' certificates; empty: any
    #[arg(long, value_name = "list", action = ArgAction::Append, help_heading = "Authentication")]
    pub requestheader_allowed_names: Vec<String>,

    /// Kubeconfig with the right to create subjectaccessreviews; without it, the pod's service account is used. Without
    /// both, only the paths of the next flag are served
    #[arg(long, value_name = "file", default_value = "", help_heading = "Authorization")]
    pub authorization_kubeconfig: String,
    /// Paths that need no authorization; a * at the end stands for anything
    #[arg(long, value_name = "list", default_value = "/healthz,/readyz,/livez", action = ArgAction::Append)]
    #[arg(help_heading = "Authorization")]
    pub authorization_always_allow_paths: Vec<String>,
    /// How long a permission is remembered
    #[arg(long, value_name = "duration", default_value = "10s", help_heading = "Authorization")]
    pub authorization_webhook_cache_authorized_ttl: GoDuration,
    /// How long a refusal is remembered
    #[arg(long, value_name = "duration", default_value = "10s", help_heading = "Authorization")]
    pub authorization_webhook_cache_unauthorized_ttl: GoDuration,
}

impl Flags {
    /// Checks the flags, each by itself and together. Returns `None` if there is no secure port, and warnings for the log.
    ///
    /// # Errors
    /// If a value is invalid.
    pub(crate) fn check(&self) -> Result<(Option<SecurePort>, Vec<String>), Refusal> {
        let mut warnings = Vec::new();
        let Ok(port) = u16::try_from(self.secure_port) else {
            let port = self.secure_port;
            let range = "must be between 0 and 65535, inclusive. 0 for turning off secure port";
            return Err(Refusal::new(format!("--secure-port {port} {range}")));
        };
        let address = self.address()?;
        let request_headers = self.request_headers(&mut warnings)?;
        let spoken = self.spoken(&mut warnings)?;
        let paths: Vec<&str> = items(&self.authorization_always_allow_paths).collect();
        let always_allow = PathRules::parse(paths.iter().copied())
            .map_err(|why| Refusal::of_value("--authorization-always-allow-paths", &paths.join(","), why))?;
        let lookup = match (self.authentication_skip_lookup, self.authentication_tolerate_lookup_failure) {
            (true, _) => Lookup::Skipped,
            (false, true) => Lookup::Tolerant,
            (false, false) => Lookup::Required,
        };
        let port = (port != 0).then(|| SecurePort {
            address,
            port,
            port_sharing: if self.permit_port_sharing {
                PortSharing::Permitted
            } else {
                PortSharing::Refused
            },
            certificate: self.certificate(),
            spoken,
            streams: self.streams(),
            profiling: self.profiling,
            named: self.tls_sni_cert_key.clone(),
            authentication: Authentication {
                kubeconfig: given(&self.authentication_kubeconfig),
                lookup,
                token_ttl: self.authentication_token_webhook_cache_ttl.0,
                client_ca: given(&self.client_ca_file),
                request_headers,
            },
            authorization: Authorization {
                kubeconfig: given(&self.authorization_kubeconfig),
                always_allow,
                allowed_ttl: self.authorization_webhook_cache_authorized_ttl.0,
                denied_ttl: self.authorization_webhook_cache_unauthorized_ttl.0,
            },
        });
        Ok((port, warnings))
    }

    fn address(&self) -> Result<IpAddr, Refusal> {
        let text = self.bind_address.trim();
        if text.is_empty() {
            return Ok(Ipv4Addr::UNSPECIFIED.into());
        }
        let why = format!("failed to parse IP: {text:?}");
        text.parse().map_err(|_| Refusal::of_value("--bind-address", &self.bind_address, why))
    }

    fn certificate(&self) -> Certificate {
        let [certificate, key] = [&self.tls_cert_file, &self.tls_private_key_file];
        if !certificate.is_empty() || !key.is_empty() {
            return Certificate::Files(certificate.into(), key.into());
        }
        given(&self.cert_dir).map_or(Certificate::Generated, Certificate::Folder)
    }

    fn spoken(&self, warnings: &mut Vec<String>) -> Result<Spoken, Refusal> {
        let min_version = match &*self.tls_min_version {
            "" | "VersionTLS12" => MinVersion::Tls12,
            "VersionTLS13" => MinVersion::Tls13,
            old @ ("VersionTLS10" | "VersionTLS11") => {
                warnings.push(format!("--tls-min-version={old}: the oldest version is VersionTLS12"));
                MinVersion::Tls12
            }
            other => {
                let why = format!("unknown tls version {other:?}");
                return Err(Refusal::of_value("--tls-min-version", other, why));
            }
        };
        let names: Vec<String> = items(&self.tls_cipher_suites).map(str::to_owned).collect();
        let cipher_suites = CipherSuites::named(&names)
            .map_err(|why| Refusal::of_value("--tls-cipher-suites", &names.join(","), why))?;
        let key_exchanges = self.key_exchanges()?;
        let http = if self.disable_http2_serving { HttpVersions::Http1 } else { HttpVersions::All };
        Ok(Spoken { min_version, cipher_suites, key_exchanges, http })
    }

    fn key_exchanges(&self) -> Result<KeyExchanges, Refusal> {
        let refusal = |why: String| {
            Refusal::of_value("--tls-curve-preferences", &self.tls_curve_preferences.join(","), why)
        };
        let numbers: Result<Vec<i32>, _> = items(&self.tls_curve_preferences)
            .map(|item| item.parse().map_err(|_| refusal(format!("parsing {item:?}: invalid syntax"))))
            .collect();
        KeyExchanges::numbered(&numbers?).map_err(|why| refusal(why.to_string()))
    }

    fn streams(&self) -> Streams {
        match u32::try_from(self.http2_max_streams_per_connection) {
            Ok(0) | Err(_) => Streams { verified: STREAMS, unverified: Streams::UNVERIFIED },
            Ok(most) => Streams { verified: most, unverified: most },
        }
    }

    fn request_headers(&self, warnings: &mut Vec<String>) -> Result<Option<(PathBuf, HeaderNames)>, Refusal> {
        let list = |flag: &str, lists: &[String]| {
            let all: Vec<String> = items(lists).map(|item| item.trim().to_owned()).collect();
            match all.iter().any(String::is_empty) {
                true => Err(Refusal::new(format!("empty value in {flag:?}"))),
                false => Ok(all),
            }
        };
        let names = HeaderNames {
            users: list("requestheader-username-headers", &self.requestheader_username_headers)?,
            uids: list("requestheader-uid-headers", &self.requestheader_uid_headers)?,
            groups: list("requestheader-group-headers", &self.requestheader_group_headers)?,
            extra_prefixes: list(
                "requestheader-extra-headers-prefix",
                &self.requestheader_extra_headers_prefix,
            )?,
            allowed_proxies: list("requestheader-allowed-names", &self.requestheader_allowed_names)?,
        };
        let lacks = |list: &[String], name: &str| {
            !list.is_empty() && !list.iter().any(|item| item.eq_ignore_ascii_case(name))
        };
        let complaint = |flag: &str, name: &str| {
            format!("--{flag} is set without specifying the standard {name} - API aggregation will not work")
        };
        if lacks(&names.uids, "X-Remote-Uid") {
            return Err(Refusal::new(complaint("requestheader-uid-headers", "X-Remote-Uid header")));
        }
        for (flag, list, name, what) in [
            ("requestheader-username-headers", &names.users, "X-Remote-User", "header"),
            ("requestheader-group-headers", &names.groups, "X-Remote-Group", "header"),
            ("requestheader-extra-headers-prefix", &names.extra_prefixes, "X-Remote-Extra-", "header prefix"),
        ] {
            if lacks(list, name) {
                warnings.push(complaint(flag, &format!("{name} {what}")));
            }
        }
        Ok(given(&self.requestheader_client_ca_file).map(|file| (file, names)))
    }
}

/// A path, if it is not empty.
fn given(path: &str) -> Option<PathBuf> {
    Some(path).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Parses a value of `--tls-sni-cert-key`.
fn named_files(text: &str) -> Result<NamedFiles, String> {
    let (files, names) = match text.split_once(':') {
        Some((_, names)) if names.trim().is_empty() => {
            return Err("empty names list is not allowed".to_owned());
        }
        Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_owned()).collect()),
        None => (text, Vec::new()),
    };
    let parts: Vec<&str> = files.split(',').map(str::trim).collect();
    let [certificate, key] = *parts else {
        return Err("expected comma separated certificate and key file paths".to_owned());
    };
    Ok(NamedFiles { certificate: certificate.into(), key: key.into(), names })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: Flags,
    }

    fn checked(flags: &str) -> Result<(Option<SecurePort>, Vec<String>), String> {
        let flags = ["test"].into_iter().chain(flags.split_whitespace());
        let command = Command::try_parse_from(flags).map_err(|error| error.to_string())?;
        command.flags.check().map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn the_defaults_are_upstreams() {
        let (port, warnings) = checked("").unwrap();
        let port = port.unwrap();
        assert_eq!((port.address.to_string(), port.port), ("0.0.0.0".to_owned(), 10257));
        assert_eq!((port.certificate, port.spoken), (Certificate::Generated, Spoken::default()));
        assert_eq!(port.streams, Streams { verified: 100, unverified: 8 });
        let (authentication, authorization) = (port.authentication, port.authorization);
        assert_eq!(authentication.lookup, Lookup::Required);
        let ttls = [authentication.token_ttl, authorization.allowed_ttl, authorization.denied_ttl];
        assert_eq!(ttls, [Duration::from_secs(10); 3]);
        assert_eq!(authorization.always_allow, PathRules::parse(["healthz", "readyz", "livez"]).unwrap());
        assert_eq!(warnings, [""; 0]);
        assert!(checked("--secure-port=0").unwrap().0.is_none());
    }

    #[test]
    fn files_and_names_are_taken_as_upstream_does() {
        let port = |flags| checked(flags).unwrap().0.unwrap();
        assert_eq!(port("--cert-dir d").certificate, Certificate::Folder("d".into()));
        let files = Certificate::Files("c".into(), "k".into());
        assert_eq!(port("--cert-dir d --tls-cert-file c --tls-private-key-file k").certificate, files);
        let named = port("--tls-sni-cert-key=c,k --tls-sni-cert-key=d,l:*.a.b,c.d").named;
        assert_eq!(named[0], NamedFiles { certificate: "c".into(), key: "k".into(), names: Vec::new() });
        assert_eq!(named[1].names, ["*.a.b", "c.d"]);
        let headers = port("--requestheader-client-ca-file f --requestheader-allowed-names a,b");
        let (file, names) = headers.authentication.request_headers.unwrap();
        assert_eq!((file, names.users), ("f".into(), vec!["x-remote-user".to_owned()]));
        assert_eq!((names.groups, names.uids.len()), (vec!["x-remote-group".to_owned()], 0));
        assert_eq!(names.allowed_proxies, ["a", "b"]);
        let all = port("--authorization-always-allow-paths=/a --authorization-always-allow-paths=/b,/c*");
        assert_eq!(all.authorization.always_allow, PathRules::parse(["/a", "/b", "/c*"]).unwrap());
        assert_eq!(port("--http2-max-streams-per-connection=3").streams.unverified, 3);
        assert_eq!(port("--disable-http2-serving").spoken.http, HttpVersions::Http1);
    }

    #[test]
    fn invalid_values_are_refused_in_upstreams_words() {
        for (flags, why) in [
            (
                "--secure-port=65536",
                "--secure-port 65536 must be between 0 and 65535, inclusive. 0 for turning off secure port",
            ),
            (
                "--secure-port=-1",
                "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
            ),
            (
                "--bind-address=localhost",
                "invalid argument \"localhost\" for \"--bind-address\" flag: failed to parse IP: \"localhost\"",
            ),
            (
                "--tls-min-version=TLS12",
                "invalid argument \"TLS12\" for \"--tls-min-version\" flag: unknown tls version \"TLS12\"",
            ),
            (
                "--tls-cipher-suites=A",
                "invalid argument \"A\" for \"--tls-cipher-suites\" flag: Cipher suite A not supported or doesn't exist",
            ),
            (
                "--tls-curve-preferences=23,P256",
                "invalid argument \"23,P256\" for \"--tls-curve-preferences\" flag: parsing \"P256\": invalid syntax",
            ),
            (
                "--tls-curve-preferences=23 --tls-curve-preferences=29,23",
                "invalid argument \"23,29,23\" for \"--tls-curve-preferences\" flag: duplicate curve preference 23",
            ),
            (
                "--authorization-always-allow-paths=/a*b",
                "invalid argument \"/a*b\" for \"--authorization-always-allow-paths\" flag: \
                 only trailing * allowed in \"a*b\"",
            ),
            ("--requestheader-group-headers=a,,b", "empty value in \"requestheader-group-headers\""),
            (
                "--requestheader-uid-headers=uid",
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - \
                 API aggregation will not work",
            ),
        ] {
            assert_eq!(checked(flags).unwrap_err(), why, "{flags}");
        }
        for flags in ["--tls-sni-cert-key=a", "--tls-sni-cert-key=a,b:"] {
            checked(flags).unwrap_err();
        }
        let (_, warnings) =
            checked("--requestheader-username-headers=user --tls-min-version=VersionTLS10").unwrap();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
    }
}
