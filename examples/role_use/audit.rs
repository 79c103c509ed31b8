//! The audit logs in a folder that `STEERSMAN_TEST_AUDIT` named: `tests/support/shipped_role.rs` says which files it has.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use steersman_controller::registry::{Registry, Selection};

/// The user of managers under the role of the manifests.
pub(crate) const SHIPPED: &str = "system:serviceaccount:kube-system:steersman-controller-manager";
/// The uids of that user, without a number: see `tests/support/shipped_role.rs`.
const UID: &str = "steersman-controller-manager-";
/// The beginning of the names of service accounts.
const ACCOUNT: &str = "system:serviceaccount:kube-system:";
/// The part of the user agent before the name of the client, which is a controller's in most cases.
const CLIENT: &str = " kubernetes/";

/// An `audit.k8s.io/v1` Event, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) user: User,
    #[serde(rename = "userAgent", default)]
    user_agent: String,
    stage: Stage,
    pub(crate) verb: String,
    #[serde(rename = "requestURI")]
    pub(crate) uri: String,
    #[serde(rename = "objectRef", default)]
    pub(crate) object: Object,
    #[serde(rename = "requestReceivedTimestamp")]
    pub(crate) received: Timestamp,
    #[serde(rename = "responseStatus", default)]
    pub(crate) response: Response,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// When an Event is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Stage {
    /// The answer has begun, but goes on: that of a watch.
    ResponseStarted,
    #[serde(other)]
    Other,
}

/// The user who made a request.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    pub(crate) username: String,
    #[serde(default)]
    uid: String,
}

/// The object that a request is about. All members are empty if the request is about none.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Object {
    #[serde(rename = "apiGroup", default)]
    pub(crate) group: String,
    #[serde(default)]
    pub(crate) resource: String,
    #[serde(default)]
    pub(crate) subresource: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) name: String,
}

/// The API server's answer.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Response {
    #[serde(default)]
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) message: String,
}

impl Request {
    /// The resource with its subresource.
    pub(crate) fn resource(&self) -> String {
        let Object { resource, subresource, .. } = &self.object;
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!("{resource}{slash}{subresource}")
    }

    /// The client inside the manager: the service account of a controller, `shared-informers`, or the source of events.
    pub(crate) fn client(&self) -> &str {
        let (_, client) = self.user_agent.split_once(CLIENT).unwrap_or_default();
        client.strip_prefix(ACCOUNT).unwrap_or(client)
    }

    /// Whether the API server is still answering. The log then has the same request again, at the end of the answer or never.
    pub(crate) fn goes_on(&self) -> bool {
        self.stage == Stage::ResponseStarted
    }

    /// Whether RBAC forbade the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.annotations.get("authorization.k8s.io/decision").is_some_and(|decision| decision == "forbid")
    }

    /// Whether the ClusterRole of the manifests allowed the request.
    pub(crate) fn is_allowed_by_role(&self) -> bool {
        let reason = self.annotations.get("authorization.k8s.io/reason");
        reason.is_some_and(|reason| reason.contains("of ClusterRole \"steersman-controller-manager\""))
    }

    /// The number of the manager's `--controllers` in its process, if the manager is under the role of the manifests.
    fn number(&self) -> Option<usize> {
        self.user.uid.strip_prefix(UID)?.parse().ok()
    }

    /// Whether a manager of this program made it, or one of its controllers under a service account of its own.
    fn is_managers(&self) -> bool {
        let user = &self.user.username;
        self.user_agent.starts_with("steersman/")
            && (user.starts_with(ACCOUNT) || user == "system:kube-controller-manager")
    }
}

/// Where a request comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// The API server. Its restarts do not change it.
    pub(crate) server: &'a str,
    /// The controllers that the manager runs. `None` if the log does not say so, which is the case unless the manager is under
    /// the role of the manifests.
    pub(crate) controllers: Option<&'a Selection>,
}

/// Reads the logs in a folder. `add` gets the requests of managers, those of each API server in the order of the answers.
pub(crate) fn read(
    folder: &Path,
    registry: &Registry,
    mut add: impl FnMut(Origin<'_>, Request),
) -> Result<(), Box<dyn Error>> {
    let mut names: Vec<OsString> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name());
    }
    // A full log is renamed: to PROCESS.PORT-TIME.log, which is before PROCESS.PORT.log in this order.
    names.sort();
    for name in &names {
        let name = name.to_str().ok_or("a name is not UTF-8")?;
        let Some((process, port)) = name.split_once('.').filter(|_| name.ends_with(".log")) else { continue };
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        let server = format!("{process}.{port}");
        let values = folder.join(format!("{process}.controllers"));
        // There is none if no manager of the process was under the role.
        let values = if values.exists() { std::fs::read_to_string(values)? } else { String::new() };
        let parse = |line: &str| Selection::parse(&line.split(',').collect::<Vec<_>>(), registry);
        let selections = values.lines().map(parse).collect::<Result<Vec<_>, _>>()?;
        for line in BufReader::new(std::fs::File::open(folder.join(name))?).lines() {
            let line = line?;
            // Of a log with all requests, most are the tests' own. The last line of a killed server may be incomplete.
            if !line.contains("\"userAgent\":\"steersman/") {
                continue;
            }
            let Ok(request) = serde_json::from_str::<Request>(&line) else { continue };
            if request.is_managers() {
                let controllers = request.number().and_then(|number| selections.get(number));
                add(Origin { server: &server, controllers }, request);
            }
        }
    }
    Ok(())
}
