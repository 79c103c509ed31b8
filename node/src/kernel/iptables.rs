//! The iptables chains of a kubelet, which other components look for.

use std::fmt;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::machine::Family;

/// How often the canary is looked for (upstream: `initNetworkUtil`).
const PERIOD: Duration = Duration::from_secs(60);
/// How often, once it is gone from one table, the others are looked at (upstream: `iptablesFlushPollTime`).
const FLUSH_POLL: Duration = Duration::from_millis(100);
/// How long they may take to be flushed as well (upstream: `iptablesFlushTimeout`).
const FLUSH_LIMIT: Duration = Duration::from_secs(5);
/// How long, in seconds, iptables may wait for its lock.
const LOCK_WAIT: &str = "5";

/// Shows which of iptables's two backends the machine uses: the chain is in that one.
const HINT: &str = "KUBE-IPTABLES-HINT";
/// What the kubelet has dropped.
const FIREWALL: &str = "KUBE-FIREWALL";
/// Gone once somebody flushes the tables.
const CANARY: &str = "KUBE-KUBELET-CANARY";
/// The tables that have the canary. The first one, which has few rules, is looked at.
const CANARY_TABLES: [&str; 3] = ["mangle", "nat", "filter"];

/// The families of addresses. Each has a program and tables of its own.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

fn program(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// The exit code of iptables for an operation that it understood and did not do.
const REFUSED: i32 = 1;
/// Its exit code where it could not work at the moment, for instance because another program kept its lock.
const RESOURCE_PROBLEM: i32 = 4;

/// How a run of iptables ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub text: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "exit status {code}: {}", self.text),
            None => write!(f, "ended by a signal: {}", self.text),
        }
    }
}

/// Runs iptables.
pub trait Iptables: fmt::Debug + Send + Sync {
    /// Runs it with these arguments until it ends. Blocks, for at most the wait for its lock.
    ///
    /// # Errors
    /// It could not be started; most often, it is not installed.
    fn run(&self, family: Family, arguments: &[&str]) -> io::Result<Ended>;
}

/// The programs that the PATH leads to.
#[derive(Debug)]
pub(super) struct Programs;

impl Iptables for Programs {
    fn run(&self, family: Family, arguments: &[&str]) -> io::Result<Ended> {
        let output = Command::new(program(family)).args(["-w", LOCK_WAIT]).args(arguments).output()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok(Ended { code: output.status.code(), text: text.trim().to_owned() })
    }
}

/// What must be in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A chain of a table.
    Chain(&'static str, &'static str),
    /// A rule of the table `filter`: how it is added (`-I` before or `-A` after others), its chain, and what it says.
    Rule(&'static str, &'static str, &'static [&'static str]),
}

/// Drops what comes from elsewhere for this machine's loopback, which `route_localnet` would let in. kube-proxy has the same
/// rule, byte for byte.
const MARTIANS: &[&str] = &[
    "-m",
    "comment",
    "--comment",
    "block incoming localnet connections",
    "--dst",
    "127.0.0.0/8",
    "!",
    "--src",
    "127.0.0.0/8",
    "-m",
    "conntrack",
    "!",
    "--ctstate",
    "RELATED,ESTABLISHED,DNAT",
    "-j",
    "DROP",
];

const TO_FIREWALL: &[&str] = &["-j", FIREWALL];

/// What a family's tables must have, in the order in which it is made (upstream: `syncIPTablesRules`). Of IPv6, the loopback
/// is one address, which the kernel never routes.
pub(super) fn wanted(family: Family) -> &'static [Entry] {
    const V4: [Entry; 5] = [
        Entry::Chain("mangle", HINT),
        Entry::Chain("filter", FIREWALL),
        Entry::Rule("-I", "OUTPUT", TO_FIREWALL),
        Entry::Rule("-I", "INPUT", TO_FIREWALL),
        Entry::Rule("-A", FIREWALL, MARTIANS),
    ];
    match family {
        Family::V4 => &V4,
        Family::V6 => &V4[..1],
    }
}

/// Makes and keeps a kubelet's chains in the tables of both families until `stop`: once somebody flushed the tables, the
/// chains are made anew.
pub(crate) async fn keep_chains(iptables: Arc<dyn Iptables>, stop: CancellationToken) {
    let both = FAMILIES.map(|family| Tables { iptables: Arc::clone(&iptables), family }.keep());
    stop.run_until_cancelled(join_all(both)).await;
}

/// The tables of one family.
#[derive(Clone)]
struct Tables {
    iptables: Arc<dyn Iptables>,
    family: Family,
}

impl Tables {
    async fn keep(self) {
        let program = program(self.family);
        let found = self.on_thread(|tables| tables.iptables.run(tables.family, &["--version"])).await;
        if found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // No other component can use iptables there, so none misses the chains.
            tracing::info!(
                program,
                "No iptables support on this system; not creating the KUBE-IPTABLES-HINT chain"
            );
            return;
        }
        let mut refusal = None;
        loop {
            match self.on_thread(Self::make).await {
                Ok(()) => {
                    tracing::info!(program, "Initialized iptables rules");
                    refusal = None;
                    self.flushed().await;
                }
                Err(error) => {
                    if refusal.as_ref() != Some(&error) {
                        let message = "Can't make the iptables chains that makeIPTablesUtilChains asks for";
                        tracing::warn!(program, error, "{message}");
                    }
                    refusal = Some(error);
                    sleep(PERIOD).await;
                }
            }
        }
    }

    /// Makes what is missing, the canary included.
    fn make(&self) -> Result<(), String> {
        for entry in wanted(self.family) {
            match *entry {
                Entry::Chain(table, chain) => self.ensure_chain(table, chain)?,
                Entry::Rule(position, chain, rule) => self.ensure_rule(position, chain, rule)?,
            }
        }
        CANARY_TABLES.iter().try_for_each(|table| self.ensure_chain(table, CANARY))
    }

    /// Waits until somebody flushed the tables.
    async fn flushed(&self) {
        let [first, others @ ..] = CANARY_TABLES;
        // A failure says nothing about the chain.
        while !matches!(self.on_thread(move |tables| tables.has(first, CANARY)).await, Ok(false)) {
            sleep(PERIOD).await;
        }
        let limit = Instant::now() + FLUSH_LIMIT;
        for table in others {
            while Instant::now() < limit
                && !matches!(self.on_thread(move |tables| tables.has(table, CANARY)).await, Ok(false))
            {
                sleep(FLUSH_POLL).await;
            }
        }
    }

    fn ensure_chain(&self, table: &str, chain: &str) -> Result<(), String> {
        let ended = self.run(&["-N", chain, "-t", table])?;
        match ended.code {
            // The chain is there already.
            Some(0 | REFUSED) => Ok(()),
            _ => Err(format!("creating chain {chain:?}: {ended}")),
        }
    }

    fn ensure_rule(&self, position: &str, chain: &str, rule: &[&str]) -> Result<(), String> {
        let arguments = |operation| [&[operation, chain, "-t", "filter"], rule].concat();
        let checked = self.run(&arguments("-C"))?;
        match checked.code {
            Some(0) => return Ok(()),
            Some(REFUSED) => {}
            _ => return Err(format!("checking a rule of chain {chain:?}: {checked}")),
        }
        let added = self.run(&arguments(position))?;
        match added.code {
            Some(0) => Ok(()),
            _ => Err(format!("adding a rule to chain {chain:?}: {added}")),
        }
    }

    /// Whether the table has the chain. Fails where iptables could not look.
    fn has(&self, table: &str, chain: &str) -> Result<bool, String> {
        let ended = self.run(&["-S", chain, "-t", table])?;
        match ended.code {
            Some(0) => Ok(true),
            Some(RESOURCE_PROBLEM) | None => Err(format!("listing chain {chain:?}: {ended}")),
            Some(_) => Ok(false),
        }
    }

    fn run(&self, arguments: &[&str]) -> Result<Ended, String> {
        let program = program(self.family);
        self.iptables.run(self.family, arguments).map_err(|error| format!("running {program}: {error}"))
    }

    /// Runs iptables where it holds up nobody.
    async fn on_thread<T: Send + 'static>(&self, act: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let tables = self.clone();
        blocking(move || act(&tables)).await
    }
}
