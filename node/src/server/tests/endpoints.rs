//! What is served.

use super::*;

#[tokio::test]
async fn pods_are_listed_as_wanted_and_as_running() {
    let node = Node::start().await;
    let (status, pods) = node.get("/pods").await;
    let pods: serde_json::Value = serde_json::from_str(&pods).unwrap();
    assert_eq!(
        (status, &pods["kind"], &pods["items"][0]["metadata"]["uid"]),
        (200, &json!("PodList"), &json!("u"))
    );
    let (status, running) = node.get("/runningpods/").await;
    let running: serde_json::Value = serde_json::from_str(&running).unwrap();
    let pod = &running["items"][0];
    assert_eq!((status, &pod["metadata"]["name"]), (200, &json!("p")));
    assert_eq!(pod["metadata"]["namespace"], "ns");
    assert_eq!(pod["spec"]["containers"], json!([{ "name": "c", "image": "app" }]));
}

#[tokio::test]
async fn health_has_reasons_for_those_who_may_know_them() {
    let node = Node::start().await;
    assert_eq!(node.get("/healthz/syncloop").await, (200, "ok".into()));
    assert_eq!(node.get("/healthz/ping").await, (200, "ok".into()));
    *node.agent.late.lock() = true;
    let (status, text) = node.ask(request("GET", "/healthz", "")).await;
    assert!(status == 500 && text.contains("[-]syncloop failed: reason withheld\n"), "{text}");
    let reason = "internal server error: sync Loop took longer than expected\n";
    assert_eq!(node.get("/healthz/syncloop").await, (500, reason.into()));
}

#[tokio::test]
async fn metrics_configuration_and_what_is_not_offered() {
    let node = Node::start().await;
    node.get("/pods").await;
    let (status, metrics) = node.get("/metrics").await;
    let line = "kubelet_http_requests_total{long_running=\"false\",method=\"GET\",path=\"pods\",server_type=\"readwrite\"} 1\n";
    assert!(status == 200 && metrics.contains(line), "{metrics}");
    let probes = prometheus::IntCounter::new("prober_probe_total", "Probes").unwrap();
    node.probe_registry.register(Box::new(probes)).unwrap();
    let (status, of_probes) = node.get("/metrics/probes").await;
    assert!(status == 200 && of_probes.contains("\nprober_probe_total 0\n"), "{of_probes}");
    assert!(!metrics.contains("prober_probe_total"), "{metrics}");
    let (status, metrics) = node.get("/metrics/resource").await;
    assert!(status == 200 && metrics.contains("\nnode_cpu_usage_seconds_total 1\n"), "{metrics}");
    let labels = "{container=\"c\",pod=\"p\",namespace=\"ns\"}";
    assert!(metrics.contains(&format!("\ncontainer_memory_working_set_bytes{labels} ")), "{metrics}");
    assert!(metrics.ends_with("\nresource_scrape_error 0\n"), "{metrics}");
    assert_eq!(
        node.get("/configz").await,
        (200, r#"{"kubeletconfig":{"kind":"KubeletConfiguration"}}"#.into())
    );
    for path in ["/metrics/cadvisor", "/stats/summary", "/spec/", "/"] {
        assert_eq!(node.get(path).await, (404, "404 page not found\n".into()), "{path}");
    }
    assert_eq!(node.get("/logs/syslog").await, (405, "logs endpoint is disabled.\n".into()));
    assert_eq!(node.ask(request("DELETE", "/pods", "good")).await.0, 405);
    node.stop().await;
}

#[tokio::test]
async fn without_debugging_containers_are_not_looked_into() {
    let node = Node::start_with(|parts, _| parts.handlers = Handlers::WithoutDebugging).await;
    assert_eq!(node.get("/containerLogs/ns/p/c").await, (405, "Debug endpoints are disabled.\n".into()));
    assert_eq!(node.get("/pods").await.0, 200);
}

#[tokio::test]
async fn logs_are_given_as_asked() {
    let node = Node::start().await;
    for (second, text) in [(1, "one"), (2, "two"), (3, "three")] {
        log(&node, second, text);
    }
    for (query, text) in [
        ("", "one\ntwo\nthree\n"),
        ("?tailLines=1", "three\n"),
        ("?limitBytes=5", "one\nt"),
        (
            "?sinceTime=2026-11-21T10:00:02Z&timestamps=true&limitBytes=34",
            "2026-11-21T10:00:02.000000000Z two",
        ),
        ("?stream=Stderr", ""),
    ] {
        let path = format!("/containerLogs/ns/p/c{query}");
        assert_eq!(node.get(&path).await, (200, text.into()), "{query}");
    }
}

#[tokio::test]
async fn logs_that_there_are_not_are_told_in_upstreams_words() {
    let node = Node::start().await;
    for (path, status, text) in [
        ("ns/other/c", 404, "pod \"other\" does not exist"),
        ("ns/p/other", 404, "container \"other\" not found in pod \"p\""),
        ("ns/p/waits", 400, "container \"waits\" in pod \"p\" is waiting to start: ContainerCreating"),
        ("ns/p/c?previous=true", 400, "previous terminated container \"c\" in pod \"p\" not found"),
        ("ns/p/c?tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"),
        ("ns/p/c?tailLines=-1", 422, "{\"message\": \"Invalid request.\"}"),
    ] {
        assert_eq!(node.get(&format!("/containerLogs/{path}")).await, (status, text.into()), "{path}");
    }
    let status = json!({ "containerStatuses": [{
        "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 1,
        "containerID": "simulated://gone", "state": { "running": {} },
    }] });
    *node.agent.status.lock() = Some(serde_json::from_value(status).unwrap());
    let unable = "unable to retrieve container logs for simulated://gone";
    assert_eq!(node.get("/containerLogs/ns/p/c").await, (400, unable.into()));
}

#[tokio::test]
async fn logs_are_followed_until_the_container_ends() {
    let node = Node::start().await;
    log(&node, 1, "one");
    let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
    let mut answer = client.send(request("GET", "/containerLogs/ns/p/c?follow=true", "good")).await;
    let mut next = async || {
        let frame = tokio::time::timeout(PATIENCE, answer.frame()).await.expect("more must come");
        frame.map(|frame| String::from_utf8(frame.unwrap().into_data().unwrap().into()).unwrap())
    };
    assert_eq!(next().await.unwrap(), "one\n");
    log(&node, 2, "two");
    assert_eq!(next().await.unwrap(), "two\n");
    let in_flight = || {
        let families = node.registry.gather();
        let family =
            families.iter().find(|family| family.name() == "kubelet_http_inflight_requests").unwrap();
        family.get_metric().iter().map(|metric| metric.get_gauge().get_value()).sum::<f64>()
    };
    assert!(in_flight() > 0.0, "the answer is still on its way");
    node.runtime.exit_container(&node.container_id, 0, None);
    assert_eq!(next().await, None);
    tokio::time::timeout(PATIENCE, async {
        while in_flight() > 0.0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the request must be over");
    node.stop().await;
}

#[tokio::test]
async fn commands_are_run_to_their_end() {
    let node = Node::start().await;
    node.runtime.on_exec(|_, command| {
        let text = format!("<{}>", command.join("|")).into_bytes();
        let exit_code = i32::from(command[0] == "false");
        Some(v1::ExecSyncResponse { stdout: text.clone(), stderr: b"!".to_vec(), exit_code })
    });
    let run = async |path: &str| node.ask(request("POST", path, "good")).await;
    assert_eq!(run("/run/ns/p/c?cmd=ls%20-l").await, (200, "<ls|-l>!".into()));
    assert_eq!(run("/run/ns/p/mirror/c?cmd=ls").await, (200, "<ls>!".into()));
    assert_eq!(run("/run/ns/p/c?cmd=false").await, (500, "command 'false' exited with 1: !".into()));
    assert_eq!(run("/run/ns/p/waits?cmd=ls").await, (500, "container not found (\"waits\")".into()));
    assert_eq!(run("/run/ns/p/other/c?cmd=ls").await, (500, "container not found (\"c\")".into()));
    assert_eq!(run("/run/ns/q/c?cmd=ls").await, (404, "pod does not exist".into()));
}
