//! What holds for any sequence of claims, volumes, lagging caches, failed and lost writes, and crashes.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_controller::plan::Plan;

use super::super::claim_plan;
use super::super::step::Step;
use super::super::volume_plan::{self, Sight};
use super::world::{Done, Objects, World, claim_of, note, volume_of};

/// Something that happens.
#[derive(Clone, Debug)]
enum Deed {
    /// A user creates a claim, which may ask for a volume by name.
    Claim {
        name: u8,
        size: u8,
        many: bool,
        gold: bool,
        volume: Option<u8>,
    },
    /// A user creates a volume, which may be reserved for a claim by name.
    Volume {
        name: u8,
        size: u8,
        many: bool,
        gold: bool,
        claim: Option<u8>,
    },
    DeleteClaim(u8),
    DeleteVolume(u8),
    /// The watch of one kind catches up.
    SeeClaims,
    SeeVolumes,
    /// A sync, with the fates of its writes.
    SyncClaim(u8, Vec<Fate>),
    SyncVolume(u8, Vec<Fate>),
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Done,
    /// The API server never gets it.
    Refused,
    /// The API server carries it out, and the answer is lost.
    AnswerLost,
    /// The API server carries it out, and the process ends.
    Crash,
}

fn deed() -> impl Strategy<Value = Deed> {
    let fates = || {
        let fate = prop_oneof![
            6 => Just(Fate::Done), 1 => Just(Fate::Refused), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::Crash)
        ];
        vec(fate, 6)
    };
    let spec = || {
        (
            0..4_u8,
            1..4_u8,
            any::<bool>(),
            any::<bool>(),
            prop_oneof![3 => Just(None), 1 => (0..4_u8).prop_map(Some)],
        )
    };
    prop_oneof![
        3 => spec().prop_map(|(name, size, many, gold, volume)| Deed::Claim { name, size, many, gold, volume }),
        3 => spec().prop_map(|(name, size, many, gold, claim)| Deed::Volume { name, size, many, gold, claim }),
        1 => (0..4_u8).prop_map(Deed::DeleteClaim),
        1 => (0..4_u8).prop_map(Deed::DeleteVolume),
        3 => Just(Deed::SeeClaims),
        3 => Just(Deed::SeeVolumes),
        8 => (0..4_u8, fates()).prop_map(|(name, fates)| Deed::SyncClaim(name, fates)),
        5 => (0..4_u8, fates()).prop_map(|(name, fates)| Deed::SyncVolume(name, fates)),
    ]
}

/// The API server, and what the process knows of it.
struct Simulation {
    world: World,
    claims: Objects,
    volumes: Objects,
    /// Tells later objects of one name apart.
    made: u32,
}

fn newest(cache: &mut Objects, object: &Value) {
    let version =
        |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap();
    if cache.get(name).is_none_or(|known| version(known) < version(object)) {
        cache.insert(name.to_owned(), object.clone());
    }
}

impl Simulation {
    fn happens(&mut self, deed: &Deed) {
        match deed {
            Deed::Claim { name, size, many, gold, volume } => {
                let name = format!("c{name}");
                if !self.world.claims.contains_key(&name) {
                    self.made += 1;
                    let object = json!({
                        "metadata": {"namespace": "default", "name": name, "uid": format!("c-{}", self.made)},
                        "spec": {
                            "accessModes": [mode(*many)], "resources": {"requests": {"storage": format!("{size}Gi")}},
                            "storageClassName": if *gold { "gold" } else { "" },
                            "volumeName": volume.map(|volume| format!("v{volume}")).unwrap_or_default(),
                        },
                        "status": {"phase": "Pending"},
                    });
                    self.world.put_claim(object);
                }
            }
            Deed::Volume { name, size, many, gold, claim } => {
                let name = format!("v{name}");
                if !self.world.volumes.contains_key(&name) {
                    self.made += 1;
                    let modes = if *many { json!([mode(false), mode(true)]) } else { json!([mode(false)]) };
                    let mut object = json!({
                        "metadata": {"name": name, "uid": format!("v-{}", self.made)},
                        "spec": {
                            "accessModes": modes, "capacity": {"storage": format!("{size}Gi")},
                            "storageClassName": if *gold { "gold" } else { "" },
                            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": "/mnt"},
                        },
                        "status": {"phase": "Pending"},
                    });
                    if let Some(claim) = claim {
                        object["spec"]["claimRef"] =
                            json!({"namespace": "default", "name": format!("c{claim}")});
                    }
                    self.world.put_volume(object);
                }
            }
            Deed::DeleteClaim(name) => drop(self.world.claims.remove(&format!("c{name}"))),
            Deed::DeleteVolume(name) => drop(self.world.volumes.remove(&format!("v{name}"))),
            Deed::SeeClaims => self.claims = self.world.claims.clone(),
            Deed::SeeVolumes => self.volumes = self.world.volumes.clone(),
            Deed::SyncClaim(name, fates) => self.sync_claim(&format!("c{name}"), fates),
            Deed::SyncVolume(name, fates) => self.sync_volume(&format!("v{name}"), fates),
        }
        self.check();
    }

    fn sync_claim(&mut self, name: &str, fates: &[Fate]) {
        let Some(mut observed) = self.world.observe_claim(&self.claims, &self.volumes, name) else { return };
        let mut fates = fates.iter().copied();
        while let Plan::Act(batch) = claim_plan::plan(&observed) {
            for step in batch.steps {
                let (claim, volume) = (observed.claim.clone(), observed.volume.clone());
                if step == Step::ReadVolume {
                    observed.volume = self.world.volumes.get(claim.volume_name().as_str()).map(volume_of);
                    observed.progress.read = true;
                    continue;
                }
                let Some(done) = self.carry_out(Some(&claim), volume.as_ref(), &step, &mut fates) else {
                    return;
                };
                match done {
                    Done::Claim(claim) => observed.claim = claim,
                    Done::Volume(volume) => observed.volume = Some(volume),
                    Done::Other => note(&mut observed.progress, &step),
                    Done::Conflict | Done::Failed => return,
                }
            }
        }
    }

    fn sync_volume(&mut self, name: &str, fates: &[Fate]) {
        let Some(mut observed) = self.world.observe_volume(&self.claims, &self.volumes, name) else { return };
        let mut fates = fates.iter().copied();
        while let Plan::Act(batch) = volume_plan::plan(&observed) {
            for step in batch.steps {
                if step == Step::ReadClaim {
                    let name = observed.volume.claim_ref().unwrap().name.clone();
                    observed.claim = Sight::Live(self.world.claims.get(name.as_str()).map(claim_of));
                    continue;
                }
                let volume = observed.volume.clone();
                let Some(done) = self.carry_out(None, Some(&volume), &step, &mut fates) else { return };
                match done {
                    Done::Volume(volume) => observed.volume = volume,
                    Done::Other => note(&mut observed.progress, &step),
                    Done::Claim(_) | Done::Conflict | Done::Failed => return,
                }
            }
        }
    }

    /// Carries out a step. `None` ends the sync.
    fn carry_out(
        &mut self,
        claim: Option<&super::super::claim::Claim>,
        volume: Option<&super::super::volume::Volume>,
        step: &Step,
        fates: &mut impl Iterator<Item = Fate>,
    ) -> Option<Done> {
        let is_write = matches!(
            step,
            Step::WriteVolume(_) | Step::WritePhase { .. } | Step::WriteClaim(_) | Step::WriteStatus { .. }
        );
        let fate = if is_write { fates.next().unwrap_or(Fate::Done) } else { Fate::Done };
        if matches!(fate, Fate::Refused) {
            return None;
        }
        let done = self.world.carry_out(claim, volume, step);
        self.check();
        match fate {
            Fate::Done => {
                // The process sees its own writes.
                match &done {
                    Done::Claim(claim) => newest(&mut self.claims, &self.world.claims[claim.name().as_str()]),
                    Done::Volume(volume) => {
                        newest(&mut self.volumes, &self.world.volumes[volume.name().as_str()])
                    }
                    _ => {}
                }
                Some(done)
            }
            Fate::AnswerLost | Fate::Refused => None,
            Fate::Crash => {
                self.claims = self.world.claims.clone();
                self.volumes = self.world.volumes.clone();
                None
            }
        }
    }

    /// No volume serves two claims, and no claim has two volumes.
    fn check(&self) {
        let mut taken = BTreeSet::new();
        for claim in self.world.claims.values().map(claim_of).filter(super::super::claim::Claim::is_settled) {
            let volume = claim.volume_name().clone();
            // A volume of this name may be another one than the claim was bound to.
            let is_its = self
                .world
                .volumes
                .get(volume.as_str())
                .map(volume_of)
                .is_some_and(|volume| volume.is_for(&claim));
            assert!(!is_its || taken.insert(volume.clone()), "two claims have volume {volume}");
        }
        let mut claims = BTreeSet::new();
        for volume in self.world.volumes.values().map(volume_of) {
            let claim =
                volume.claim_ref().and_then(|claim| self.world.claims.get(claim.name.as_str())).map(claim_of);
            if let Some(claim) = claim
                && volume.is_for(&claim)
                && claim.volume_name() == volume.name()
            {
                assert!(claims.insert(claim.name().clone()), "claim {} has two volumes", claim.name());
            }
        }
    }

    /// Lets the process come to rest on up-to-date caches.
    fn settle(&mut self) {
        for _ in 0..12 {
            let before = self.world.version;
            for name in 0..4 {
                for deed in [
                    Deed::SeeVolumes,
                    Deed::SeeClaims,
                    Deed::SyncVolume(name, Vec::new()),
                    Deed::SyncClaim(name, Vec::new()),
                ] {
                    self.happens(&deed);
                }
            }
            if self.world.version == before {
                return;
            }
        }
        panic!("the binder does not come to rest");
    }

    /// At rest, each claim that some free volume fits has a volume; and each volume that names a claim is named by it.
    fn check_rest(&self) {
        let volumes: Vec<_> = self.world.volumes.values().map(volume_of).collect();
        for claim in self.world.claims.values().map(claim_of) {
            let fits = |volume: &&super::super::volume::Volume| {
                (volume.claim_ref().is_none() || volume.is_for(&claim)) && claim.refuses(volume).is_none()
            };
            let asked = claim.volume_name();
            let mut choice = volumes.iter().filter(|volume| asked.is_empty() || volume.name() == asked);
            let is_bound = claim.is_settled()
                && choice.clone().any(|volume| volume.bound_uid() == Some(&claim.meta().uid));
            assert!(
                is_bound || claim.status().phase == *"Lost" || choice.find(fits).is_none(),
                "{} could be bound: {:#?}",
                claim.name(),
                self.world.volumes
            );
        }
        for volume in &volumes {
            let Some(reference) = volume.claim_ref() else { continue };
            let claim = self.world.claims.get(reference.name.as_str()).map(claim_of);
            let claim = claim.filter(|claim| Some(&claim.meta().uid) == volume.bound_uid());
            let is_mutual = claim.is_some_and(|claim| claim.volume_name() == volume.name());
            let expected = if volume.bound_uid().is_none() {
                "Available"
            } else if is_mutual {
                "Bound"
            } else {
                "Released"
            };
            assert_eq!(volume.phase(), expected, "{}", volume.name());
        }
    }
}

fn mode(many: bool) -> &'static str {
    if many { "ReadWriteMany" } else { "ReadWriteOnce" }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_volume_serves_two_claims_and_all_that_fits_is_bound_in_the_end(deeds in vec(deed(), 0..60)) {
        let world = World::new();
        let mut simulation = Simulation { world, claims: Objects::new(), volumes: Objects::new(), made: 0 };
        for deed in &deeds {
            simulation.happens(deed);
        }
        simulation.settle();
        simulation.check_rest();
    }
}
