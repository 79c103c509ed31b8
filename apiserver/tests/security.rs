//! The server for people: over HTTPS, for those whom rules allow it.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_apiserver::{Identity, Options, Server, StartError};

async fn start(folder: &Path) -> Server {
    Server::start(options(folder)).await.unwrap()
}

fn options(folder: &Path) -> Options {
    Options::new(folder)
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn admin(server: &Server) -> Client {
    let options = KubeConfigOptions::default();
    Client::try_from(Config::from_custom_kubeconfig(server.kubeconfig(), &options).await.unwrap()).unwrap()
}

/// One who trusts the server, and says no more of itself than this token, if any.
async fn with_token(server: &Server, token: Option<&str>) -> Client {
    let mut kubeconfig = server.kubeconfig();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    *user = kube::config::AuthInfo::default();
    user.token = token.map(|token| token.to_owned().into());
    let options = KubeConfigOptions::default();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
}

fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.message),
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn the_administrator_of_the_kubeconfig_may_do_everything_and_the_same_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path()).await;
    let kubeconfig = first.kubeconfig();
    let maps: Api<ConfigMap> = Api::namespaced(admin(&first).await, "default");
    maps.create(&Default::default(), &object(json!({"metadata": {"name": "a"}}))).await.unwrap();
    first.stop().await;

    let second = start(folder.path()).await;
    let user = |of: &kube::config::Kubeconfig| of.auth_infos[0].auth_info.clone();
    assert_eq!(
        serde_json::to_value(user(&kubeconfig)).unwrap(),
        serde_json::to_value(user(&second.kubeconfig())).unwrap()
    );
    let maps: Api<ConfigMap> = Api::namespaced(admin(&second).await, "default");
    maps.get("a").await.unwrap();
    for file in ["ca.key", "admin.key", "admin.token", "sa.key"] {
        let mode = std::fs::metadata(folder.path().join("pki").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn who_does_not_say_who_it_is_gets_health_and_version_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let nobody = with_token(&server, None).await;
    nobody.apiserver_version().await.unwrap();
    let healthz = http::Request::get("/healthz").body(Vec::new()).unwrap();
    assert_eq!(nobody.request_text(healthz).await.unwrap(), "ok");
    let maps: Api<ConfigMap> = Api::namespaced(nobody.clone(), "default");
    assert_eq!(
        refused(maps.list(&Default::default()).await),
        (
            403,
            "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"".to_owned()
        )
    );
    assert_eq!(refused(nobody.list_core_api_versions().await).0, 403);
    let create = maps.create(&Default::default(), &object(json!({"metadata": {"name": "a"}}))).await;
    assert_eq!(refused(create).0, 403);
    for token in ["wrong", "a.b.c"] {
        let liar = with_token(&server, Some(token)).await;
        assert_eq!(refused(liar.apiserver_version().await), (401, "Unauthorized".to_owned()));
    }
}

#[tokio::test]
async fn the_token_in_the_data_folder_is_the_administrators() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let token = std::fs::read_to_string(folder.path().join("pki/admin.token")).unwrap();
    let maps: Api<ConfigMap> = Api::all(with_token(&server, Some(&token)).await);
    maps.list(&Default::default()).await.unwrap();
}

#[tokio::test]
async fn the_servers_own_certificate_toward_nodes_is_no_way_back_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    // A node may report the server's own address as its address, so that the server connects to itself with this certificate.
    let file = |ending: &str| folder.path().join(format!("pki/apiserver-kubelet-client.{ending}"));
    let mut kubeconfig = server.kubeconfig();
    kubeconfig.auth_infos[0].auth_info = Some(kube::config::AuthInfo {
        client_certificate: Some(file("crt").display().to_string()),
        client_key: Some(file("key").display().to_string()),
        ..Default::default()
    });
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config).unwrap());
    let (code, _) = refused(maps.list(&Default::default()).await);
    assert_eq!(code, 401);
    server.stop().await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_names_no_user() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, foreign) = (start(one.path()).await, start(other.path()).await);
    let mut kubeconfig = server.kubeconfig();
    kubeconfig.auth_infos = foreign.kubeconfig().auth_infos;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let answer = Client::try_from(config).unwrap().apiserver_version().await;
    assert_eq!(refused(answer), (401, "Unauthorized".to_owned()));
}

#[tokio::test]
async fn a_service_account_may_what_roles_allow_while_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let client = admin(&server).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    accounts.create(&Default::default(), &object(json!({"metadata": {"name": "reader"}}))).await.unwrap();
    let spec = TokenRequestSpec { expiration_seconds: Some(600), ..Default::default() };
    let asked = TokenRequest { spec: Some(spec), ..Default::default() };
    let issued = accounts.create_token_request("reader", &Default::default(), &asked).await.unwrap();
    let token = issued.status.unwrap().token.unwrap();

    let reader = with_token(&server, Some(&token)).await;
    let maps: Api<ConfigMap> = Api::namespaced(reader.clone(), "default");
    let (code, message) = refused(maps.list(&Default::default()).await);
    assert_eq!(code, 403);
    assert!(message.contains("User \"system:serviceaccount:default:reader\" cannot list"), "{message}");

    let roles: Api<Role> = Api::namespaced(client.clone(), "default");
    let role = json!({
        "metadata": {"name": "reads"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch", "update"]}],
    });
    roles.create(&Default::default(), &object(role)).await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "default");
    let binding = json!({
        "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    });
    bindings.create(&Default::default(), &object(binding)).await.unwrap();
    maps.list(&Default::default()).await.unwrap();
    let create = maps.create(&Default::default(), &object(json!({"metadata": {"name": "a"}}))).await;
    assert_eq!(refused(create).0, 403);
    // Nor may a patch do so in passing.
    let config: ConfigMap = object(json!({"metadata": {"name": "a"}, "data": {"x": "1"}}));
    let apply = kube::api::Patch::Apply(&config);
    let params = kube::api::PatchParams::apply("reader");
    assert_eq!(refused(maps.patch("a", &params, &apply).await).0, 403);
    let theirs: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    theirs.create(&Default::default(), &object(json!({"metadata": {"name": "a"}}))).await.unwrap();
    maps.patch("a", &params, &apply).await.unwrap();
    let elsewhere: Api<ConfigMap> = Api::namespaced(reader.clone(), "kube-system");
    assert_eq!(refused(elsewhere.list(&Default::default()).await).0, 403);

    let may = |verb: &str| SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                resource: Some("configmaps".to_owned()),
                namespace: Some("default".to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(reader);
    for (verb, allowed) in [("list", true), ("delete", false)] {
        let answer = reviews.create(&Default::default(), &may(verb)).await.unwrap();
        assert_eq!(answer.status.unwrap().allowed, allowed, "{verb}");
    }

    let reviews: Api<TokenReview> = Api::all(client.clone());
    let review = TokenReview {
        spec: TokenReviewSpec { token: token.clone(), ..Default::default() },
        ..Default::default()
    };
    let known = reviews.create(&Default::default(), &review).await.unwrap().status.unwrap();
    assert_eq!(known.authenticated, Some(true));
    let user = known.user.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:serviceaccount:default:reader"));
    accounts.delete("reader", &Default::default()).await.unwrap();
    let gone = reviews.create(&Default::default(), &review).await.unwrap().status.unwrap();
    assert_ne!(gone.authenticated, Some(true));
    assert_eq!(refused(maps.list(&Default::default()).await).0, 401);
}

#[tokio::test]
async fn reviews_of_access_are_of_whom_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let reviews: Api<SubjectAccessReview> = Api::all(admin(&server).await);
    let review = |user: &str, groups: &[&str]| SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups.iter().map(|group| (*group).to_owned()).collect()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some("get".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some("proxy".to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    for (user, groups, allowed) in
        [("a", &["system:masters"][..], true), ("a", &["system:authenticated"], false), ("admin", &[], false)]
    {
        let answer = reviews.create(&Default::default(), &review(user, groups)).await.unwrap();
        assert_eq!(answer.status.unwrap().allowed, allowed, "{user} {groups:?}");
    }
}

#[tokio::test]
async fn a_part_of_the_process_asks_as_whom_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let of = |who: Identity| Client::new(server.in_memory(who), "default");
    let maps: Api<ConfigMap> = Api::namespaced(of(Identity::master("manager")), "default");
    maps.list(&Default::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(of(Identity::authenticated("guest", [])), "default");
    assert_eq!(refused(maps.list(&Default::default()).await).0, 403);
}

#[tokio::test]
async fn a_taken_port_and_a_folder_in_use_are_said_in_one_line() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = start(one.path()).await;
    let twice = Server::start(Options { address: server.address(), ..options(other.path()) }).await;
    let Err(error @ StartError::Listen { .. }) = twice else { panic!("two servers share a port") };
    assert!(error.to_string().starts_with(&format!("serving at {}: ", server.address())), "{error}");
    let twice = Server::start(options(one.path())).await;
    let Err(error @ StartError::Open(_)) = twice else { panic!("two servers share a folder") };
    assert!(error.to_string().ends_with("another server is using it"), "{error}");
}

/// What a server answers to somebody: the code, and the message of a refusal.
async fn ask(server: &Server, who: &str, method: &str, path: &str, body: Value) -> (u16, String) {
    let (code, answer) = answered(server, Identity::authenticated(who, []), method, path, body).await;
    (code, answer["message"].as_str().unwrap_or_default().to_owned())
}

/// What a server answers to somebody, whole.
async fn answered(server: &Server, who: Identity, method: &str, path: &str, body: Value) -> (u16, Value) {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let content_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(kube::client::Body::from(body)).unwrap();
    let (parts, body) = server.in_memory(who).oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), serde_json::from_slice(&bytes).unwrap())
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Gives a user rights everywhere, by a role of that name.
async fn allow(server: &Server, who: &str, role: &str, rules: Value) {
    let admin = || Identity::master("admin");
    let role = json!({"metadata": {"name": role}, "rules": rules});
    let made = answered(server, admin(), "POST", &format!("{RBAC}/clusterroles"), role.clone()).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let binding = json!({
        "metadata": {"name": role["metadata"]["name"]},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "User", "name": who}],
    });
    let made = answered(server, admin(), "POST", &format!("{RBAC}/clusterrolebindings"), binding).await;
    assert_eq!(made.0, 201, "{}", made.1);
}

#[tokio::test]
async fn what_everybody_may_is_what_bindings_say() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let review = || json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(ask(&server, "ann", "GET", "/apis", Value::Null).await.0, 200);
    assert_eq!(ask(&server, "ann", "POST", REVIEWS, review()).await.0, 201);
    for binding in ["system:discovery", "system:basic-user"] {
        let path = format!("{RBAC}/clusterrolebindings/{binding}");
        let gone = answered(&server, Identity::master("admin"), "DELETE", &path, Value::Null).await;
        assert_eq!(gone.0, 200, "{}", gone.1);
    }
    assert_eq!(ask(&server, "ann", "GET", "/apis", Value::Null).await.0, 403);
    assert_eq!(ask(&server, "ann", "POST", REVIEWS, review()).await.0, 403);
}

#[tokio::test]
async fn nobody_gives_away_more_than_it_has_unless_it_may_escalate_or_bind() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let group = "rbac.authorization.k8s.io";
    let writes =
        json!([{"apiGroups": [group], "resources": ["*"], "verbs": ["create", "update", "patch", "get"]}]);
    allow(&server, "bob", "writes-roles", writes).await;
    let binding = |kind: &str, role: &str| {
        json!({
            "metadata": {"generateName": "evil-"},
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            "subjects": [{"kind": "User", "name": "bob"}],
        })
    };
    let (in_default, everywhere) =
        (format!("{RBAC}/namespaces/default/rolebindings"), format!("{RBAC}/clusterrolebindings?dryRun=All"));
    let everything = "user \"bob\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not \
         currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], \
         Verbs:[\"*\"]}";
    for (path, body, expected) in [
        (
            &in_default,
            binding("ClusterRole", "cluster-admin"),
            (403, format!("rolebindings.{group} is forbidden: {everything}")),
        ),
        (
            &everywhere,
            binding("ClusterRole", "cluster-admin"),
            (403, format!("clusterrolebindings.{group} is forbidden: {everything}")),
        ),
        (&in_default, binding("Role", "none"), (404, format!("rolebindings.{group} \"none\" not found"))),
        (&in_default, binding("Rule", "none"), (500, "unsupported role reference kind: \"Rule\"".to_owned())),
        (&everywhere, binding("Role", "none"), (400, "Namespace parameter required.".to_owned())),
        (&everywhere, binding("ClusterRole", ""), (400, "Name parameter required.".to_owned())),
        (&in_default, binding("ClusterRole", "writes-roles"), (201, String::new())),
    ] {
        assert_eq!(ask(&server, "bob", "POST", path, body.clone()).await, expected, "{path} {body}");
    }

    let roles = format!("{RBAC}/clusterroles");
    let role = |rules: Value| json!({"metadata": {"name": "some"}, "rules": rules});
    let nodes = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]);
    let more = "user \"bob\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not \
         currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}";
    let refused = (403, format!("clusterroles.{group} \"some\" is forbidden: {more}"));
    assert_eq!(ask(&server, "bob", "POST", &roles, role(nodes.clone())).await, refused);
    let some = format!("{roles}/some");
    assert_eq!(ask(&server, "bob", "PUT", &some, role(nodes.clone())).await, refused);
    let held = json!([{"apiGroups": [group], "resources": ["roles"], "verbs": ["get"]}]);
    assert_eq!(ask(&server, "bob", "POST", &roles, role(held)).await.0, 201);
    assert_eq!(ask(&server, "bob", "PATCH", &some, json!({"rules": nodes})).await, refused);
    let aggregating = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let why = "must have cluster-admin privileges to use the aggregationRule";
    assert_eq!(
        ask(&server, "bob", "PATCH", &some, aggregating).await,
        (403, format!("clusterroles.{group} \"some\" is forbidden: {why}"))
    );
    // What the garbage collector needs, it may do to what it has not got.
    let view = format!("{roles}/view");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(ask(&server, "bob", "PATCH", &view, labels).await.0, 403);
    let finalizers = json!({"metadata": {"finalizers": ["example.com/held"]}});
    assert_eq!(ask(&server, "bob", "PATCH", &view, finalizers).await.0, 200);

    let verbs = json!([{"apiGroups": [group], "resources": ["clusterroles"], "verbs": ["bind", "escalate"]}]);
    allow(&server, "bob", "may", verbs).await;
    assert_eq!(ask(&server, "bob", "PATCH", &some, json!({"rules": nodes})).await.0, 200);
    assert_eq!(ask(&server, "bob", "POST", &in_default, binding("ClusterRole", "admin")).await.0, 201);
}

#[tokio::test]
async fn who_asks_as_another_needs_a_right_to_all_that_it_says_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let ask = async |headers: &[(&str, &str)]| {
        use http_body_util::BodyExt;
        use tower::ServiceExt;
        let mut request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json");
        let body = request.body(kube::client::Body::from(b"{}".to_vec())).unwrap();
        let who = Identity::authenticated("bob", []);
        let (parts, body) = server.in_memory(who).oneshot(body).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    let account = ("impersonate-user", "system:serviceaccount:default:a");
    let (code, answer) = ask(&[account]).await;
    let why = "selfsubjectreviews.authentication.k8s.io is forbidden: User \"bob\" cannot \
         impersonate-on:serviceaccount:create resource \"selfsubjectreviews\" in API group \
         \"authentication.k8s.io\" at the cluster scope";
    assert_eq!((code, answer["message"].as_str().unwrap()), (403, why));
    let rules =
        json!([{"apiGroups": [""], "resources": ["users", "serviceaccounts"], "verbs": ["impersonate"]}]);
    allow(&server, "bob", "impersonates", rules).await;
    let (code, answer) = ask(&[account]).await;
    assert_eq!(code, 201, "{answer}");
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(answer["status"]["userInfo"]["groups"], groups);
    assert_eq!(ask(&[("impersonate-user", "al"), ("impersonate-uid", "7")]).await.0, 403);
    let extra = [("impersonate-user", "al"), ("impersonate-extra-scopes", "x")];
    assert_eq!(ask(&extra).await.0, 403);
    let rules =
        json!([{"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"], "verbs": ["*"]}]);
    allow(&server, "bob", "scopes", rules).await;
    let (code, answer) = ask(&extra).await;
    assert_eq!((code, &answer["status"]["userInfo"]["extra"]), (201, &json!({"scopes": ["x"]})));
    assert_eq!(ask(&extra[1..]).await.0, 400);
}

#[tokio::test]
async fn an_administrator_who_asks_as_another_has_no_more_rights_than_that_user() {
    use tower::ServiceExt;
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let list_as = async |headers: &[(&str, &[u8])]| {
        let mut request = http::Request::get("/api/v1/secrets");
        for (name, value) in headers {
            request = request.header(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        let request = request.body(kube::client::Body::empty()).unwrap();
        server.in_memory(Identity::master("admin")).oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(list_as(&[]).await, 200);
    assert_eq!(list_as(&[("impersonate-user", "j\u{fc}rgen".as_bytes())]).await, 403);
    assert_eq!(list_as(&[("impersonate-user", b"j\xfcrgen")]).await, 400);
    assert_eq!(list_as(&[("impersonate-group", "K\u{f6}ln".as_bytes())]).await, 400);
}

#[tokio::test]
async fn a_token_that_is_no_text_is_refused_like_any_other_wrong_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let nobody = with_token(&server, None).await;
    for token in [&b"Bearer wrong"[..], b"Bearer \xff\xfe", "Bearer \u{fc}".as_bytes()] {
        let request = http::Request::get("/version");
        let request = request.header("authorization", http::HeaderValue::from_bytes(token).unwrap());
        let answer = nobody.request_text(request.body(Vec::new()).unwrap()).await;
        assert_eq!(refused(answer).0, 401, "{token:?}");
    }
}

#[tokio::test]
async fn a_token_is_for_the_account_and_the_object_that_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let core = "/api/v1/namespaces/default";
    let make = async |path: &str, object: Value| {
        let (code, made) = answered(&server, Identity::master("admin"), "POST", path, object).await;
        assert_eq!(code, 201, "{made}");
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let uid = make(&format!("{core}/serviceaccounts"), json!({"metadata": {"name": "a"}})).await;
    make(&format!("{core}/serviceaccounts"), json!({"metadata": {"name": "b"}})).await;
    let of_b = json!({"serviceAccountName": "b", "containers": [{"name": "c", "image": "i"}]});
    make(&format!("{core}/pods"), json!({"metadata": {"name": "of-b"}, "spec": of_b})).await;
    let node =
        make("/api/v1/nodes", json!({"metadata": {"name": "n", "finalizers": ["example.com/f"]}})).await;
    let token = async |request: Value| {
        let path = format!("{core}/serviceaccounts/a/token");
        answered(&server, Identity::master("admin"), "POST", &path, request).await
    };
    let to = |bound: Value| json!({"spec": {"boundObjectRef": bound}});
    for (request, expected) in [
        (
            to(json!({"kind": "Pod", "name": "of-b"})),
            (
                400,
                "cannot bind token for serviceaccount \"a\" to pod running with different serviceaccount name."
                    .to_owned(),
            ),
        ),
        (
            to(json!({"kind": "Pod", "apiVersion": "apps/v1", "name": "of-b"})),
            (400, "cannot bind token to object of type apps/v1, Kind=Pod".to_owned()),
        ),
        (
            to(json!({"kind": "Node", "name": "n", "uid": "other"})),
            (
                409,
                "Operation cannot be fulfilled on Node \"n\": the UID in the bound object reference (other) does not \
                 match the UID in record. The object might have been deleted and then recreated"
                    .to_owned(),
            ),
        ),
        (
            json!({"metadata": {"uid": "other"}}),
            (
                409,
                format!(
                    "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"a\": the UID in the token \
                     request (other) does not match the UID of the service account ({uid})"
                ),
            ),
        ),
        (
            json!({"metadata": {"name": "b"}}),
            (
                422,
                "TokenRequest.authentication.k8s.io \"a\" is invalid: metadata.name: Invalid value: \"b\": must match \
                 the service account name if specified"
                    .to_owned(),
            ),
        ),
    ] {
        let (code, answer) = token(request.clone()).await;
        assert_eq!((code, answer["message"].as_str().unwrap().to_owned()), expected, "{request}");
    }
    let (code, answer) = token(to(json!({"kind": "Node", "name": "n"}))).await;
    assert_eq!((code, &answer["metadata"]["uid"]), (201, &json!(uid)), "{answer}");
    let of_node = answer["status"]["token"].as_str().unwrap().to_owned();
    let review = async || {
        let review = json!({"spec": {"token": of_node}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        answered(&server, Identity::master("admin"), "POST", path, review).await.1["status"].clone()
    };
    let known = review().await;
    assert_eq!(known["user"]["extra"]["authentication.kubernetes.io/node-uid"], json!([node]), "{known}");
    // A node that was just deleted, and is held, is there a while still.
    let admin = Identity::master("admin");
    answered(&server, admin.clone(), "DELETE", "/api/v1/nodes/n", Value::Null).await;
    assert_eq!(review().await["authenticated"], true);
    let patch = json!({"metadata": {"finalizers": null}});
    assert_eq!(answered(&server, admin, "PATCH", "/api/v1/nodes/n", patch).await.0, 200);
    assert_ne!(review().await["authenticated"], true);
}

#[tokio::test]
async fn who_may_read_one_object_may_list_it_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let rules =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["list"]}]);
    allow(&server, "bob", "lists-a", rules).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (query, code) in [
        ("", 403),
        ("?fieldSelector=metadata.name%3Da", 200),
        ("?fieldSelector=metadata.namespace%3Ddefault,metadata.name%3D%3Da", 200),
        ("?fieldSelector=metadata.name%21%3Da", 403),
    ] {
        assert_eq!(
            ask(&server, "bob", "GET", &format!("{maps}{query}"), Value::Null).await.0,
            code,
            "{query}"
        );
    }
    let (_, why) =
        ask(&server, "bob", "GET", &format!("{maps}?fieldSelector=metadata.name%3Db"), Value::Null).await;
    let expected = "configmaps \"b\" is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \"\" \
         in the namespace \"default\"";
    assert_eq!(why, expected);
    // A collection is deleted as a whole.
    let path = format!("{maps}?fieldSelector=metadata.name%3Da");
    assert_eq!(ask(&server, "bob", "DELETE", &path, Value::Null).await.0, 403);
}

#[tokio::test]
async fn certificates_are_approved_and_signed_by_those_who_may_for_what_was_asked() {
    use base64::Engine as _;
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let group = "certificates.k8s.io";
    let rules = json!([{"apiGroups": [group], "resources": ["*"], "verbs": ["create", "get", "patch"]}]);
    allow(&server, "bob", "asks", rules).await;
    let pem = "-----BEGIN CERTIFICATE REQUEST-----\n";
    let asked = json!({
        "metadata": {"name": "r"},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(pem), "signerName": "example.com/s",
            "usages": ["client auth"], "username": "root", "groups": ["system:masters"],
        },
        "status": {"conditions": [{"type": "Approved", "status": "True"}]},
    });
    let bob = || Identity::authenticated("bob", []);
    let (code, made) = answered(&server, bob(), "POST", requests, asked).await;
    assert_eq!(code, 201, "{made}");
    let (user, groups) = (&made["spec"]["username"], &made["spec"]["groups"]);
    assert_eq!((user, groups), (&json!("bob"), &json!(["system:authenticated"])));
    assert!(made["status"].get("conditions").is_none(), "{made}");
    let one = format!("{requests}/r");
    let changed = json!({"spec": {"username": "root", "signerName": "example.com/other"}});
    let (_, same) = answered(&server, bob(), "PATCH", &one, changed).await;
    assert_eq!(same["spec"], made["spec"]);
    let condition =
        |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "r"}]}});
    let (approval, status) = (format!("{one}/approval"), format!("{one}/status"));
    let forbidden = |verb: &str| {
        let why = format!("user not permitted to {verb} requests with signerName \"example.com/s\"");
        (403, format!("certificatesigningrequests.{group} \"r\" is forbidden: {why}"))
    };
    assert_eq!(ask(&server, "bob", "PATCH", &approval, condition("Approved")).await, forbidden("approve"));
    assert_eq!(ask(&server, "bob", "PATCH", &status, condition("Failed")).await, forbidden("sign"));
    let rules = json!([
        {"apiGroups": [group], "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": ["approve"]},
        {"apiGroups": [group], "resources": ["signers"], "resourceNames": ["example.com/s"], "verbs": ["sign"]},
    ]);
    allow(&server, "bob", "signs", rules).await;
    let invalid = |why: &str| {
        let kind = "CertificateSigningRequest.certificates.k8s.io";
        (422, format!("{kind} \"r\" is invalid: status.conditions: Forbidden: updates may not {why}"))
    };
    let added = invalid("add a condition of type \"Approved\"");
    assert_eq!(ask(&server, "bob", "PATCH", &status, condition("Approved")).await, added);
    assert_eq!(ask(&server, "bob", "PATCH", &approval, condition("Approved")).await.0, 200);
    let (_, approved) = answered(&server, bob(), "GET", &one, Value::Null).await;
    let condition_now = &approved["status"]["conditions"][0];
    assert!(condition_now["lastUpdateTime"].is_string() && condition_now["lastTransitionTime"].is_string());
    let removed = invalid("remove a condition of type \"Approved\"");
    assert_eq!(ask(&server, "bob", "PATCH", &approval, condition("Denied")).await, removed);
    let signed = json!({"status": {"certificate": "eA=="}});
    assert_eq!(ask(&server, "bob", "PATCH", &status, signed).await.0, 200);
}

#[tokio::test]
async fn signing_requests_are_checked_as_kube_apiserver_checks_them() {
    use base64::Engine as _;
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let master = || Identity::master("admin");
    let pem = base64::engine::general_purpose::STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\n");
    let spec = json!({"request": pem, "signerName": "example.com/s", "usages": ["client auth"]});
    for (member, value, why) in [
        (
            "signerName",
            json!("kubernetes.io/legacy-unknown"),
            "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this \
             API version",
        ),
        (
            "expirationSeconds",
            json!(599),
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ),
        ("usages", json!(["client auth", "client auth"]), "spec.usages[1]: Duplicate value: \"client auth\""),
        ("usages", json!(["tea"]), "spec.usages[0]: Unsupported value: \"tea\": supported values: \"any\", "),
    ] {
        let mut asked = json!({"metadata": {"name": "r"}, "spec": spec});
        asked["spec"][member] = value;
        let (code, answer) = answered(&server, master(), "POST", requests, asked).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(why), "{answer}");
    }
    let asked = json!({"metadata": {"name": "r"}, "spec": spec});
    assert_eq!(answered(&server, master(), "POST", requests, asked).await.0, 201);
    let approval = format!("{requests}/r/approval");
    for (conditions, why) in [
        (
            json!([{"type": "Approved", "status": "False"}]),
            "status.conditions[0].status: Unsupported value: \"False\"",
        ),
        (json!([{"type": "Odd"}]), "status.conditions[0].status: Required value"),
        (json!([{"status": "True"}]), "status.conditions[0].type: Required value"),
        (
            json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]),
            "Approved and Denied conditions are mutually exclusive",
        ),
        (
            json!([{"type": "Odd", "status": "True"}, {"type": "Odd", "status": "False"}]),
            "status.conditions[1].type: Duplicate value: \"Odd\"",
        ),
    ] {
        let patch = json!({"status": {"conditions": conditions}});
        let (code, answer) = answered(&server, master(), "PATCH", &approval, patch).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(why), "{answer}");
    }
}

#[tokio::test]
async fn bootstrap_tokens_are_good_until_they_expire_or_go() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let secrets = Api::<k8s_openapi::api::core::v1::Secret>::namespaced(admin(&server).await, "kube-system");
    let token = "abcdef.0123456789abcdef";
    let good = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:worker", "expiration": "2999-01-01T00:00:00Z",
        },
    });
    let reviews = Api::<TokenReview>::all(admin(&server).await);
    let review = async |token: &str, audiences: Option<Vec<String>>| {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        reviews.create(&Default::default(), &review).await.unwrap().status.unwrap()
    };
    let is_good = async |token: &str| review(token, None).await.authenticated == Some(true);
    assert!(!is_good(token).await, "there is no Secret yet");
    secrets.create(&Default::default(), &object(good.clone())).await.unwrap();
    let user = review(token, None).await.user.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:bootstrap:abcdef"));
    let groups = ["system:bootstrappers", "system:bootstrappers:worker", "system:authenticated"];
    assert_eq!(user.groups.unwrap(), groups);
    assert_ne!(review(token, Some(vec!["vault".to_owned()])).await.authenticated, Some(true));
    for wrong in ["abcdef.0123456789abcdee", "abcdeg.0123456789abcdef", "abcdef.0123456789abcde", "abcdef."] {
        assert!(!is_good(wrong).await, "{wrong}");
    }

    // With such a token, a node may ask for a certificate, and no more.
    let node = with_token(&server, Some(token)).await;
    let denied = refused(Api::<ConfigMap>::namespaced(node, "default").get("x").await);
    assert!(denied.0 == 403 && denied.1.contains("system:bootstrap:abcdef"), "{denied:?}");
    let unknown = with_token(&server, Some("abcdef.0123456789abcdee")).await;
    assert_eq!(refused(Api::<ConfigMap>::namespaced(unknown, "default").get("x").await).0, 401);

    for (member, value) in [
        ("token-id", "abcdeg"),
        ("token-secret", "0123456789abcdee"),
        ("usage-bootstrap-authentication", "yes"),
        ("auth-extra-groups", "system:masters"),
        ("expiration", "2020-01-01T00:00:00Z"),
        ("expiration", "never"),
    ] {
        let mut other = good.clone();
        other["stringData"][member] = value.into();
        secrets.replace("bootstrap-token-abcdef", &Default::default(), &object(other)).await.unwrap();
        assert!(!is_good(token).await, "{member}: {value}");
        secrets.replace("bootstrap-token-abcdef", &Default::default(), &object(good.clone())).await.unwrap();
        assert!(is_good(token).await);
    }
    for member in ["expiration", "auth-extra-groups"] {
        let mut no_text = good.clone();
        no_text["stringData"].as_object_mut().unwrap().remove(member);
        no_text["data"] = json!({member: "/w=="});
        secrets.replace("bootstrap-token-abcdef", &Default::default(), &object(no_text)).await.unwrap();
        assert!(!is_good(token).await, "{member} is no text");
    }
    secrets.delete("bootstrap-token-abcdef", &Default::default()).await.unwrap();
    assert!(!is_good(token).await);
    let mut opaque = good;
    opaque["type"] = "Opaque".into();
    secrets.create(&Default::default(), &object(opaque)).await.unwrap();
    assert!(!is_good(token).await);
}
