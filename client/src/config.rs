//! Where the API server is and who we are: the rules of client-go's `BuildConfigFromFlags`.

use std::path::{Path, PathBuf};

use http::Uri;
use k8s_openapi::ByteString;
use kube::{
    Config,
    config::{AuthInfo, Cluster, Context, InClusterError, Kubeconfig, KubeconfigError},
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// Why no configuration came about. It names the file and the field; whoever started the program must mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a kubeconfig nor a server was given, and the process does not run in a pod.
    #[error(
        "neither a kubeconfig nor a master was given, and the in-cluster configuration can't be had: {0}"
    )]
    InCluster(#[source] InClusterError),
    /// The kubeconfig can't be read, or is not a kubeconfig.
    #[error("kubeconfig {}: {source}", path.display())]
    ReadKubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KubeconfigError>,
    },
    /// A field of the kubeconfig is missing, or names something that is not there.
    #[error("kubeconfig {}: {field}: {reason}", path.display())]
    Field {
        /// The kubeconfig.
        path: PathBuf,
        /// The field as one would write it in a path, for instance `clusters[prod].server`.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The address given as master is neither a URL nor host and port.
    #[error("master {url:?}: {reason}")]
    Master {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The configuration that `--kubeconfig` and `--master` ask for.
///
/// With a kubeconfig: its current context. With a master as well: the same with that server (its `tls-server-name` then
/// does not hold). With a master alone: that server, without credentials. With neither: the pod's service account;
/// unlike client-go, nothing else is tried then. No environment variable is looked at but the two that a pod has.
///
/// Files that the kubeconfig names stay named in the result, so that their rotation is noticed. Files are read and
/// parsed here once, so that a wrong one is found at the start.
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

/// kube's own retries are never wanted: ours count and limit each attempt.
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

/// The fault of a field: its name below the entry, and what is wrong.
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

/// A user that is not there has no credentials, as in client-go.
fn named_user(kubeconfig: &Kubeconfig, name: &str) -> AuthInfo {
    let named = kubeconfig.auth_infos.iter().find(|named| named.name == name);
    named.and_then(|named| named.auth_info.clone()).unwrap_or_default()
}

/// Inline data wins over a file, as in client-go; a file is remembered so that it can be read again.
fn certificate_authority(config: &mut Config, cluster: &Cluster) -> Result<(), Fault<&'static str>> {
    let (field, pem) =
        if let Some(data) = cluster.certificate_authority_data.as_ref().filter(|data| !data.is_empty()) {
            let field = "certificate-authority-data";
            // The one reader of base64 that is at hand: that of Secrets' data.
            let data = serde_json::from_value(data.as_str().into());
            let ByteString(pem) = data.map_err(|error| (field, format!("is no base64: {error}")))?;
            (field, pem)
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
        .map_err(|error| (field, format!("is no PEM: {error}")))?;
    if certificates.is_empty() {
        return Err((field, "holds no certificate".to_owned()));
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

/// A URL, or host and port of a plain HTTP server, as client-go's `DefaultServerURL` takes them.
fn server_url(text: &str) -> Result<Uri, String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = with_scheme.parse().map_err(|error| format!("{text:?} is no URL: {error}"))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(uri),
        Some("http" | "https") => Err(format!("{text:?} has no host")),
        scheme => {
            Err(format!("{text:?} has scheme {:?}, known are http and https", scheme.unwrap_or_default()))
        }
    }
}
