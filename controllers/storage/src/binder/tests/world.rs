//! An API server, reduced to the claims and volumes of one namespace: it carries out the steps of plans as the real one would.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_controller::plan::Plan;
use steersman_informer::wire::{Encoding, Object};
use steersman_kinds::persistent_volume::PersistentVolume;
use steersman_kinds::persistent_volume_claim::PersistentVolumeClaim;

use super::super::claim::Claim;
use super::super::claim_plan::{self, Class, Progress, Settings};
use super::super::step::{About, Event, Step, phase_change};
use super::super::volume::Volume;
use super::super::volume_plan::{self, Sight};
use super::super::volumes::{Scope, Volumes};

pub(super) type Objects = BTreeMap<String, Value>;

pub(super) struct World {
    pub(super) volumes: Objects,
    pub(super) claims: Objects,
    pub(super) classes: BTreeMap<String, Class>,
    pub(super) default_class: Option<String>,
    pub(super) pods: Vec<String>,
    pub(super) settings: Settings,
    /// Events as `Type Reason`, those about volumes with the prefix `volume: `; and what else steps did.
    pub(super) log: Vec<String>,
    pub(super) messages: Vec<String>,
    pub(super) version: u64,
}

pub(super) fn volume_of(object: &Value) -> Volume {
    let decoded = PersistentVolume::decode(&object.to_string().into(), Encoding::Json, u64::MAX);
    Volume(Arc::new(decoded.unwrap()))
}

pub(super) fn claim_of(object: &Value) -> Claim {
    let decoded = PersistentVolumeClaim::decode(&object.to_string().into(), Encoding::Json, u64::MAX);
    Claim(Arc::new(decoded.unwrap()))
}

pub(super) fn external(provisioner: &str) -> Class {
    Class { provisioner: provisioner.into(), waits_for_first_consumer: Some(false) }
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            volumes: Objects::new(),
            claims: Objects::new(),
            classes: BTreeMap::new(),
            default_class: None,
            pods: Vec::new(),
            settings: Settings { dynamic_provisioning: true },
            log: Vec::new(),
            messages: Vec::new(),
            version: 0,
        }
    }

    /// Adds an object of this name, with the parts that matter to the test over the usual ones.
    pub(super) fn volume(mut self, name: &str, parts: &Value) -> Self {
        let mut object = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")},
            "spec": {
                "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"},
            },
            "status": {"phase": "Available"},
        });
        json_patch(&mut object, parts);
        let spec = object["spec"].as_object_mut().unwrap();
        if ["csi", "nfs", "local"].iter().any(|source| spec.contains_key(*source)) {
            spec.remove("hostPath");
        }
        self.put_volume(object);
        self
    }

    pub(super) fn claim(mut self, name: &str, parts: &Value) -> Self {
        let mut object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "", "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        });
        json_patch(&mut object, parts);
        self.put_claim(object);
        self
    }

    pub(super) fn class(mut self, name: &str, class: Class) -> Self {
        self.classes.insert(name.to_owned(), class);
        self
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(super) fn put_volume(&mut self, mut object: Value) {
        object["metadata"]["resourceVersion"] = self.next_version().into();
        self.volumes.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), object);
    }

    pub(super) fn put_claim(&mut self, mut object: Value) {
        object["metadata"]["resourceVersion"] = self.next_version().into();
        self.claims.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), object);
    }

    pub(super) fn observe_claim(
        &self,
        claims: &Objects,
        volumes: &Objects,
        name: &str,
    ) -> Option<claim_plan::Observed> {
        let claim = claim_of(claims.get(name)?);
        let class = self.classes.get(claim.class()).cloned();
        let volume = if !claim.volume_name().is_empty() {
            volumes.get(claim.volume_name().as_str()).map(volume_of)
        } else if claim.is_bind_completed() {
            None
        } else {
            let mut index = Volumes::default();
            volumes.values().for_each(|volume| index.put(volume_of(volume)));
            let waits = class.as_ref().is_some_and(|class| class.waits_for_first_consumer == Some(true));
            index.best_match(&claim, if waits { Scope::Reserved } else { Scope::All }).unwrap()
        };
        Some(claim_plan::Observed {
            volume,
            class,
            default_class: self.default_class.as_deref().map(Into::into),
            waiting_pods: self.pods.iter().map(|pod| pod.as_str().into()).collect(),
            settings: self.settings,
            progress: Progress::default(),
            claim,
        })
    }

    pub(super) fn observe_volume(
        &self,
        claims: &Objects,
        volumes: &Objects,
        name: &str,
    ) -> Option<volume_plan::Observed> {
        let volume = volume_of(volumes.get(name)?);
        let claim =
            volume.claim_ref().and_then(|reference| claims.get(reference.name.as_str())).map(claim_of);
        let provisioner = self.classes.get(volume.class()).map(|class| class.provisioner.clone());
        Some(volume_plan::Observed {
            claim: Sight::Cached(claim),
            provisioner,
            progress: Progress::default(),
            volume,
        })
    }

    /// Syncs a claim on up-to-date caches until its plan is done. Returns the claim and the log of the sync.
    pub(super) fn sync_claim(&mut self, name: &str) -> (Value, Vec<String>) {
        let (claims, volumes) = (self.claims.clone(), self.volumes.clone());
        self.sync_claim_from(&claims, &volumes, name)
    }

    /// As [`sync_claim`](Self::sync_claim), with caches in this state.
    pub(super) fn sync_claim_from(
        &mut self,
        claims: &Objects,
        volumes: &Objects,
        name: &str,
    ) -> (Value, Vec<String>) {
        let mut observed = self.observe_claim(claims, volumes, name).unwrap();
        let from = self.log.len();
        for _ in 0..20 {
            let Plan::Act(batch) = claim_plan::plan(&observed) else { break };
            for step in batch.steps {
                let (claim, volume) = (Some(observed.claim.clone()), observed.volume.clone());
                if step == Step::ReadVolume {
                    observed.volume = self.volumes.get(observed.claim.volume_name().as_str()).map(volume_of);
                    observed.progress.read = true;
                    self.log.push("read volume".to_owned());
                    continue;
                }
                match self.carry_out(claim.as_ref(), volume.as_ref(), &step) {
                    Done::Volume(volume) => observed.volume = Some(volume),
                    Done::Claim(claim) => observed.claim = claim,
                    Done::Other => note(&mut observed.progress, &step),
                    Done::Conflict => panic!("no other party writes"),
                    Done::Failed => return (self.claims[name].clone(), self.log[from..].to_vec()),
                }
            }
        }
        (self.claims[name].clone(), self.log[from..].to_vec())
    }

    /// As [`sync_claim`](Self::sync_claim), for a volume.
    pub(super) fn sync_volume(&mut self, name: &str) -> (Value, Vec<String>) {
        let (claims, volumes) = (self.claims.clone(), self.volumes.clone());
        self.sync_volume_from(&claims, &volumes, name)
    }

    /// As [`sync_volume`](Self::sync_volume), with caches in this state.
    pub(super) fn sync_volume_from(
        &mut self,
        claims: &Objects,
        volumes: &Objects,
        name: &str,
    ) -> (Value, Vec<String>) {
        let mut observed = self.observe_volume(claims, volumes, name).unwrap();
        let from = self.log.len();
        for _ in 0..20 {
            let Plan::Act(batch) = volume_plan::plan(&observed) else { break };
            for step in batch.steps {
                let claim = match &observed.claim {
                    Sight::Cached(claim) | Sight::Live(claim) => claim.clone(),
                };
                if step == Step::ReadClaim {
                    let name = observed.volume.claim_ref().unwrap().name.clone();
                    observed.claim = Sight::Live(self.claims.get(name.as_str()).map(claim_of));
                    self.log.push("read claim".to_owned());
                    continue;
                }
                match self.carry_out(claim.as_ref(), Some(&observed.volume.clone()), &step) {
                    Done::Volume(volume) => observed.volume = volume,
                    Done::Other => note(&mut observed.progress, &step),
                    Done::Conflict => panic!("no other party writes"),
                    Done::Claim(_) | Done::Failed => panic!("a volume's sync writes no claim: {step:?}"),
                }
            }
        }
        (self.volumes[name].clone(), self.log[from..].to_vec())
    }

    /// Carries out one step, on the preconditions of its write.
    pub(super) fn carry_out(&mut self, claim: Option<&Claim>, volume: Option<&Volume>, step: &Step) -> Done {
        match step {
            Step::WriteVolume(change) => {
                let volume = volume.unwrap();
                let patch = change.of(volume, claim).unwrap().patch();
                self.write_volume(volume, "volume", &patch)
            }
            Step::WritePhase { phase, event } => {
                let message = event.as_ref().map_or("", |event| &event.message);
                let patch = phase_change(volume.unwrap(), phase, message).unwrap().patch();
                let done = self.write_volume(volume.unwrap(), phase, &patch);
                if let (Done::Volume(_), Some(event)) = (&done, event) {
                    self.record(event);
                }
                done
            }
            Step::WriteClaim(change) => {
                self.write_claim(claim.unwrap(), "claim", &change.of(claim.unwrap()).patch())
            }
            Step::WriteStatus { status, event } => {
                let patch = status.change(claim.unwrap()).unwrap().patch();
                let done = self.write_claim(claim.unwrap(), &format!("claim {}", &*status.phase), &patch);
                if let (Done::Claim(_), Some(event)) = (&done, event) {
                    self.record(event);
                }
                done
            }
            Step::Record(event) => {
                self.record(event);
                Done::Other
            }
            Step::Begin(operation) => {
                self.log.push(format!("{} by {}", operation.name, operation.plugin));
                Done::Other
            }
            Step::SyncClaim => {
                self.log.push("sync claim".to_owned());
                Done::Other
            }
            Step::Fail(why) => {
                self.log.push(format!("error: {why}"));
                Done::Failed
            }
            Step::ReadClaim | Step::ReadVolume => panic!("the caller must read"),
        }
    }

    fn record(&mut self, event: &Event) {
        let about = if event.about == About::Volume { "volume: " } else { "" };
        self.log.push(format!("{about}{} {}", event.kind.as_str(), event.reason));
        self.messages.push(event.message.clone());
    }

    fn write_volume(&mut self, volume: &Volume, what: &str, patch: &Value) -> Done {
        let Some(object) = self.volumes.get(volume.name().as_str()) else { return Done::Conflict };
        let Some(object) = patched(object, patch) else { return Done::Conflict };
        self.log.push(what.to_owned());
        self.put_volume(object);
        Done::Volume(volume_of(&self.volumes[volume.name().as_str()]))
    }

    fn write_claim(&mut self, claim: &Claim, what: &str, patch: &Value) -> Done {
        let Some(object) = self.claims.get(claim.name().as_str()) else { return Done::Conflict };
        let Some(object) = patched(object, patch) else { return Done::Conflict };
        self.log.push(what.to_owned());
        self.put_claim(object);
        Done::Claim(claim_of(&self.claims[claim.name().as_str()]))
    }
}

/// The result of a step.
pub(super) enum Done {
    Volume(Volume),
    Claim(Claim),
    Other,
    Conflict,
    Failed,
}

pub(super) fn note(progress: &mut Progress, step: &Step) {
    match step {
        Step::Begin(_) => progress.begun = true,
        _ => progress.said = true,
    }
}

fn patched(object: &Value, patch: &Value) -> Option<Value> {
    for member in ["uid", "resourceVersion"] {
        if object["metadata"][member] != patch["metadata"][member] {
            return None;
        }
    }
    let mut object = object.clone();
    json_patch(&mut object, patch);
    Some(object)
}

/// Applies a merge patch.
pub(super) fn json_patch(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(members) => {
            if !object.is_object() {
                *object = json!({});
            }
            for (name, value) in members {
                if value.is_null() {
                    object.as_object_mut().unwrap().remove(name);
                } else {
                    json_patch(&mut object[name], value);
                }
            }
        }
        other => *object = other.clone(),
    }
}
