//! What is written where, on a machine in a folder and with tables in memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::iptables::{Ended, Entry, wanted};
use super::sysctls::{Change, WANTED, plan};
use super::{Iptables, Kernel, keep_chains};
use crate::machine::Family;

/// A machine whose sysctls have these values; those without a value are not there.
fn machine(values: &[(&str, &str)]) -> (Kernel, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    for (path, value) in values {
        let file = root.path().join("proc/sys").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{value}\n")).unwrap();
    }
    (Kernel::at(root.path()), root)
}

const OF_A_NODE: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// As most distributions have them.
const OF_A_DISTRIBUTION: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "0"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "-1"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

#[test]
fn what_differs_is_changed_and_what_can_not_be_read_is_told() {
    let of = |values: &'static [(&str, &str)]| {
        plan(move |path| {
            let value = values.iter().find(|(named, _)| *named == path);
            value.map(|(_, value)| format!("{value}\n")).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    };
    assert_eq!(of(&OF_A_NODE), (Vec::new(), Vec::new()));
    let changes = vec![
        Change { path: "vm/overcommit_memory", from: 0, to: 1 },
        Change { path: "kernel/panic", from: -1, to: 10 },
    ];
    assert_eq!(of(&OF_A_DISTRIBUTION), (changes, Vec::new()));
    let (changes, unreadable) = of(&[("vm/overcommit_memory", "much"), ("vm/panic_on_oom", "2")]);
    assert_eq!(changes, [Change { path: "vm/panic_on_oom", from: 2, to: 0 }]);
    let unreadable: Vec<_> = unreadable.iter().map(|(path, _)| *path).collect();
    assert_eq!(unreadable[..2], ["vm/overcommit_memory", "kernel/panic"]);
    assert_eq!(unreadable.len(), WANTED.len() - 1);
}

#[test]
fn sysctls_are_set_where_the_machine_has_them() {
    let (kernel, root) = machine(&OF_A_DISTRIBUTION[..3]);
    kernel.set_sysctls();
    let read = |path: &str| fs::read_to_string(root.path().join("proc/sys").join(path)).ok();
    assert_eq!(read("vm/overcommit_memory").as_deref(), Some("1"));
    assert_eq!(read("kernel/panic").as_deref(), Some("10"));
    // Left as it was, to the byte.
    assert_eq!(read("vm/panic_on_oom").as_deref(), Some("0\n"));
    assert_eq!(read("kernel/keys/root_maxkeys"), None);
}

#[test]
fn protected_sysctls_are_compared_and_left_alone() {
    assert!(machine(&OF_A_NODE).0.check_sysctls().is_ok());
    let (kernel, root) = machine(&OF_A_DISTRIBUTION[..5]);
    let refused = kernel.check_sysctls().unwrap_err().to_string();
    assert_eq!(
        refused,
        "protectKernelDefaults: invalid kernel flag: vm.overcommit_memory, expected value: 1, actual value: 0; \
         invalid kernel flag: kernel.panic, expected value: 10, actual value: -1; \
         reading kernel.keys.root_maxbytes: No such file or directory (os error 2)"
    );
    let left = fs::read_to_string(root.path().join("proc/sys/kernel/panic")).unwrap();
    assert_eq!(left, "-1\n");
}

#[test]
fn each_family_has_its_chains() {
    assert_eq!(wanted(Family::V6), [Entry::Chain("mangle", "KUBE-IPTABLES-HINT")]);
    let [hint, firewall, .., Entry::Rule("-A", "KUBE-FIREWALL", martians)] = wanted(Family::V4) else {
        panic!("the last rule of IPv4 must be that of the firewall")
    };
    assert_eq!(*hint, Entry::Chain("mangle", "KUBE-IPTABLES-HINT"));
    assert_eq!(*firewall, Entry::Chain("filter", "KUBE-FIREWALL"));
    // kube-proxy's rule is the same: in other words, there would be two.
    assert_eq!(
        martians.join(" "),
        "-m comment --comment block incoming localnet connections --dst 127.0.0.0/8 ! --src 127.0.0.0/8 -m conntrack \
         ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
    );
}

/// The rules of chains, by the table and the chain.
type Chains = BTreeMap<(String, String), Vec<String>>;

/// iptables without a kernel.
#[derive(Debug, Default)]
pub(super) struct InMemory {
    /// `None` if the program is not installed.
    v4: Mutex<Option<Chains>>,
    v6: Mutex<Option<Chains>>,
    /// How often it ran.
    runs: Mutex<usize>,
    /// The exit code of each run that would change something, if it must fail.
    fails: Mutex<Option<i32>>,
}

impl InMemory {
    /// With `iptables` alone, and the chains that every kernel has.
    fn v4() -> Arc<Self> {
        let built_in = ["OUTPUT", "INPUT"];
        let chains = built_in.map(|chain| (("filter".to_owned(), chain.to_owned()), Vec::new()));
        Arc::new(Self { v4: Mutex::new(Some(chains.into())), ..Self::default() })
    }

    fn run_on(&self, chains: &mut Chains, arguments: &[&str]) -> i32 {
        if arguments == ["--version"] {
            return 0;
        }
        let [operation, chain, "-t", table, rule @ ..] = arguments else { panic!("{arguments:?}") };
        let (key, rule) = (((*table).to_owned(), (*chain).to_owned()), rule.join(" "));
        if let (Some(code), "-N" | "-A" | "-I") = (*self.fails.lock(), *operation) {
            return code;
        }
        match (*operation, chains.get_mut(&key)) {
            ("-S", Some(_)) => 0,
            ("-N", None) => {
                chains.insert(key, Vec::new());
                0
            }
            ("-C", Some(rules)) => i32::from(!rules.contains(&rule)),
            ("-A", Some(rules)) => {
                rules.push(rule);
                0
            }
            ("-I", Some(rules)) => {
                rules.insert(0, rule);
                0
            }
            _ => 1,
        }
    }

    fn chain(&self, table: &str, chain: &str) -> Option<Vec<String>> {
        self.v4.lock().as_ref()?.get(&(table.to_owned(), chain.to_owned())).cloned()
    }

    /// As a firewall that is loaded anew does it.
    fn flush(&self) {
        let mut chains = self.v4.lock();
        let chains = chains.as_mut().unwrap();
        chains.retain(|(_, chain), _| !chain.starts_with("KUBE-"));
        chains.values_mut().for_each(Vec::clear);
    }
}

impl Iptables for InMemory {
    fn run(&self, family: Family, arguments: &[&str]) -> io::Result<Ended> {
        *self.runs.lock() += 1;
        let mut chains = match family {
            Family::V4 => self.v4.lock(),
            Family::V6 => self.v6.lock(),
        };
        let chains = chains.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let code = self.run_on(chains, arguments);
        Ok(Ended { code: Some(code), text: "words".to_owned() })
    }
}

/// What waits is done before this much of paused time has passed.
const A_WHILE: Duration = Duration::from_secs(150);

#[tokio::test(start_paused = true)]
async fn chains_are_made_once_and_again_when_they_were_flushed() {
    let (tables, stop) = (InMemory::v4(), CancellationToken::new());
    // The machine's owner has a rule already.
    tables.run(Family::V4, &["-A", "INPUT", "-t", "filter", "-j OWN"]).unwrap();
    let mut keeping = JoinSet::new();
    keeping.spawn(keep_chains(Arc::<InMemory>::clone(&tables), stop.clone()));
    sleep(A_WHILE).await;
    assert_eq!(tables.chain("mangle", "KUBE-IPTABLES-HINT"), Some(Vec::new()));
    assert_eq!(tables.chain("filter", "INPUT").unwrap(), ["-j KUBE-FIREWALL", "-j OWN"]);
    assert_eq!(tables.chain("filter", "OUTPUT").unwrap(), ["-j KUBE-FIREWALL"]);
    assert_eq!(tables.chain("filter", "KUBE-FIREWALL").unwrap().len(), 1);
    for table in ["mangle", "nat", "filter"] {
        assert_eq!(tables.chain(table, "KUBE-KUBELET-CANARY"), Some(Vec::new()), "{table}");
    }

    // At rest one program runs a minute.
    let before = *tables.runs.lock();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(*tables.runs.lock() - before, 10);

    tables.flush();
    sleep(A_WHILE).await;
    assert_eq!(tables.chain("filter", "OUTPUT").unwrap(), ["-j KUBE-FIREWALL"]);
    assert_eq!(tables.chain("filter", "KUBE-FIREWALL").unwrap().len(), 1);
    stop.cancel();
    keeping.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_tried_again_and_a_machine_without_iptables_is_left_alone() {
    let (tables, stop) = (InMemory::v4(), CancellationToken::new());
    *tables.fails.lock() = Some(4);
    let mut keeping = JoinSet::new();
    keeping.spawn(keep_chains(Arc::<InMemory>::clone(&tables), stop.clone()));
    sleep(A_WHILE).await;
    assert_eq!(tables.chain("mangle", "KUBE-IPTABLES-HINT"), None);
    *tables.fails.lock() = None;
    sleep(A_WHILE).await;
    assert_eq!(tables.chain("filter", "KUBE-FIREWALL").unwrap().len(), 1);
    stop.cancel();
    keeping.join_all().await;

    // Neither program: both are given up, and the task ends by itself.
    let nowhere = Arc::<InMemory>::default();
    keep_chains(Arc::<InMemory>::clone(&nowhere), CancellationToken::new()).await;
    assert_eq!(*nowhere.runs.lock(), 2);
}
