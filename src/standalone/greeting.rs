//! The greeting that `steersman standalone` prints once the node is ready.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use steersman_node::node_status::conditions::is_ready;
use tokio::time::{sleep, timeout};

/// How long the greeting waits for the node. A container runtime may take longer, or may never work.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two reads of the node.
const LOOK: Duration = Duration::from_millis(20);

/// The greeting: where the kubeconfig is, and which commands to try.
pub(super) struct Greeting<'a> {
    /// The path of the kubeconfig.
    pub(super) kubeconfig: &'a Path,
    /// The node's name.
    pub(super) node: &'a str,
    /// The port at which the node's server listens.
    pub(super) port: u16,
    /// The endpoint of the container runtime. `None`: containers are simulated.
    pub(super) endpoint: Option<&'a str>,
}

impl Greeting<'_> {
    /// Waits until the node is ready, for [`PATIENCE`] at most, and prints the greeting.
    pub(super) async fn say(&self, client: kube::Client) {
        let nodes = Api::<Node>::all(client);
        let ready = async {
            while !nodes.get(self.node).await.is_ok_and(|node| self.is_there(&node)) {
                sleep(LOOK).await;
            }
        };
        let ready = timeout(PATIENCE, ready).await.is_ok();
        let text = Text { greeting: self, ready }.to_string();
        // If the reader has closed the pipe, nobody reads the greeting.
        let mut out = io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Whether the node is ready, and reports the port of this process. The object that an earlier process has left may say
    /// that it is ready, too, with another port.
    fn is_there(&self, node: &Node) -> bool {
        let endpoints = node.status.as_ref().and_then(|status| status.daemon_endpoints.as_ref());
        let served = endpoints.and_then(|endpoints| endpoints.kubelet_endpoint.as_ref());
        is_ready(node) && served.is_some_and(|endpoint| endpoint.port == i32::from(self.port))
    }
}

struct Text<'a> {
    greeting: &'a Greeting<'a>,
    ready: bool,
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Greeting { kubeconfig, node, endpoint, .. } = self.greeting;
        let path = kubeconfig.display();
        writeln!(f, "\nKubernetes is at your service. The kubeconfig is {path}")?;
        match endpoint {
            Some(endpoint) => writeln!(f, "Containers run in {endpoint}.")?,
            None => {
                writeln!(f, "Containers are simulated: annotations say how they behave, and nothing runs.")?
            }
        }
        if !self.ready {
            writeln!(f, "The node is not ready yet; kubectl describe node {node} says why.")?;
        }
        let quoted = path.to_string().replace('\'', r"'\''");
        writeln!(f, "Try, in a second terminal:\n")?;
        writeln!(f, "  export KUBECONFIG='{quoted}'")?;
        writeln!(f, "  kubectl apply -f examples/web.yaml -f examples/job.yaml")?;
        writeln!(f, "  kubectl rollout status deployment/web")?;
        writeln!(f, "  kubectl get all\n")?;
        writeln!(f, "Ctrl-C stops it; the next start finds everything again.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_not_as_it_should_be_and_quotes_for_the_shell() {
        let greeting = Greeting { kubeconfig: Path::new("/it's/config"), node: "n", port: 1, endpoint: None };
        let text = Text { greeting: &greeting, ready: false }.to_string();
        assert!(text.contains("kubectl describe node n says why"), "{text}");
        assert!(text.contains("Containers are simulated"), "{text}");
        assert!(text.contains(r"export KUBECONFIG='/it'\''s/config'"), "{text}");
        let greeting = Greeting { endpoint: Some("unix:///run/c.sock"), ..greeting };
        let text = Text { greeting: &greeting, ready: true }.to_string();
        assert!(text.contains("Containers run in unix:///run/c.sock."), "{text}");
        assert!(!text.contains("not ready"), "{text}");
    }

    #[test]
    fn the_node_of_the_start_before_is_not_taken_for_this_one() {
        let greeting = Greeting { kubeconfig: Path::new("/config"), node: "n", port: 2, endpoint: None };
        for (status, port, there) in [("True", 2, true), ("True", 1, false), ("Unknown", 2, false)] {
            let node = serde_json::json!({"metadata": {"name": "n"}, "status": {
                "conditions": [{"type": "Ready", "status": status}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }});
            assert_eq!(greeting.is_there(&serde_json::from_value(node).unwrap()), there, "{status} {port}");
        }
        assert!(!greeting.is_there(&Node::default()));
    }
}
