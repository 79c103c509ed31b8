//! How pods reach others and are reached.

use std::io::Read as _;
use std::net::TcpStream;

use serde_json::json;

use crate::pods::{Pods, shell};
use support::eventually;
use support::real::free_ports;

pub async fn a_pod_on_the_hosts_network_has_the_hosts_address(pods: Pods) {
    let spec =
        json!({ "hostNetwork": true, "containers": [{ "command": shell("readlink /proc/self/ns/net") }] });
    pods.run("host", spec).await;
    let ended = pods.phase("host", &["Succeeded"]).await;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(pods.log("host").await.trim(), own.to_str().unwrap());
    let status = ended.status.unwrap();
    assert!(status.host_ip.is_some());
    assert_eq!(status.pod_ip, status.host_ip);
}

pub async fn a_host_port_leads_to_the_container(pods: Pods) {
    let [port] = free_ports();
    pods.run(
        "web",
        json!({ "containers": [{
        "command": ["nc", "-ll", "-p", "8080", "-e", "echo", "hello"],
        "ports": [{ "containerPort": 8080, "hostPort": port }],
    }] }),
    )
    .await;
    let pod = pods.ready("web").await;
    let address = pod.status.unwrap().host_ip.unwrap();
    let said = eventually("the port answers", || async {
        let mut said = String::new();
        TcpStream::connect((address.as_str(), port)).ok()?.read_to_string(&mut said).ok()?;
        (!said.is_empty()).then_some(said)
    });
    assert_eq!(said.await, "hello\n");
}

pub async fn host_aliases_and_names_are_in_the_hosts_file(pods: Pods) {
    let said = pods
        .output(
            "cat /etc/hosts; hostname; hostname -i",
            json!({}),
            json!({
                "hostname": "me", "subdomain": "them",
                "hostAliases": [{ "ip": "192.0.2.7", "hostnames": ["seven", "sept"] }],
            }),
        )
        .await;
    let lines: Vec<_> = said.lines().collect();
    let address = lines.last().unwrap();
    let full = format!("{address}\tme.them.{}.svc.cluster.test\tme", pods.namespace);
    assert!(lines.contains(&"192.0.2.7\tseven\tsept"), "{said}");
    assert!(lines.contains(&&*full), "{said}");
    assert!(lines.contains(&"me"), "{said}");
}

pub async fn the_clusters_dns_is_in_resolv_conf(pods: Pods) {
    let said = pods.output("cat /etc/resolv.conf", json!({}), json!({})).await;
    let search = format!("search {}.svc.cluster.test svc.cluster.test cluster.test", pods.namespace);
    assert!(said.contains(&search) && said.contains("nameserver 10.0.0.10\n"), "{said}");
    assert!(said.contains("options ndots:5"), "{said}");

    let own = json!({
        "dnsPolicy": "None",
        "dnsConfig": { "nameservers": ["192.0.2.53"], "searches": ["example.org"], "options": [{ "name": "rotate" }] },
    });
    let said = pods.output("cat /etc/resolv.conf", json!({}), own).await;
    assert_eq!(said, "search example.org\nnameserver 192.0.2.53\noptions rotate\n");
}

pub async fn a_pod_may_have_the_hosts_dns(pods: Pods) {
    let said = pods.output("cat /etc/resolv.conf", json!({}), json!({ "dnsPolicy": "Default" })).await;
    let servers = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("nameserver"));
        lines.map(str::to_owned).collect()
    };
    let host = std::fs::read_to_string("/etc/resolv.conf").unwrap();
    // A pod gets three at the most.
    assert_eq!(servers(&said), servers(&host).into_iter().take(3).collect::<Vec<_>>(), "{said}");
}
