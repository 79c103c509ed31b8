//! Reads the API server's address and our credentials, by the rules of client-go's `BuildConfigFromFlags`.

use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use http::Uri;
use kube::{
    Config,
    config::{AuthInfo, Cluster, Context, InClusterError, Kubeconfig, KubeconfigError},
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// Why there is no configuration. The message names the file and the field that the user must fix.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a kubeconfig nor a server was given, and the process does not run in a pod.
    #[error("neither a kubeconfig nor a master was given, and there is no in-cluster configuration: {0}")]
    InCluster(#[source] InClusterError),
    /// The kubeconfig can't be read or decoded.
    #[error("kubeconfig {}: {}", path.display(), unreadable(source))]
    ReadKubeconfig {
        /// The path of the kubeconfig.
        path: PathBuf,
        /// What is wrong.
        source: Box<KubeconfigError>,
    },
    /// A field of the kubeconfig is missing, or refers to something that does not exist.
    #[error("kubeconfig {}: {field}: {reason}", path.display())]
    Field {
        /// The path of the kubeconfig.
        path: PathBuf,
        /// The path of the field, such as `clusters[prod].server`.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// The file with the certificate authorities of the API server can't be read.
    #[error("certificate authorities {}: {source}", path.display())]
    ReadAuthorities {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The address of the master is neither a URL nor a host and port.
    #[error("master {url:?}: {reason}")]
    Master {
        /// The address.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

/// Why a kubeconfig can't be read: without its path, which [`Error::ReadKubeconfig`] names, and on one line.
fn unreadable(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// Returns the configuration for the flags `--kubeconfig` and `--master`.
///
/// - Only a kubeconfig: its current context.
/// - Both: the same context with the master as the server, and without the context's `tls-server-name`.
/// - Only a master: that server, without credentials.
/// - Neither: the pod's service account. Unlike client-go, this function tries nothing else then.
///
/// It reads no environment variables except the two that a pod has for the API server's address.
///
/// The result refers to the files that the kubeconfig names, so that the client notices when they are rotated. This
/// function also reads them once, so that the program does not start with a bad file.
///
/// # Errors
/// See [`Error`].
pub fn config_from(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Config, Error> {
    match (kubeconfig, master.filter(|url| !url.is_empty())) {
        (None, None) => Config::incluster_env().map(quiet).map_err(Error::InCluster),
        (None, Some(url)) => {
            Ok(quiet(Config::new(server_url(url).map_err(|reason| master_error(url, reason))?)))
        }
        (Some(path), master) => from_kubeconfig(path, master),
    }
}

/// Returns the certificate authorities of the API server, in PEM: those of `config`, which [`config_from`] returned for the
/// same `kubeconfig`, as the kubeconfig or the pod's service account has them. Empty if there are none.
///
/// # Errors
/// See [`Error`].
pub fn root_ca(config: &Config, kubeconfig: Option<&Path>) -> Result<String, Error> {
    if let Some(path) = &config.root_cert_file {
        return std::fs::read_to_string(path)
            .map_err(|source| Error::ReadAuthorities { path: path.clone(), source });
    }
    let (Some(path), true) = (kubeconfig, config.root_cert.is_some()) else { return Ok(String::new()) };
    let kubeconfig = Kubeconfig::read_from(path)
        .map_err(|source| Error::ReadKubeconfig { path: path.to_owned(), source: Box::new(source) })?;
    let context = current_context(&kubeconfig).map_err(|(field, reason)| Error::Field {
        path: path.to_owned(),
        field,
        reason,
    })?;
    let cluster = named_cluster(&kubeconfig, &context.cluster);
    let data = cluster.and_then(|cluster| cluster.certificate_authority_data).unwrap_or_default();
    let text = BASE64_STANDARD.decode(data).ok().and_then(|pem| String::from_utf8(pem).ok());
    text.ok_or_else(|| Error::Field {
        path: path.to_owned(),
        field: format!("clusters[{}].certificate-authority-data", context.cluster),
        reason: "is not text in base64".to_owned(),
    })
}

/// Switches off kube's retries: ours count each attempt and subject it to the rate limit.
fn quiet(mut config: Config) -> Config {
    config.default_retry = false;
    config
}

fn master_error(url: &str, reason: String) -> Error {
    Error::Master { url: url.to_owned(), reason }
}

fn from_kubeconfig(path: &Path, master: Option<&str>) -> Result<Config, Error> {
    let kubeconfig = Kubeconfig::read_from(path)
        .map_err(|source| Error::ReadKubeconfig { path: path.to_owned(), source: Box::new(source) })?;
    let at = |field: String| {
        move |reason: String| Error::Field { path: path.to_owned(), field: field.clone(), reason }
    };
    let context = current_context(&kubeconfig).map_err(|(field, reason)| at(field)(reason))?;
    let cluster = named_cluster(&kubeconfig, &context.cluster)
        .ok_or_else(|| at(format!("clusters[{}]", context.cluster))("there is no such cluster".to_owned()))?;
    let cluster_field = |field: &str| at(format!("clusters[{}].{field}", context.cluster));

    let cluster_url = match (master, cluster.server.as_deref().filter(|server| !server.is_empty())) {
        (Some(url), _) => server_url(url).map_err(|reason| master_error(url, reason))?,
        (None, Some(server)) => server_url(server).map_err(cluster_field("server"))?,
        (None, None) => return Err(cluster_field("server")("is missing".to_owned())),
    };
    let mut config = quiet(Config::new(cluster_url));
    if let Some(namespace) = context.namespace.filter(|namespace| !namespace.is_empty()) {
        config.default_namespace = namespace;
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    config.tls_server_name =
        cluster.tls_server_name.clone().filter(|name| master.is_none() && !name.is_empty());
    if let Some(proxy) = cluster.proxy_url.as_deref().filter(|proxy| !proxy.is_empty()) {
        config.proxy_url =
            Some(proxy.parse().map_err(|error| cluster_field("proxy-url")(format!("{proxy:?}: {error}")))?);
    }
    certificate_authority(&mut config, &cluster).map_err(|(field, reason)| cluster_field(field)(reason))?;

    if let Some(user) = &context.user {
        let user_field = |field: &str| at(format!("users[{user}].{field}"));
        let auth = named_user(&kubeconfig, user);
        check_files(&auth).map_err(|(field, reason)| user_field(field)(reason))?;
        config.auth_info = auth;
    }
    if let Some(exec) = config.auth_info.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster =
            Some((&cluster).try_into().map_err(|error: KubeconfigError| {
                cluster_field("certificate-authority")(error.to_string())
            })?);
    }
    Ok(config)
}

/// An invalid field: its name within the entry, and what is wrong.
type Fault<F> = (F, String);

fn current_context(kubeconfig: &Kubeconfig) -> Result<Context, Fault<String>> {
    let name = kubeconfig
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| ("current-context".to_owned(), "is missing".to_owned()))?;
    kubeconfig
        .contexts
        .iter()
        .find(|named| named.name == name)
        .and_then(|named| named.context.clone())
        .ok_or_else(|| (format!("contexts[{name}]"), "there is no such context".to_owned()))
}

fn named_cluster(kubeconfig: &Kubeconfig, name: &str) -> Option<Cluster> {
    kubeconfig.clusters.iter().find(|named| named.name == name).and_then(|named| named.cluster.clone())
}

/// Returns the named user. As in client-go, a user that does not exist has no credentials.
fn named_user(kubeconfig: &Kubeconfig, name: &str) -> AuthInfo {
    let named = kubeconfig.auth_infos.iter().find(|named| named.name == name);
    named.and_then(|named| named.auth_info.clone()).unwrap_or_default()
}

/// Reads the certificate authorities. As in client-go, inline data takes precedence over a file. The configuration
/// keeps the file's name, so that the file can be read again.
fn certificate_authority(config: &mut Config, cluster: &Cluster) -> Result<(), Fault<&'static str>> {
    let (field, pem) =
        if let Some(data) = cluster.certificate_authority_data.as_ref().filter(|data| !data.is_empty()) {
            let field = "certificate-authority-data";
            (field, BASE64_STANDARD.decode(data).map_err(|error| (field, format!("is not base64: {error}")))?)
        } else if let Some(file) = cluster.certificate_authority.as_ref().filter(|file| !file.is_empty()) {
            let field = "certificate-authority";
            config.root_cert_file = Some(file.into());
            (field, std::fs::read(file).map_err(|error| (field, format!("{file}: {error}")))?)
        } else {
            return Ok(());
        };
    let certificates: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(&pem)
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| (field, format!("is not PEM: {error}")))?;
    if certificates.is_empty() {
        return Err((field, "contains no certificate".to_owned()));
    }
    config.root_cert = Some(certificates);
    Ok(())
}

fn check_files(auth: &AuthInfo) -> Result<(), Fault<&'static str>> {
    let inline = |data: bool, file: &Option<String>| file.clone().filter(|file| !data && !file.is_empty());
    let files = [
        ("client-certificate", inline(auth.client_certificate_data.is_some(), &auth.client_certificate)),
        ("client-key", inline(auth.client_key_data.is_some(), &auth.client_key)),
        ("tokenFile", inline(false, &auth.token_file)),
    ];
    for (field, file) in files {
        if let Some(file) = file {
            std::fs::read(&file).map_err(|error| (field, format!("{file}: {error}")))?;
        }
    }
    Ok(())
}

/// Parses a URL, or the host and port of a plain HTTP server, as client-go's `DefaultServerURL` does.
fn server_url(text: &str) -> Result<Uri, String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = with_scheme.parse().map_err(|error| format!("{text:?} is not a URL: {error}"))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(uri),
        Some("http" | "https") => Err(format!("{text:?} has no host")),
        scheme => {
            Err(format!("{text:?} has scheme {:?}, supported are http and https", scheme.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    /// A folder that is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("steersman-config-{}", uuid::Uuid::new_v4()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// A kubeconfig with these fields in its cluster and user.
    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: here, \
             contexts: [{{name: here, context: {{cluster: prod, user: me, namespace: mine}}}}], \
             clusters: [{{name: prod, cluster: {{{cluster}}}}}], users: [{{name: me, user: {{{user}}}}}]}}"
        )
    }

    #[test]
    fn a_kubeconfig_gives_its_current_context_and_keeps_the_names_of_files() {
        let folder = Folder::new();
        folder.write("ca.crt", CERTIFICATE);
        folder.write("token", "secret");
        let path = folder.write(
            "config",
            &kubeconfig(
                "server: 'https://prod:6443', certificate-authority: ca.crt, tls-server-name: kubernetes",
                "tokenFile: token",
            ),
        );
        let config = config_from(Some(&path), None).unwrap();
        assert_eq!(config.cluster_url, "https://prod:6443/");
        assert_eq!(config.default_namespace, "mine");
        assert_eq!(config.root_cert_file, Some(folder.0.join("ca.crt")));
        assert_eq!(config.root_cert.unwrap().len(), 1);
        assert_eq!(config.auth_info.token_file, Some(folder.0.join("token").display().to_string()));
        assert_eq!(config.tls_server_name.as_deref(), Some("kubernetes"));
        assert!(!config.default_retry);
        assert_eq!(config.proxy_url, None, "proxies of the environment do not count");

        let config = config_from(Some(&path), Some("https://other:1")).unwrap();
        assert_eq!(config.cluster_url, "https://other:1/");
        assert_eq!(config.tls_server_name, None, "it belongs to the server that was overridden");
        assert!(config.root_cert_file.is_some());
    }

    #[test]
    fn inline_authorities_win_over_a_file() {
        let folder = Folder::new();
        let data = BASE64_STANDARD.encode(CERTIFICATE);
        let cluster = format!(
            "server: 'https://prod:6443', certificate-authority: /nowhere, certificate-authority-data: {data}"
        );
        let path = folder.write("config", &kubeconfig(&cluster, ""));
        let config = config_from(Some(&path), None).unwrap();
        assert_eq!(config.root_cert_file, None);
        assert_eq!(config.root_cert, Some(vec![vec![0, 0, 0]]));
    }

    #[test]
    fn the_authorities_are_the_text_of_the_kubeconfig_or_of_its_file() {
        let folder = Folder::new();
        let text = format!("# ours\n{CERTIFICATE}");
        folder.write("ca.crt", &text);
        let data = BASE64_STANDARD.encode(&text);
        for (cluster, expected) in [
            (format!("server: 'https://prod:1', certificate-authority-data: {data}"), text.as_str()),
            ("server: 'https://prod:1', certificate-authority: ca.crt".to_owned(), &text),
            ("server: 'https://prod:1'".to_owned(), ""),
        ] {
            let path = folder.write("config", &kubeconfig(&cluster, ""));
            let config = config_from(Some(&path), None).unwrap();
            assert_eq!(root_ca(&config, Some(&path)).unwrap(), expected, "{cluster}");
        }
        let config = config_from(None, Some("localhost:8080")).unwrap();
        assert_eq!(root_ca(&config, None).unwrap(), "");
    }

    #[test]
    fn a_master_alone_is_a_server_without_credentials() {
        let config = config_from(None, Some("localhost:8080")).unwrap();
        assert_eq!(config.cluster_url, "http://localhost:8080/");
        assert!(config.auth_info.token_file.is_none());
        for (master, fault) in [
            ("ftp://a", "supported are http and https"),
            ("https://", "not a URL"),
            ("http://a b", "not a URL"),
        ] {
            let error = config_from(None, Some(master)).unwrap_err().to_string();
            assert!(error.contains(master) && error.contains(fault), "{error}");
        }
    }

    #[test]
    fn with_nothing_given_only_the_pod_is_asked() {
        match config_from(None, Some("")) {
            Err(error) => {
                assert!(matches!(error, Error::InCluster(_)), "{error}");
                assert!(error.to_string().contains("neither a kubeconfig nor a master"), "{error}");
            }
            // The tests run in a pod.
            Ok(config) => {
                assert!(config.auth_info.token_file.is_some_and(|file| file.contains("serviceaccount")))
            }
        }
    }

    #[test]
    fn an_error_names_the_file_and_the_field() {
        let good = "server: 'https://prod:6443'";
        let context = |text: &str| format!("{{current-context: here, contexts: [{text}]}}");
        for (text, field, reason) in [
            ("{}".to_owned(), "current-context", "is missing"),
            (context(""), "contexts[here]", "no such context"),
            (context("{name: here, context: {cluster: prod}}"), "clusters[prod]", "no such cluster"),
            (kubeconfig("", ""), "clusters[prod].server", "is missing"),
            (kubeconfig("server: 'ftp://prod'", ""), "clusters[prod].server", "supported are http and https"),
            (
                kubeconfig(&format!("{good}, certificate-authority: /nowhere/ca"), ""),
                "clusters[prod].certificate-authority",
                "/nowhere/ca: No such file",
            ),
            (
                kubeconfig(&format!("{good}, certificate-authority-data: '%'"), ""),
                "clusters[prod].certificate-authority-data",
                "is not base64",
            ),
            (
                kubeconfig(&format!("{good}, certificate-authority-data: aGVsbG8="), ""),
                "clusters[prod].certificate-authority-data",
                "contains no certificate",
            ),
            (kubeconfig(&format!("{good}, proxy-url: 'a b'"), ""), "clusters[prod].proxy-url", "a b"),
            (
                kubeconfig(good, "client-certificate: /nowhere/c"),
                "users[me].client-certificate",
                "/nowhere/c",
            ),
            (kubeconfig(good, "client-key: /nowhere/k"), "users[me].client-key", "/nowhere/k"),
            (kubeconfig(good, "tokenFile: /nowhere/t"), "users[me].tokenFile", "/nowhere/t"),
        ] {
            let folder = Folder::new();
            let path = folder.write("config", &text);
            let error = config_from(Some(&path), None).unwrap_err().to_string();
            let expected = format!("kubeconfig {}: {field}: ", path.display());
            assert!(
                error.starts_with(&expected) && error.contains(reason),
                "{error}\nis not {expected}...{reason}"
            );
        }
        let error = config_from(Some(Path::new("/nowhere/config")), None).unwrap_err();
        assert!(matches!(error, Error::ReadKubeconfig { .. }), "{error}");
        assert!(error.to_string().contains("/nowhere/config"), "{error}");
    }
}
