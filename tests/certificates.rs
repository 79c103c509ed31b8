//! CertificateSigningRequests approved, signed and cleaned by the manager, as a process.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use steersman_api::Time;
use support::certificates::{
    Asked, Authority, CLIENT, KUBELET_SERVING, LEGACY, OF_KUBELET, Requests, issuer, with_certificate,
};
use support::cron_jobs::minutes_ago;
use support::manager::Manager;
use support::{Cluster, Server, eventually, real};

const SIGNING: &str = "--controllers=certificatesigningrequest-signing-controller";
const APPROVING: &str = "--controllers=certificatesigningrequest-approving-controller";
const CLEANER: &str = "--controllers=certificatesigningrequest-cleaner-controller";

/// A manager with these controllers and flags.
fn manager(cluster: &Cluster, controllers: &str, flags: &[String]) -> Manager {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Manager::start(&cluster.kubeconfig(), &[&[controllers], &flags[..]].concat())
}

#[tokio::test]
async fn each_signer_issues_the_certificates_that_are_asked_for() {
    let cluster = Cluster::start_alone().await;
    let authority = Authority::new("test-ca");
    let _manager = manager(&cluster, SIGNING, &authority.flags(""));
    let requests = Requests::of(&cluster);
    let serving = ["digital signature", "key encipherment", "server auth"];
    let client = ["digital signature", "client auth"];
    let of_client = Asked { signer: CLIENT, user: "bob", groups: &["team"], ..OF_KUBELET };
    let of_server = Asked {
        signer: KUBELET_SERVING,
        names: &["192.0.2.1", "n1", "2001:db8::1"],
        usages: &serving,
        ..OF_KUBELET
    };
    for (name, asked, purpose, usages) in [
        ("kubelet", OF_KUBELET, "sslclient", &client[..]),
        ("client", of_client, "sslclient", &client),
        ("server", of_server, "sslserver", &serving),
    ] {
        let asked = Asked { usages, ..asked };
        let before = Time::now().seconds();
        requests.ask_and_approve(name, &asked).await;
        let pem = requests.issued(name).await;
        assert!(authority.has_issued(&pem, purpose), "{name}");
        with_certificate(&pem, |certificate| {
            assert_eq!(certificate.issuer().to_string(), "CN=test-ca");
            assert_eq!(
                certificate.subject().to_string(),
                format!("O={}, CN={}", asked.groups[0], asked.user)
            );
            let usage = certificate.key_usage().unwrap().unwrap();
            assert!(usage.critical && usage.value.digital_signature());
            assert_eq!(usage.value.key_encipherment(), usages.contains(&"key encipherment"));
            let extended = certificate.extended_key_usage().unwrap().unwrap().value;
            assert_eq!(
                (extended.client_auth, extended.server_auth),
                (purpose == "sslclient", purpose == "sslserver")
            );
            let constraints = certificate.basic_constraints().unwrap().unwrap();
            assert!(constraints.critical && !constraints.value.ca);
            let names = certificate.subject_alternative_name().unwrap();
            let names = names
                .map(|names| names.value.general_names.iter().map(ToString::to_string).collect::<Vec<_>>());
            // DNS names come first, whatever the order of the request.
            assert_eq!(
                names.map(|names| (names.len(), names[0].clone())),
                (!asked.names.is_empty()).then(|| (3, "DNSName(n1)".to_owned()))
            );
            let validity = certificate.validity();
            let (from, to) =
                (validity.not_before.timestamp() - before, validity.not_after.timestamp() - before);
            let year = 365 * 24 * 3600;
            assert!((-300..=-200).contains(&from), "{from}");
            assert!((year - 300..year - 200).contains(&to), "{to}");
        });
    }
    let short = Asked { expiration_seconds: Some(600), ..OF_KUBELET };
    let before = Time::now().seconds();
    requests.ask_and_approve("short", &short).await;
    let pem = requests.issued("short").await;
    let left = with_certificate(&pem, |certificate| certificate.validity().not_after.timestamp()) - before;
    assert!((600..700).contains(&left), "{left}");
}

#[tokio::test]
async fn a_signer_refuses_what_it_does_not_sign_and_waits_for_approval() {
    let cluster = Cluster::start_alone().await;
    let authority = Authority::new("test-ca");
    let _manager = manager(&cluster, SIGNING, &authority.flags(""));
    let requests = Requests::of(&cluster);
    requests.ask("undecided", &OF_KUBELET).await;
    requests.ask("denied", &OF_KUBELET).await;
    requests.decide("denied", "Denied", None).await;
    requests.ask_and_approve("other-signer", &Asked { signer: "example.com/signer", ..OF_KUBELET }).await;
    for (name, asked, why) in [
        ("no-node", Asked { groups: &["team"], ..OF_KUBELET }, "subject organization is not system:nodes"),
        ("named", Asked { names: &["n1"], ..OF_KUBELET }, "DNS subjectAltNames are not allowed"),
        (
            "for-servers",
            Asked { usages: &["server auth", "digital signature"], ..OF_KUBELET },
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            "client-for-servers",
            Asked { signer: CLIENT, usages: &["server auth", "client auth"], ..OF_KUBELET },
            "invalid usage for client certificate: server auth",
        ),
        (
            "nameless",
            Asked { signer: KUBELET_SERVING, usages: &["server auth", "digital signature"], ..OF_KUBELET },
            "DNS or IP subjectAltName is required",
        ),
    ] {
        requests.ask_and_approve(name, &asked).await;
        let expected = ("SignerValidationFailure".to_owned(), why.to_owned());
        assert_eq!(requests.condition(name, "Failed").await, expected, "{name}");
        assert!(requests.get(name).await.status.unwrap().certificate.is_none());
    }
    // By now the manager has seen the others, too.
    assert!(requests.is_untouched("undecided").await);
    for name in ["denied", "other-signer"] {
        let status = requests.get(name).await.status.unwrap();
        assert_eq!((status.certificate, status.conditions.unwrap().len()), (None, 1), "{name}");
    }
}

#[tokio::test]
async fn an_authority_of_one_signer_signs_for_no_other() {
    let cluster = Cluster::start_alone().await;
    let (serving, client) = (Authority::new("serving-ca"), Authority::new("client-ca"));
    let flags = [serving.flags("kubelet-serving-"), client.flags("kube-apiserver-client-")].concat();
    let _manager = manager(&cluster, SIGNING, &flags);
    let requests = Requests::of(&cluster);
    requests.ask_and_approve("kubelet", &OF_KUBELET).await;
    let usages = ["digital signature", "server auth"];
    requests
        .ask_and_approve(
            "server",
            &Asked { signer: KUBELET_SERVING, names: &["n1"], usages: &usages, ..OF_KUBELET },
        )
        .await;
    requests.ask_and_approve("client", &Asked { signer: CLIENT, ..OF_KUBELET }).await;
    assert_eq!(issuer(&requests.issued("server").await), "CN=serving-ca");
    assert_eq!(issuer(&requests.issued("client").await), "CN=client-ca");
    assert!(requests.get("kubelet").await.status.unwrap().certificate.is_none());
}

#[tokio::test]
async fn a_new_authority_in_the_files_signs_without_a_restart() {
    let cluster = Cluster::start_alone().await;
    let authority = Authority::new("old-ca");
    let _manager = manager(&cluster, SIGNING, &authority.flags(""));
    let requests = Requests::of(&cluster);
    requests.ask_and_approve("old", &OF_KUBELET).await;
    assert_eq!(issuer(&requests.issued("old").await), "CN=old-ca");
    authority.renew("new-ca");
    // kube-controller-manager looks at the files once a minute, and when the system tells it of a change.
    for attempt in 0.. {
        let name = format!("new-{attempt}");
        requests.ask_and_approve(&name, &OF_KUBELET).await;
        let pem = requests.issued(&name).await;
        if issuer(&pem) == "CN=new-ca" {
            assert!(authority.has_issued(&pem, "sslclient"));
            return;
        }
        assert!(attempt < 300 && Manager::is_upstream(), "still the old authority");
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn wrong_files_end_the_start_with_one_line_that_names_flag_and_file() {
    let cluster = Cluster::start().await;
    let (authority, other) = (Authority::new("a"), Authority::new("b"));
    let mismatched = [authority.flags("")[0].clone(), other.flags("")[1].clone()];
    let missing =
        ["--cluster-signing-cert-file=/nowhere/ca.crt", "--cluster-signing-key-file=/nowhere/ca.key"];
    let both = [authority.flags(""), authority.flags("kubelet-client-")].concat();
    for (name, flags, line) in [
        ("mismatched", mismatched.to_vec(), format!("--cluster-signing-key-file: {}: the private key does not match", other.file("ca.key").display())),
        ("missing", missing.map(str::to_owned).to_vec(), "--cluster-signing-cert-file: /nowhere/ca.crt: No such file".to_owned()),
        ("both", both, "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time".to_owned()),
        ("half", vec![authority.flags("legacy-unknown-")[0].clone()], "--cluster-signing-legacy-unknown-cert-file is specified, so --cluster-signing-legacy-unknown-key-file must be".to_owned()),
    ] {
        let mut manager = manager(&cluster, SIGNING, &flags);
        assert!(!manager.ended().await.success(), "{name}");
        if manager.is_steersman() {
            assert!(manager.log().contains(&line), "{name}: {}", manager.log());
        }
    }
}

/// Lets a user, or a group, have a role of the whole cluster.
async fn bind(cluster: &Cluster, role: &str, subject: Value) {
    let binding = json!({
        "metadata": {"generateName": "test-"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    });
    let bindings = Api::<ClusterRoleBinding>::all(cluster.client());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

/// Makes a role that may create these resources of `certificates.k8s.io`.
async fn role(cluster: &Cluster, name: &str, resources: &[&str]) -> String {
    let name = format!("{}-{name}", cluster.namespace);
    let role = json!({
        "metadata": {"name": name},
        "rules": [{"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": ["create", "get"]}],
    });
    let roles = Api::<k8s_openapi::api::rbac::v1::ClusterRole>::all(cluster.client());
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    name
}

#[tokio::test]
async fn kubelets_requests_are_approved_if_rbac_allows_the_requestor() {
    let cluster = Cluster::start_alone().await;
    let _manager = manager(&cluster, APPROVING, &[]);
    let ask = role(&cluster, "asks", &["certificatesigningrequests"]).await;
    let own = role(&cluster, "renews", &["certificatesigningrequests/selfnodeclient"]).await;
    let any = role(&cluster, "joins", &["certificatesigningrequests/nodeclient"]).await;
    let unique = |name: &str| format!("system:bootstrappers:{}-{name}", cluster.namespace);
    let (joiners, guests) = (unique("joiners"), unique("guests"));
    let group = |name: &str| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let user = |name: &str| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let node = format!("system:node:{}", cluster.namespace);
    for (role, subject) in [
        (&ask, group(&joiners)),
        (&any, group(&joiners)),
        (&ask, group(&guests)),
        (&ask, user(&node)),
        (&own, user(&node)),
    ] {
        bind(&cluster, role, subject).await;
    }
    let joiner = Requests::by(&cluster, "system:bootstrap:abcdef", &[&joiners]);
    let guest = Requests::by(&cluster, "system:bootstrap:bcdefg", &[&guests]);
    let itself = Requests::by(&cluster, &node, &["system:nodes"]);
    let requests = Requests::of(&cluster);
    let of_node = Asked { user: &node, ..OF_KUBELET };
    guest.ask("guest", &of_node).await;
    itself.ask("another", &Asked { user: "system:node:other", ..OF_KUBELET }).await;
    joiner
        .ask(
            "server",
            &Asked {
                signer: KUBELET_SERVING,
                names: &["n1"],
                usages: &["digital signature", "server auth"],
                ..OF_KUBELET
            },
        )
        .await;
    joiner.ask("no-node", &Asked { user: "bob", ..OF_KUBELET }).await;
    joiner.ask("named", &Asked { names: &["n1"], ..OF_KUBELET }).await;
    for (name, by, message) in [
        ("joins", &joiner, "Auto approving kubelet client certificate after SubjectAccessReview."),
        ("renews", &itself, "Auto approving self kubelet client certificate after SubjectAccessReview."),
    ] {
        by.ask(name, &of_node).await;
        let expected = ("AutoApproved".to_owned(), message.to_owned());
        assert_eq!(requests.condition(name, "Approved").await, expected, "{name}");
    }
    for name in ["guest", "another", "server", "no-node", "named"] {
        assert!(requests.is_untouched(name).await, "{name}");
    }
    // A right that comes later counts: the manager asks again.
    bind(&cluster, &any, group(&guests)).await;
    requests.condition("guest", "Approved").await;
}

#[tokio::test]
async fn old_requests_are_deleted() {
    let cluster = Cluster::start_alone().await;
    let requests = Requests::of(&cluster);
    for (name, kind, minutes) in [
        ("denied", "Denied", 61),
        ("just-denied", "Denied", 50),
        ("unsigned", "Approved", 25 * 60),
        ("approved", "Approved", 120),
    ] {
        requests.ask(name, &OF_KUBELET).await;
        requests.decide(name, kind, Some(minutes_ago(minutes))).await;
    }
    requests.ask("pending", &OF_KUBELET).await;
    // kube-controller-manager looks before its cache is filled, unless it starts its controllers late; and then once an hour.
    let _manager = manager(&cluster, CLEANER, &["--controller-start-interval=3s".to_owned()]);
    for name in ["denied", "unsigned"] {
        eventually(&format!("{name} goes"), || async {
            requests.api.get_opt(&requests.name(name)).await.unwrap().is_none().then_some(())
        })
        .await;
    }
    for name in ["just-denied", "approved", "pending"] {
        requests.get(name).await;
    }
}

#[tokio::test]
async fn kubernetes_own_role_is_enough() {
    if real::assets().is_none() {
        println!("the embedded server has no service accounts with Kubernetes's own roles: not run");
        return;
    }
    let cluster = Cluster::start_alone().await;
    let mut kubeconfig: Value =
        serde_json::from_str(&std::fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"]["token"] = real::CERTIFICATE_CONTROLLER_TOKEN.into();
    let limited = cluster.kubeconfig().with_file_name("limited");
    std::fs::write(&limited, kubeconfig.to_string()).unwrap();
    let authority = Authority::new("test-ca");
    let [certificate, key] = authority.flags("");
    let controllers = format!("{SIGNING},csrapproving,csrcleaner");
    let requests = Requests::of(&cluster);
    requests.ask("old", &OF_KUBELET).await;
    requests.decide("old", "Denied", Some(minutes_ago(120))).await;
    let _manager =
        Manager::start(&limited, &[&controllers, &certificate, &key, "--controller-start-interval=3s"]);
    // The administrator may have any node's certificate.
    requests.ask("kubelet", &OF_KUBELET).await;
    requests.issued("kubelet").await;
    requests
        .ask_and_approve("refused", &Asked { signer: CLIENT, usages: &["server auth"], ..OF_KUBELET })
        .await;
    requests.condition("refused", "Failed").await;
    eventually("the old request goes", || async {
        requests.api.get_opt(&requests.name("old")).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn two_managers_issue_one_certificate_for_each_request() {
    let cluster = Cluster::start_alone().await;
    let authority = Authority::new("test-ca");
    let controllers = format!("{SIGNING},csrapproving");
    let mut managers = [(); 2].map(|()| manager(&cluster, &controllers, &authority.flags("")));
    let requests = Requests::of(&cluster);
    let mut issued = BTreeMap::new();
    for at in 0..10 {
        let name = format!("r{at}");
        requests.ask(&name, &OF_KUBELET).await;
        if at == 5 {
            managers[0].kill();
        }
        issued.insert(name.clone(), requests.issued(&name).await);
    }
    for (name, certificate) in issued {
        let status = requests.get(&name).await.status.unwrap();
        assert_eq!(status.certificate.unwrap().0, certificate);
        assert_eq!(status.conditions.unwrap().len(), 1, "{name} is approved once");
    }
}

async fn versions(requests: &Requests, names: &[&str]) -> Vec<Option<String>> {
    let mut versions = Vec::new();
    for name in names {
        versions.push(requests.get(name).await.metadata.resource_version);
    }
    versions
}

async fn hand_over(assets: &Path, cluster: Cluster) {
    let authority = Authority::new("test-ca");
    let [certificate, key] = authority.flags("");
    let controllers = format!("{SIGNING},csrapproving,csrcleaner");
    let flags = [controllers.as_str(), &certificate, &key];
    let requests = Requests::of(&cluster);
    let refused = Asked { signer: CLIENT, usages: &["server auth"], ..OF_KUBELET };
    let names = ["signed", "refused", "pending"];

    let steersman = Manager::start(&cluster.kubeconfig(), &flags);
    requests.ask("signed", &OF_KUBELET).await;
    requests.issued("signed").await;
    requests.ask_and_approve("refused", &refused).await;
    requests.condition("refused", "Failed").await;
    requests.ask("pending", &Asked { signer: CLIENT, ..OF_KUBELET }).await;
    drop(steersman);
    let before = versions(&requests, &names).await;

    let upstream = Manager::start_upstream(assets, &cluster.kubeconfig(), &flags);
    requests.ask("second", &OF_KUBELET).await;
    requests.issued("second").await;
    assert_eq!(versions(&requests, &names).await, before, "upstream changed what we left");
    requests.ask_and_approve("second-refused", &refused).await;
    requests.condition("second-refused", "Failed").await;
    drop(upstream);
    let names = [&names[..], &["second", "second-refused"]].concat();
    let before = versions(&requests, &names).await;

    let _steersman = Manager::start(&cluster.kubeconfig(), &flags);
    requests.ask("third", &OF_KUBELET).await;
    requests.issued("third").await;
    assert_eq!(versions(&requests, &names).await, before, "we changed what upstream left");
    requests.decide("pending", "Approved", None).await;
    requests.issued("pending").await;
}

#[tokio::test]
async fn a_hand_over_and_back_changes_no_request() {
    let Some(assets) = real::assets().filter(|assets| assets.join("kube-controller-manager").exists()) else {
        println!("no kube-controller-manager is at hand: not run");
        return;
    };
    hand_over(&assets, Cluster::start_alone().await).await;
}

/// Only the first version of the API accepted new requests for the signer `kubernetes.io/legacy-unknown`. The test writes one to
/// etcd, as a cluster has it that was upgraded since.
#[tokio::test]
async fn an_old_request_of_the_legacy_signer_is_signed_once_it_is_approved() {
    let cluster = Cluster::start_alone().await;
    let Server::Real(server) = &cluster.server else {
        println!("the embedded API server never had such requests: not run");
        return;
    };
    let (authority, other) = (Authority::new("legacy-ca"), Authority::new("other-ca"));
    let requests = Requests::of(&cluster);
    // No built-in signer but this one signs any of these.
    let asked = Asked {
        signer: LEGACY,
        user: "root",
        groups: &["system:masters"],
        names: &["example.com"],
        usages: &["digital signature", "server auth", "client auth"],
        expiration_seconds: None,
    };
    let new = serde_json::from_value(requests.manifest("new", &asked)).unwrap();
    let refused = requests.api.create(&PostParams::default(), &new).await.unwrap_err();
    assert!(refused.to_string().contains("legacy"), "{refused}");
    for name in ["old", "undecided"] {
        let mut request = requests.manifest(name, &asked);
        request["apiVersion"] = json!("certificates.k8s.io/v1");
        request["kind"] = json!("CertificateSigningRequest");
        request["metadata"]["uid"] = json!(format!("{name}-uid"));
        request["metadata"]["creationTimestamp"] = json!(minutes_ago(1));
        request["spec"]["username"] = json!("bob");
        server.store(&format!("certificatesigningrequests/{}", requests.name(name)), &request).await;
    }
    let flags = [authority.flags("legacy-unknown-"), other.flags("kube-apiserver-client-")].concat();
    let _manager = manager(&cluster, &format!("{SIGNING},csrapproving"), &flags);
    requests.decide("old", "Approved", None).await;
    let pem = requests.issued("old").await;
    for purpose in ["sslclient", "sslserver"] {
        assert!(authority.has_issued(&pem, purpose), "{purpose}");
    }
    with_certificate(&pem, |certificate| {
        assert_eq!(certificate.subject().to_string(), "O=system:masters, CN=root");
    });
    assert!(requests.is_untouched("undecided").await, "no controller approves such requests");
}

/// Has `first` approve a request for whose signer it has no authority, and `second` sign it, as well as one that a person
/// approves while neither runs.
async fn hands_over_unsigned(
    requests: &Requests,
    first: impl Fn(&[&str]) -> Manager,
    second: impl Fn(&[&str]) -> Manager,
) {
    let (own, authority) = (Authority::new("serving-ca"), Authority::new("test-ca"));
    let controllers = format!("{SIGNING},csrapproving,csrcleaner");
    let [certificate, key] = own.flags("kubelet-serving-");
    let mut manager = first(&[&controllers, &certificate, &key]);
    requests.ask("approved", &OF_KUBELET).await;
    requests.condition("approved", "Approved").await;
    let usages = ["digital signature", "server auth"];
    let of_server = Asked { signer: KUBELET_SERVING, names: &["n1"], usages: &usages, ..OF_KUBELET };
    requests.ask_and_approve("server", &of_server).await;
    let served = requests.issued("server").await;
    manager.stop().await;
    let approved = requests.get("approved").await.status.unwrap();
    assert_eq!(approved.certificate, None);
    requests.ask_and_approve("between", &Asked { signer: CLIENT, ..OF_KUBELET }).await;

    let [certificate, key] = authority.flags("");
    let _manager = second(&[&controllers, &certificate, &key]);
    for name in ["approved", "between"] {
        let pem = requests.issued(name).await;
        assert!(authority.has_issued(&pem, "sslclient"), "{name}");
    }
    let signed = requests.get("approved").await.status.unwrap();
    assert_eq!(signed.conditions, approved.conditions, "it is not approved again");
    assert_eq!(requests.get("server").await.status.unwrap().certificate.unwrap().0, served);
}

#[tokio::test]
async fn another_manager_signs_what_the_first_left_approved() {
    let cluster = Cluster::start_alone().await;
    let start = |flags: &[&str]| Manager::start(&cluster.kubeconfig(), flags);
    hands_over_unsigned(&Requests::of(&cluster), start, start).await;
}

#[tokio::test]
async fn managers_sign_what_the_other_one_left_approved() {
    let Some(assets) = real::assets().filter(|assets| assets.join("kube-controller-manager").exists()) else {
        println!("no kube-controller-manager is at hand: not run");
        return;
    };
    for to_steersman in [true, false] {
        let cluster = Cluster::start_alone().await;
        let ours = |flags: &[&str]| Manager::start(&cluster.kubeconfig(), flags);
        let theirs = |flags: &[&str]| Manager::start_upstream(&assets, &cluster.kubeconfig(), flags);
        let requests = Requests::of(&cluster);
        if to_steersman {
            hands_over_unsigned(&requests, theirs, ours).await;
        } else {
            hands_over_unsigned(&requests, ours, theirs).await;
        }
    }
}
