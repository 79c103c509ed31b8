//! Loads an API server, whichever it is, and tells how it took it. `benches/apiserver.sh` measures with it.
//!
//!     cargo run --release --example api_load -- KUBECONFIG create CLIENTS OBJECTS
//!     cargo run --release --example api_load -- KUBECONFIG watch WATCHERS OBJECTS
//!
//! `create`: so many clients, each on a connection of its own, create config maps as fast as they are let.
//! `watch`: so many watches, each on a connection of its own, see config maps that are created at a steady pace; what is
//! timed is from just before each create until each watch has the event.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

const NAMESPACE: &str = "api-load";
/// Between two creates that are watched: so many events a second as a busy cluster has, and far fewer than it could have.
const PACE: Duration = Duration::from_millis(20);

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, what, clients, objects] = arguments.as_slice() else {
        return Err("usage: api_load KUBECONFIG create|watch CLIENTS OBJECTS".into());
    };
    let kubeconfig = Kubeconfig::read_from(Path::new(kubeconfig))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.read_timeout = None;
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    match Api::<Namespace>::all(Client::try_from(config.clone())?)
        .create(&PostParams::default(), &namespace)
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        made => _ = made?,
    }
    let (clients, objects) = (clients.parse()?, objects.parse()?);
    match what.as_str() {
        "create" => create(&config, clients, objects).await,
        "watch" => watch(&config, clients, objects).await,
        other => Err(format!("neither create nor watch: {other}").into()),
    }
}

fn maps(config: &Config) -> Result<Api<ConfigMap>, Failure> {
    Ok(Api::namespaced(Client::try_from(config.clone())?, NAMESPACE))
}

/// One of an ordinary size.
fn map(name: &str) -> Result<ConfigMap, Failure> {
    let data = json!({"key": "v".repeat(200), "other": "w".repeat(200)});
    Ok(serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "load"}}, "data": data}))?)
}

/// Differs from run to run.
fn prefix() -> String {
    format!("m{}", std::process::id())
}

async fn create(config: &Config, clients: usize, objects: usize) -> Result<(), Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    let mut apis = Vec::new();
    for _ in 0..clients {
        let api = maps(config)?;
        // The connection is made before the clock starts.
        api.list(&ListParams::default().limit(1)).await?;
        apis.push(api);
    }
    let begin = Instant::now();
    for api in apis {
        let next = Arc::clone(&next);
        workers.spawn(async move {
            let mut took = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= objects {
                    return Ok::<_, Failure>(took);
                }
                let map = map(&format!("{}-{at}", prefix()))?;
                let sent = Instant::now();
                api.create(&PostParams::default(), &map).await?;
                took.push(sent.elapsed());
            }
        });
    }
    let mut took = Vec::new();
    while let Some(worker) = workers.join_next().await {
        took.extend(worker??);
    }
    let rate = objects as f64 / begin.elapsed().as_secs_f64();
    say(&format!("{objects} created by {clients} clients: {rate:.0} a second"), took)
}

async fn watch(config: &Config, watchers: usize, objects: usize) -> Result<(), Failure> {
    let api = maps(config)?;
    let from = api.list(&ListParams::default().limit(1)).await?.metadata.resource_version.unwrap_or_default();
    let sent: Arc<Vec<OnceLock<Instant>>> = Arc::new((0..objects).map(|_| OnceLock::new()).collect());
    let mut watches = JoinSet::new();
    for _ in 0..watchers {
        let mut events = Box::pin(maps(config)?.watch(&WatchParams::default(), &from).await?);
        let sent = Arc::clone(&sent);
        watches.spawn(async move {
            let mut took = Vec::with_capacity(objects);
            let prefix = format!("{}-", prefix());
            while took.len() < objects {
                let event = events.try_next().await?.ok_or("a watch ended early")?;
                let WatchEvent::Added(map) = event else { continue };
                let name = map.metadata.name.unwrap_or_default();
                let Some(at) = name.strip_prefix(&prefix) else { continue };
                let sent = sent[at.parse::<usize>()?].get().ok_or("an event came before its create")?;
                took.push(sent.elapsed());
            }
            Ok::<_, Failure>(took)
        });
    }
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for (at, sent) in sent.iter().enumerate() {
        pace.tick().await;
        let map = map(&format!("{}-{at}", prefix()))?;
        sent.get_or_init(Instant::now);
        api.create(&PostParams::default(), &map).await?;
    }
    let mut took = Vec::new();
    while let Some(watch) = watches.join_next().await {
        took.extend(watch??);
    }
    say(&format!("{objects} events at {watchers} watches"), took)
}

fn say(what: &str, mut took: Vec<Duration>) -> Result<(), Failure> {
    took.sort();
    let at =
        |percent: usize| took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied();
    let (p50, p99) = (at(50).unwrap_or_default(), at(99).unwrap_or_default());
    writeln!(std::io::stdout(), "{what}, p50 {p50:?}, p99 {p99:?}")?;
    Ok(())
}
