//! The tree of groups that a node keeps for its pods.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::Uid;

use super::cpu::{MIN_SHARES, shares_of_milli_cpu};
use super::group::{Files, Group, Kernel};
use super::limits::{Limits, PodLimitSettings};
use super::metrics::Metrics;
use super::name::{CgroupDriver, GroupName, pod_of_folder};
use super::reserved::Reserved;
use super::systemd::{Slices, Systemd, whole_percents};
use super::{Error, Hierarchies, PodCgroups, PodMemory};
use crate::container::ContainerResources;
use crate::resources::{CPU, QosClass, ResourceList, amount, pod_requests, qos_class};

/// How the tree is named and what pods get in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupSettings {
    /// `cgroupDriver`.
    pub driver: CgroupDriver,
    /// `cgroupRoot`: the group in which `kubepods` is made, as a path; `/` or empty for the topmost. Must be there.
    pub root: String,
    /// What pods get.
    pub pods: PodLimitSettings,
}

/// `kubepods`, in it `burstable` and `besteffort`, in each of the three the pods of one class.
///
/// All methods block: they read and write files.
pub struct CgroupTree {
    hierarchies: Hierarchies,
    files: Box<dyn Files>,
    /// With the driver systemd.
    slices: Option<Slices>,
    settings: CgroupSettings,
    names: Names,
    burstable: Mutex<Burstable>,
    metrics: Metrics,
}

struct Names {
    root: GroupName,
    all: GroupName,
    burstable: GroupName,
    best_effort: GroupName,
}

/// What burstable pods ask for together is the weight of their class.
#[derive(Default)]
struct Burstable {
    /// Thousandths of a processor by pod.
    asked: BTreeMap<Uid, i64>,
    /// Whether all pods are in it. Until then the weight only grows: pods that run from before are not known yet.
    complete: bool,
}

impl CgroupTree {
    /// The tree on this machine. Nothing is made yet.
    ///
    /// # Errors
    /// The machine has no control groups, the root for the tree is not there, or systemd is to keep it and is not there.
    pub fn find(settings: CgroupSettings) -> Result<Self, Error> {
        let slices = match settings.driver {
            CgroupDriver::Cgroupfs => None,
            CgroupDriver::Systemd => {
                let systemd = Systemd::find().map_err(|source| Error::NoSystemd { source: source.into() })?;
                Some(Slices::new(Box::new(systemd)))
            }
        };
        Self::new(Hierarchies::find()?, Box::new(Kernel), slices, settings)
    }

    pub(super) fn new(
        hierarchies: Hierarchies,
        files: Box<dyn Files>,
        slices: Option<Slices>,
        settings: CgroupSettings,
    ) -> Result<Self, Error> {
        let root = GroupName::parse(&settings.root);
        let all = root.child("kubepods");
        let names =
            Names { burstable: all.child("burstable"), best_effort: all.child("besteffort"), root, all };
        let burstable = Mutex::default();
        let tree = Self { hierarchies, files, slices, settings, names, burstable, metrics: Metrics::new() };
        if tree.group(&tree.names.root).exists() {
            Ok(tree)
        } else {
            Err(Error::NoRoot { root: tree.settings.root })
        }
    }

    /// The metrics of this tree.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Makes the groups of all pods and of each class. To be called before any pod starts; `there` is what all pods may use
    /// together (see [`left_for_pods`](super::left_for_pods)), and is set only on a new group.
    ///
    /// # Errors
    /// The file system says no.
    pub fn prepare(&self, there: &ResourceList) -> Result<(), Error> {
        let sizes = &self.settings.pods.huge_page_sizes;
        let (all, burstable, best_effort) = (&self.names.all, &self.names.burstable, &self.names.best_effort);
        if !self.group(all).exists() {
            self.create(all, &Limits::of_node(there, sizes))?;
        }
        // Burstable pods of before keep their weight until all are known.
        for (name, limits) in [
            (burstable, Limits { cpu_shares: None, ..Limits::of_class(MIN_SHARES, sizes) }),
            (best_effort, Limits::of_class(MIN_SHARES, sizes)),
        ] {
            self.create(name, &limits)?;
        }
        Ok(())
    }

    /// Sets what all pods may use together. Fails while they use more memory than that; to be tried again then, since
    /// evictions are to change it.
    ///
    /// # Errors
    /// The file system says no.
    pub fn enforce_node(&self, there: &ResourceList) -> Result<(), Error> {
        let limits = Limits::of_node(there, &self.settings.pods.huge_page_sizes);
        self.metrics.update(|| {
            let group = self.group(&self.names.all);
            group.make()?;
            group.limit_all(&limits)
        })
    }

    /// Holds a group of the host's daemons to what is reserved for them, even where they use more memory now: version 2 makes
    /// it so, and kills for it if it must.
    ///
    /// # Errors
    /// The group is not there, or the file system says no: version 1 does while its daemons use more memory than that.
    pub fn enforce_reserved(&self, reserved: &Reserved) -> Result<(), Error> {
        let group = self.group(&GroupName::of_driver(&reserved.group, self.settings.driver));
        if !group.exists() {
            return Err(Error::NoGroup { group: reserved.group.clone() });
        }
        self.metrics.update(|| group.limit_existing(&reserved.limits()))
    }

    /// Sets the weights of the classes by the pods there are now. To be called from time to time, with all pods that are
    /// not over.
    ///
    /// # Errors
    /// The file system says no.
    pub fn update_classes<'a>(&self, pods: impl IntoIterator<Item = &'a Pod>) -> Result<(), Error> {
        let asked = pods.into_iter().filter_map(burstable_request).collect();
        let best_effort = Limits::of_class(MIN_SHARES, &self.settings.pods.huge_page_sizes);
        let mut burstable = self.burstable.lock();
        *burstable = Burstable { asked, complete: true };
        self.create(&self.names.best_effort, &best_effort)?;
        self.weigh_burstable(&burstable)
    }

    /// The name of the group that a pod's is in events.
    pub(super) fn node_group(&self) -> String {
        self.names.all.quoted()
    }

    fn weigh_burstable(&self, burstable: &Burstable) -> Result<(), Error> {
        let asked = burstable.asked.values().fold(0i64, |sum, asked| sum.saturating_add(*asked));
        let shares = shares_of_milli_cpu(asked);
        let mut limits = Limits::of_class(shares, &self.settings.pods.huge_page_sizes);
        if !burstable.complete && self.burstable_shares_now() >= shares {
            limits.cpu_shares = None;
        }
        self.create(&self.names.burstable, &limits)
    }

    fn burstable_shares_now(&self) -> u64 {
        let group = self.group(&self.names.burstable);
        let number = |file: &str| group.get("cpu", file)?.parse::<u64>().ok();
        match self.hierarchies.version {
            super::CgroupVersion::V1 => number("cpu.shares"),
            super::CgroupVersion::V2 => number("cpu.weight").map(super::cpu::shares_of_weight),
        }
        .unwrap_or(MIN_SHARES)
    }

    fn group(&self, name: &GroupName) -> Group<'_> {
        Group {
            hierarchies: &self.hierarchies,
            files: self.files.as_ref(),
            path: name.path(self.settings.driver),
            slices: self.slices.as_ref(),
        }
    }

    fn limits(&self, pod: &Pod) -> Limits {
        let limits = Limits::of_pod(pod, &self.settings.pods);
        match self.settings.driver {
            CgroupDriver::Cgroupfs => limits,
            CgroupDriver::Systemd => Limits { cpu_quota: limits.cpu_quota.map(whole_percents), ..limits },
        }
    }

    /// Makes a group where it is missing, with all its limits.
    fn create(&self, name: &GroupName, limits: &Limits) -> Result<(), Error> {
        let group = self.group(name);
        if group.is_whole() {
            return self.update(name, limits);
        }
        self.metrics.create(|| {
            group.make()?;
            group.limit_all(limits)
        })
    }

    fn update(&self, name: &GroupName, limits: &Limits) -> Result<(), Error> {
        self.metrics.update(|| self.group(name).limit(limits))
    }

    fn class(&self, class: QosClass) -> &GroupName {
        match class {
            QosClass::Guaranteed => &self.names.all,
            QosClass::Burstable => &self.names.burstable,
            QosClass::BestEffort => &self.names.best_effort,
        }
    }

    fn pod(&self, pod: &Pod) -> Result<GroupName, Error> {
        let uid = uid_of(pod);
        self.class(qos_class(pod)).pod(&uid).ok_or_else(|| Error::Uid { uid: uid.to_string() })
    }

    fn classes(&self) -> [&GroupName; 3] {
        [&self.names.all, &self.names.burstable, &self.names.best_effort]
    }
}

impl PodCgroups for CgroupTree {
    fn parent_of(&self, pod: &Pod) -> String {
        // One that can't have a group never gets as far as the runtime: `ensure` says no.
        self.pod(pod).map(|name| name.path(self.settings.driver)).unwrap_or_default()
    }

    fn ensure(&self, pod: &Pod) -> io::Result<()> {
        let name = self.pod(pod)?;
        if let Some((uid, asked)) = burstable_request(pod) {
            let mut burstable = self.burstable.lock();
            if burstable.asked.insert(uid, asked) != Some(asked) {
                self.weigh_burstable(&burstable)?;
            }
        }
        Ok(self.create(&name, &self.limits(pod))?)
    }

    fn resize(&self, pod: &Pod) -> io::Result<()> {
        self.ensure(pod)?;
        let (name, limits) = (self.pod(pod)?, self.limits(pod));
        Ok(self.metrics.update(|| self.group(&name).limit_all(&limits))?)
    }

    fn memory(&self, pod: &Pod) -> PodMemory {
        let wanted = self.limits(pod).memory;
        let now = self.pod(pod).map(|name| self.group(&name).memory()).unwrap_or_default();
        PodMemory { wanted, ..now }
    }

    fn exists(&self, pod: &Pod) -> bool {
        self.pod(pod).is_ok_and(|name| self.group(&name).exists())
    }

    fn given(&self, pod: &Pod) -> ContainerResources {
        let shares = self.limits(pod).cpu_shares;
        self.pod(pod).map(|name| self.group(&name).given(shares)).unwrap_or_default()
    }

    fn remove(&self, pod: &Uid) -> io::Result<()> {
        // By uid alone nobody knows the class.
        for class in self.classes() {
            let Some(name) = class.pod(pod) else { continue };
            let group = self.group(&name);
            let is_kept = self.slices.as_ref().is_some_and(|slices| slices.knows(&group.path));
            if is_kept || group.folders().any(|folder| folder.is_dir()) {
                self.metrics.destroy(|| group.remove())?;
            }
        }
        let mut burstable = self.burstable.lock();
        if burstable.asked.remove(pod).is_some() {
            self.weigh_burstable(&burstable)?;
        }
        Ok(())
    }

    fn pods(&self) -> io::Result<HashMap<Uid, String>> {
        let driver = self.settings.driver;
        let mut found = HashMap::new();
        for class in self.classes() {
            // One that is left in any hierarchy is found.
            for folder in self.group(class).folders() {
                let entries = match fs::read_dir(&folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    entries => entries.map_err(|source| Error::Read { path: folder, source })?,
                };
                for entry in entries {
                    let entry = entry?;
                    let name = entry.file_name();
                    let Some(uid) = name.to_str().and_then(|name| pod_of_folder(name, driver)) else {
                        continue;
                    };
                    if let Some(pod) = class.pod(&uid)
                        && entry.file_type().is_ok_and(|kind| kind.is_dir())
                    {
                        found.insert(uid, pod.path(driver));
                    }
                }
            }
        }
        Ok(found)
    }
}

fn uid_of(pod: &Pod) -> Uid {
    Uid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

fn burstable_request(pod: &Pod) -> Option<(Uid, i64)> {
    let asked = || amount(&pod_requests(pod), CPU).milli_value();
    (qos_class(pod) == QosClass::Burstable).then(|| (uid_of(pod), asked()))
}
