//! Requests made of whatever bytes there are, and what must hold for each. The fuzz target uses it, and a property test.

use std::fmt;

use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_api::schema;
use steersman_apiserver::TestServer;
use tower::ServiceExt as _;

/// Where bytes are put into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// They are its body, of that media type.
    Body(&'static str),
    /// They are the value of that parameter, escaped.
    Parameter(&'static str),
    /// They are all parameters, unless they can't stand in an address.
    Query,
    /// They are a part of the path, unless they can't stand in an address.
    Path,
}

/// A request with a gap. None changes anything, whatever fills the gap.
pub(crate) struct Way {
    method: &'static str,
    path: &'static str,
    place: Place,
    /// Something that fills it well.
    sample: &'static str,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// The forms that every answer is asked for in.
const FORMS: [&str; 3] = [
    JSON,
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
];

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a?dryRun=All";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d?dryRun=All&fieldManager=f";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/d/scale?dryRun=All&fieldManager=f";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
const THING: &str = "/apis/example.com/v1/namespaces/default/things/t?dryRun=All&fieldManager=f";

const A_MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"l":"2"},"annotations":{"n":"1"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]},"data":{"k":"v"},"binaryData":{"b":"AAE="}}"#;
const A_POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"E","value":"1"}],"ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"100m","memory":"1.5Gi"}},"livenessProbe":{"httpGet":{"port":"web","path":"/"}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{}}],"tolerations":[{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}]}}"#;
const A_SERVICE: &str = r#"{"metadata":{"name":"s"},"spec":{"type":"NodePort","selector":{"a":"b"},"ports":[{"name":"web","port":80,"targetPort":"web","nodePort":30080}],"sessionAffinity":"ClientIP"}}"#;
const A_SET: &str = r#"{"metadata":{"name":"s"},"spec":{"serviceName":"s","replicas":2,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}],"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}}}}"#;
const A_JOB: &str = r#"{"metadata":{"generateName":"j-"},"spec":{"completions":3,"parallelism":2,"completionMode":"Indexed","backoffLimitPerIndex":1,"podFailurePolicy":{"rules":[{"action":"FailJob","onExitCodes":{"operator":"In","values":[3]}}]},"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
const A_CRON_JOB: &str = r#"{"metadata":{"name":"c"},"spec":{"schedule":"*/5 1-3 * * MON","timeZone":"Europe/Berlin","concurrencyPolicy":"Forbid","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"OnFailure","containers":[{"name":"c","image":"i"}]}}}}}}"#;
const A_ROLE: &str = r#"{"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]},{"nonResourceURLs":["/healthz/*"],"verbs":["get"]}],"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#;
const A_DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"knobs.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"knobs","singular":"knob","kind":"Knob","listKind":"KnobList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}},"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.sizes[?(@.a==1)].b"}]}]}}"#;
const A_DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},"strategy":{"rollingUpdate":{"maxSurge":"25%"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"j","ports":[{"containerPort":80,"protocol":"TCP"}]}]}}}}"#;
const A_SCALE: &str = r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"default"},"spec":{"replicas":4}}"#;
const A_MERGE: &str = r#"{"metadata":{"labels":{"x":"y","l":null}},"spec":{"replicas":2,"template":{"metadata":{"annotations":{"a":"b"}}}}}"#;
const A_STRATEGIC: &str = r#"{"metadata":{"finalizers":["example.com/f"],"$deleteFromPrimitiveList/finalizers":["x/y"]},"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"name":"c","image":"j","ports":[{"containerPort":80,"$patch":"delete"}]}],"volumes":[{"name":"v","emptyDir":{},"$retainKeys":["name","emptyDir"]}]}}}}"#;
const A_PATCH: &str = r#"[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/replicas","value":2},{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/metadata/labels","path":"/metadata/annotations"},{"op":"move","from":"/metadata/labels/a","path":"/metadata/labels/c~1d"},{"op":"remove","path":"/spec/template/spec/containers/0/ports/0"}]"#;
const AN_APPLIED: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n  labels: {x: \"1\"}\nspec:\n  replicas: 3\n  template: &t\n    spec:\n      containers:\n      - name: c\n        image: j\n        ports: [{containerPort: 80, protocol: TCP}]\n";
const A_THING: &str = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"list":[1,{"a":null},"x"],"big":12345678901234567890,"float":1.5e300}}"#;
const DELETE_OPTIONS: &str = r#"{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":5,"preconditions":{"uid":"u","resourceVersion":"3"},"propagationPolicy":"Foreground","dryRun":["All"]}"#;
/// `{"v":"meta.k8s.io/v1","rv":5,"start":"a\0"}` in base64.
const TOKEN: &str = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0";

const fn way(method: &'static str, path: &'static str, place: Place, sample: &'static str) -> Way {
    Way { method, path, place, sample }
}

/// All of them. New ones go to the end, so that old findings still mean what they meant.
pub(crate) const WAYS: &[Way] = &[
    way(
        "POST",
        "/api/v1/namespaces/default/configmaps?dryRun=All",
        Place::Body(JSON),
        r#"{"metadata":{"name":"n"}}"#,
    ),
    way(
        "POST",
        "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Strict",
        Place::Body(JSON),
        r#"{"metadata":{"name":"n"}}"#,
    ),
    way("POST", PODS, Place::Body(JSON), A_POD),
    way("POST", PODS, Place::Body(PROTOBUF), A_POD),
    way("POST", "/api/v1/namespaces/default/services?dryRun=All", Place::Body(JSON), A_SERVICE),
    way("POST", "/apis/apps/v1/namespaces/default/statefulsets?dryRun=All", Place::Body(JSON), A_SET),
    way("POST", "/apis/batch/v1/namespaces/default/jobs?dryRun=All", Place::Body(JSON), A_JOB),
    way("POST", "/apis/batch/v1/namespaces/default/cronjobs?dryRun=All", Place::Body(JSON), A_CRON_JOB),
    way("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", Place::Body(JSON), A_ROLE),
    way("POST", DEFINITIONS, Place::Body(JSON), A_DEFINITION),
    way("POST", DEFINITIONS, Place::Body(PROTOBUF), A_DEFINITION),
    way("PUT", MAP, Place::Body(JSON), A_MAP),
    way("PUT", MAP, Place::Body(PROTOBUF), A_MAP),
    way("PUT", DEPLOYMENT, Place::Body(JSON), A_DEPLOYMENT),
    way("PUT", SCALE, Place::Body(JSON), A_SCALE),
    way("PUT", THING, Place::Body(JSON), A_THING),
    way("DELETE", MAP, Place::Body(JSON), DELETE_OPTIONS),
    way("DELETE", MAP, Place::Body(PROTOBUF), DELETE_OPTIONS),
    way("PATCH", MAP, Place::Body(MERGE), A_MERGE),
    way("PATCH", DEPLOYMENT, Place::Body(MERGE), A_MERGE),
    way("PATCH", DEPLOYMENT, Place::Body(STRATEGIC), A_STRATEGIC),
    way("PATCH", DEPLOYMENT, Place::Body(PATCH), A_PATCH),
    way("PATCH", DEPLOYMENT, Place::Body(APPLY), AN_APPLIED),
    way("PATCH", THING, Place::Body(MERGE), A_MERGE),
    way("PATCH", THING, Place::Body(PATCH), r#"[{"op":"add","path":"/spec/list/-","value":{}}]"#),
    way("PATCH", THING, Place::Body(APPLY), A_THING),
    way("GET", MAPS, Place::Parameter("labelSelector"), "l=1,k!=v,a in (b,c),!d,e notin (f),g"),
    way("GET", MAPS, Place::Parameter("fieldSelector"), "metadata.name=a,metadata.namespace!=b"),
    way("GET", "/api/v1/pods", Place::Parameter("fieldSelector"), "status.phase=Running,spec.nodeName!="),
    way("GET", MAPS, Place::Parameter("continue"), TOKEN),
    way("GET", "/api/v1/configmaps", Place::Parameter("continue"), TOKEN),
    way("GET", MAPS, Place::Parameter("resourceVersion"), "2"),
    way("GET", MAPS, Place::Parameter("limit"), "1"),
    way(
        "GET",
        MAPS,
        Place::Query,
        "limit=1&labelSelector=l%3D1&resourceVersion=3&resourceVersionMatch=Exact",
    ),
    way(
        "GET",
        MAPS,
        Place::Query,
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    ),
    way("GET", "/api/v1/namespaces/default/configmaps/a", Place::Query, "resourceVersion=2&pretty=true"),
    way("GET", "/", Place::Path, "apis/apps/v1/namespaces/default/deployments/d/scale"),
    way("GET", "/apis/apps/v1/namespaces/", Place::Path, "default/deployments?limit=5"),
    way("GET", "/openapi/v3/", Place::Path, "apis/apps/v1"),
    way("PATCH", SCALE, Place::Body(MERGE), A_SCALE),
    way("PATCH", SCALE, Place::Body(STRATEGIC), A_SCALE),
    way("PATCH", SCALE, Place::Body(APPLY), A_SCALE),
];

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} with {:?}", self.method, self.path, self.place)
    }
}

impl Way {
    /// A payload that fills its gap well: to begin with.
    pub(crate) fn sample(&self) -> Vec<u8> {
        if self.place == Place::Body(PROTOBUF) {
            let value = serde_json::from_str(self.sample).expect("a sample must be JSON");
            return schema::encode(&value).expect("a sample must be of its kind");
        }
        self.sample.into()
    }

    fn request(&self, payload: &[u8]) -> Option<http::Request<Vec<u8>>> {
        let builder = http::Request::builder().method(self.method);
        let plain = || std::str::from_utf8(payload).ok();
        let request = match self.place {
            Place::Body(media_type) => {
                builder.uri(self.path).header("content-type", media_type).body(payload.to_vec())
            }
            Place::Parameter(name) => {
                let escaped: String = payload.iter().map(|byte| format!("%{byte:02X}")).collect();
                builder.uri(format!("{}?{name}={escaped}", self.path)).body(Vec::new())
            }
            Place::Query => builder.uri(format!("{}?{}", self.path, plain()?)).body(Vec::new()),
            Place::Path => builder.uri(format!("{}{}", self.path, plain()?)).body(Vec::new()),
        };
        request.ok()
    }
}

/// A server with something in it. The clock should be paused, or watches last as long as they say.
pub(crate) async fn server() -> TestServer {
    let server = TestServer::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "things", "kind": "Thing"},
    }});
    let containers = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]);
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}},
    }});
    for (path, object) in [
        (MAPS, json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"k": "v"}})),
        (MAPS, json!({"metadata": {"name": "b"}})),
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
        (
            "/apis/example.com/v1/namespaces/default/things",
            json!({
                "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"list": [1]},
            }),
        ),
    ] {
        let request = http::Request::post(path).header("content-type", JSON);
        let request = request.body(object.to_string().into_bytes()).expect("it must be a request");
        let (code, answer) = send(&server, request).await;
        assert_eq!(code, 201, "{}", text(&answer));
    }
    server
}

async fn send(server: &TestServer, request: http::Request<Vec<u8>>) -> (u16, Vec<u8>) {
    let answer = server.in_memory().oneshot(request.map(Body::from)).await.expect("the server must answer");
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("an answer must have an end");
    (code, body.to_bytes().to_vec())
}

/// Sends it, asking for each form of answer, and sees that the server neither breaks nor changes: it refuses in upstream's
/// form and for a reason that is the client's, whether it refuses does not depend on the form that is asked for, and what
/// it says has been created could be created.
/// Says which code it was; `None` if no request can be made of that payload.
///
/// # Panics
/// Where that does not hold.
pub(crate) async fn carry_out(server: &TestServer, way: &Way, payload: &[u8]) -> Option<u16> {
    let mut codes = Vec::new();
    for form in FORMS {
        let mut request = way.request(payload)?;
        request.headers_mut().insert("accept", http::HeaderValue::from_static(form));
        let before = server.resource_version();
        let (code, answer) = send(server, request).await;
        let shown = || format!("{way:?} = {:?}, as {form}: {code} {}", text(payload), text(&answer));
        assert_eq!(server.resource_version(), before, "something changed: {}", shown());
        if code >= 400 {
            check_refusal(code, &answer, &shown);
        } else if way.method == "POST" && form == JSON && !way.path.contains("/jobs") {
            // A job's template names the job's own uid.
            let again = http::Request::post(way.path).header("content-type", JSON).body(unstamped(&answer));
            let (code, refusal) = send(server, again.expect("it must be a request")).await;
            assert_eq!(code, 201, "its own answer is refused: {}\n{}", shown(), text(&refusal));
        }
        codes.push(code);
    }
    assert!(codes.windows(2).all(|two| two[0] == two[1]), "{codes:?} for {way:?} = {:?}", text(payload));
    codes.first().copied()
}

/// An object without what only the server may say.
fn unstamped(object: &[u8]) -> Vec<u8> {
    let mut object: Value = serde_json::from_slice(object).expect("an answer must be JSON");
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !["uid", "resourceVersion", "creationTimestamp"].contains(&name.as_str()));
    }
    object.to_string().into_bytes()
}

fn check_refusal(code: u16, answer: &[u8], shown: &dyn Fn() -> String) {
    // What upstream has 500 for (versions that are no number) it does not call its own mistake.
    assert!(code < 500 || matches!(code, 500 | 501 | 504), "{}", shown());
    if let Ok(status) = serde_json::from_slice::<Value>(answer)
        && status["kind"] == "Status"
    {
        assert_eq!(status["status"], "Failure", "{}", shown());
        assert_eq!(status["code"], code, "{}", shown());
        assert_ne!(status["message"].as_str().unwrap_or_default(), "", "{}", shown());
        assert_ne!(status["reason"], "InternalError", "{}", shown());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
