//! What is remembered of a pull, in the form of upstream's files, and what follows from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::images::credentials::Credential;

/// `ImagePullIntent`: a pull that began, and may have ended well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    kind: IntentKind,
    #[serde(rename = "apiVersion")]
    api_version: ApiVersion,
    /// As the container names it.
    pub(super) image: String,
}

/// `ImagePulledRecord`: an image that this node pulled, and who showed that he could.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pulled {
    kind: PulledKind,
    api_version: ApiVersion,
    /// RFC 3339.
    pub(super) last_updated_time: String,
    /// The image's reference in the runtime.
    pub(super) image_ref: String,
    /// By the name that containers have for the image, without tag and digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) credential_mapping: BTreeMap<String, Access>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum IntentKind {
    ImagePullIntent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum PulledKind {
    ImagePulledRecord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ApiVersion {
    #[serde(rename = "kubelet.config.k8s.io/v1beta1", alias = "kubelet.config.k8s.io/v1alpha1")]
    V1beta1,
}

/// `ImagePullCredentials`: what an image was pulled with. With neither flag nor entries, nobody has shown anything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Access {
    /// Ordered by namespace, name and uid; none twice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) kubernetes_secrets: Vec<PullSecret>,
    /// What credential plugins write, which this node has none of; kept for upstream's sake.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubernetes_service_accounts: Vec<PullServiceAccount>,
    /// No credentials were needed, or the node's own: every pod may use it. Then there are no entries.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) node_pods_accessible: bool,
}

/// `ImagePullSecret`: a secret with the hash of the login that was used from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PullSecret {
    uid: String,
    namespace: String,
    name: String,
    credential_hash: String,
}

/// `ImagePullServiceAccount`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PullServiceAccount {
    uid: String,
    namespace: String,
    name: String,
}

/// What a record says of a pod that wants to use the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may.
    Allowed,
    /// It may, and this is to be added to the record: the same login from another secret, or another login of the same
    /// secret.
    AllowedAnd(Access),
    /// It must pull.
    MustPull,
}

/// At so many secrets, a record gets no more by looking.
const WRITE_WHILE_MATCHING_LIMIT: usize = 100;

impl Intent {
    pub(super) fn new(image: &str) -> Self {
        Self { kind: IntentKind::ImagePullIntent, api_version: ApiVersion::V1beta1, image: image.to_owned() }
    }
}

impl Pulled {
    pub(super) fn new(image_ref: &str) -> Self {
        Self {
            kind: PulledKind::ImagePulledRecord,
            api_version: ApiVersion::V1beta1,
            last_updated_time: String::new(),
            image_ref: image_ref.to_owned(),
            credential_mapping: BTreeMap::new(),
        }
    }

    /// Adds what the image was pulled with under a name; says whether that is news.
    pub(super) fn merge(&mut self, repository: &str, new: Access) -> bool {
        if new.is_empty() {
            return false;
        }
        let Some(access) = self.credential_mapping.get_mut(repository) else {
            self.credential_mapping.insert(repository.to_owned(), new);
            return true;
        };
        if access.node_pods_accessible {
            return false;
        }
        if new.node_pods_accessible {
            *access = new;
            return true;
        }
        let mut changed = false;
        for secret in new.kubernetes_secrets {
            changed |= access.merge_secret(secret);
        }
        changed
    }

    /// Whether a pod's credentials matter under that name: somebody showed some.
    pub(super) fn has_secrets(&self, repository: &str) -> bool {
        self.credential_mapping.get(repository).is_some_and(|access| !access.kubernetes_secrets.is_empty())
    }

    /// Whether a pod with these credentials may use the image under that name. `credentials` are those of the pod that fit
    /// the image; those of the node don't count.
    pub(super) fn verdict(&self, repository: &str, credentials: &[Credential]) -> Verdict {
        let Some(access) = self.credential_mapping.get(repository) else { return Verdict::MustPull };
        if access.node_pods_accessible {
            return Verdict::Allowed;
        }
        let room = access.kubernetes_secrets.len() < WRITE_WHILE_MATCHING_LIMIT;
        for secret in credentials.iter().filter_map(PullSecret::of) {
            for known in &access.kubernetes_secrets {
                let same_login =
                    known.credential_hash == secret.credential_hash && !known.credential_hash.is_empty();
                match (same_login, known.is_of_same_secret(&secret)) {
                    (true, true) => return Verdict::Allowed,
                    (true, false) | (false, true) if room => {
                        return Verdict::AllowedAnd(Access {
                            kubernetes_secrets: vec![secret],
                            ..Access::default()
                        });
                    }
                    (true, false) => return Verdict::Allowed,
                    (false, _) => {}
                }
            }
        }
        Verdict::MustPull
    }
}

impl Access {
    /// What is remembered of a pull with `credential`; `None` is one without.
    pub(super) fn of(credential: Option<&Credential>) -> Self {
        match credential.and_then(PullSecret::of) {
            Some(secret) => Self { kubernetes_secrets: vec![secret], ..Self::default() },
            None => Self { node_pods_accessible: true, ..Self::default() },
        }
    }

    fn is_empty(&self) -> bool {
        !self.node_pods_accessible
            && self.kubernetes_secrets.is_empty()
            && self.kubernetes_service_accounts.is_empty()
    }

    fn merge_secret(&mut self, secret: PullSecret) -> bool {
        match self.kubernetes_secrets.binary_search_by(|known| known.coordinates().cmp(&secret.coordinates()))
        {
            Ok(at) if self.kubernetes_secrets[at] == secret => return false,
            Ok(at) => self.kubernetes_secrets[at] = secret,
            Err(at) => self.kubernetes_secrets.insert(at, secret),
        }
        true
    }
}

impl PullSecret {
    /// `None` for a credential of the node.
    fn of(credential: &Credential) -> Option<Self> {
        let secret = credential.secret.clone()?;
        Some(Self {
            uid: secret.uid,
            namespace: secret.namespace,
            name: secret.name,
            credential_hash: credential.hash(),
        })
    }

    fn coordinates(&self) -> (&str, &str, &str) {
        (&self.namespace, &self.name, &self.uid)
    }

    fn is_of_same_secret(&self, other: &Self) -> bool {
        self.coordinates() == other.coordinates()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::credentials::{Login, SecretCoordinates};

    fn credential(name: &str, password: &str) -> Credential {
        let secret =
            SecretCoordinates { namespace: "shop".into(), name: name.into(), uid: format!("uid-{name}") };
        let login = Login { username: "u".into(), password: password.into(), email: String::new() };
        Credential { login, secret: Some(secret) }
    }

    fn of_node() -> Credential {
        Credential { secret: None, ..credential("", "p") }
    }

    fn pulled_with(credential: Option<&Credential>) -> Pulled {
        let mut pulled = Pulled::new("sha256:1");
        assert!(pulled.merge("reg.io/app", Access::of(credential)));
        pulled
    }

    #[test]
    fn a_pod_may_use_what_it_or_one_with_its_login_has_pulled() {
        let known = credential("a", "p");
        let pulled = pulled_with(Some(&known));
        let adds = |credential| Verdict::AllowedAnd(Access::of(Some(credential)));
        let (same_login, changed_login) = (credential("b", "p"), credential("a", "q"));
        for (case, repository, credentials, expected) in [
            ("the same secret", "reg.io/app", vec![known.clone()], Verdict::Allowed),
            ("the same login from another secret", "reg.io/app", vec![same_login.clone()], adds(&same_login)),
            (
                "the secret with another login",
                "reg.io/app",
                vec![changed_login.clone()],
                adds(&changed_login),
            ),
            ("a stranger", "reg.io/app", vec![credential("b", "q")], Verdict::MustPull),
            ("nobody", "reg.io/app", vec![], Verdict::MustPull),
            ("the node", "reg.io/app", vec![of_node()], Verdict::MustPull),
            ("another name of the image", "reg.io/other", vec![known.clone()], Verdict::MustPull),
        ] {
            assert_eq!(pulled.verdict(repository, &credentials), expected, "{case}");
        }
        for open in [None, Some(&of_node())] {
            assert_eq!(pulled_with(open).verdict("reg.io/app", &[]), Verdict::Allowed);
        }
        assert_eq!(Pulled::new("sha256:1").verdict("reg.io/app", &[known]), Verdict::MustPull);
    }

    #[test]
    fn a_full_record_still_allows_a_known_login_and_gets_no_longer() {
        let mut pulled = pulled_with(Some(&credential("a", "p")));
        for number in 1..WRITE_WHILE_MATCHING_LIMIT {
            pulled.merge(
                "reg.io/app",
                Access::of(Some(&credential(&format!("s{number}"), &format!("{number}")))),
            );
        }
        assert_eq!(pulled.verdict("reg.io/app", &[credential("b", "p")]), Verdict::Allowed);
        assert_eq!(pulled.verdict("reg.io/app", &[credential("a", "new")]), Verdict::MustPull);
    }

    #[test]
    fn what_is_known_grows_until_all_may_use_it() {
        let mut pulled = pulled_with(Some(&credential("b", "p")));
        let mut merge = |access| pulled.merge("reg.io/app", access);
        assert!(!merge(Access::of(Some(&credential("b", "p")))));
        assert!(merge(Access::of(Some(&credential("b", "q")))));
        assert!(merge(Access::of(Some(&credential("a", "p")))));
        assert!(!merge(Access::default()));
        let names: Vec<_> = pulled.credential_mapping["reg.io/app"]
            .kubernetes_secrets
            .iter()
            .map(|secret| &secret.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert!(pulled.merge("reg.io/app", Access::of(None)));
        assert_eq!(pulled.credential_mapping["reg.io/app"], Access::of(None));
        assert!(!pulled.merge("reg.io/app", Access::of(Some(&credential("c", "p")))));
    }

    #[test]
    fn files_of_upstream_are_read_and_written() {
        let text = concat!(
            r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","#,
            r#""lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"sha256:1","#,
            r#""credentialMapping":{"reg.io/a":{"nodePodsAccessible":true},"#,
            r#""reg.io/b":{"kubernetesSecrets":[{"uid":"u","namespace":"n","name":"s","credentialHash":"h"}]},"#,
            r#""reg.io/c":{"kubernetesServiceAccounts":[{"uid":"u","namespace":"n","name":"a"}]}}}"#,
        );
        let pulled: Pulled = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&pulled).unwrap(), text);
        let text =
            r#"{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"busybox"}"#;
        assert_eq!(serde_json::to_string(&Intent::new("busybox")).unwrap(), text);
        assert_eq!(serde_json::from_str::<Intent>(text).unwrap(), Intent::new("busybox"));
        assert!(serde_json::from_str::<Intent>(&text.replace("v1beta1", "v9")).is_err());
        assert!(serde_json::from_str::<Pulled>(text).is_err());
    }
}
