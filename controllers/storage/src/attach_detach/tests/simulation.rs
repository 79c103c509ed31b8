//! A volume on three nodes, with kubelets, an external attacher, lagging caches, failing writes and failovers, in any order.

use proptest::prelude::*;

use super::*;
use crate::attach_detach::observed::Memory;

const NODES: usize = 3;

/// A node as it is.
#[derive(Clone, Debug, Default)]
struct Truth {
    pod: bool,
    ready: bool,
    out_of_service: bool,
    in_use: bool,
    mounted: bool,
    listed: bool,
    attachment: Option<Attachment>,
    /// The controller gave up on the kubelet.
    forced: bool,
}

/// A node as the controller's caches show it.
#[derive(Clone, Debug, Default)]
struct Seen {
    pod: bool,
    ready: bool,
    out_of_service: bool,
    in_use: bool,
    listed: bool,
    attachment: Option<Attachment>,
}

/// Something that happens at a node.
#[derive(Clone, Copy, Debug)]
enum Event {
    PodComesOrEnds,
    Kubelet,
    /// The attacher does its work, or fails.
    Attacher(bool),
    /// Somebody else deletes the attachment.
    Admin,
    ReadyOrNot,
    /// An administrator shuts the machine down, and says so.
    OutOfService,
    CacheMoves,
    /// Time passes, in seconds.
    Time(u16),
    /// Another process leads. Its cache of nodes and pods is that of some time ago.
    Failover,
    /// A sync. Each bit pair says how a write ends: 0 and 1 well, 2 without effect, 3 with an effect and no answer.
    Sync(u32),
}

fn event() -> impl Strategy<Value = (usize, Event)> {
    let event = prop_oneof![
        2 => Just(Event::PodComesOrEnds),
        4 => Just(Event::Kubelet),
        4 => any::<bool>().prop_map(Event::Attacher),
        1 => Just(Event::Admin),
        1 => Just(Event::ReadyOrNot),
        1 => Just(Event::OutOfService),
        4 => Just(Event::CacheMoves),
        2 => (0..500_u16).prop_map(Event::Time),
        1 => Just(Event::Failover),
        3 => any::<u32>().prop_map(Event::Sync),
        4 => Just(Event::Sync(0)),
    ];
    (0..NODES, event)
}

struct World {
    truth: Vec<Truth>,
    seen: Vec<Seen>,
    /// What a standby sees of pods and nodes.
    standby: Vec<Seen>,
    memories: Vec<Memory>,
    volume: VolumeName,
    exclusive: bool,
    now: Instant,
    created: u32,
}

impl World {
    fn new(volume: VolumeName, exclusive: bool) -> Self {
        let node = Truth { ready: true, ..Truth::default() };
        let seen = Seen { ready: true, ..Seen::default() };
        Self {
            truth: vec![node; NODES],
            seen: vec![seen.clone(); NODES],
            standby: vec![seen; NODES],
            memories: vec![Memory::default(); NODES],
            volume,
            exclusive,
            now: start(),
            created: 0,
        }
    }

    fn look(&mut self, at: usize) {
        let truth = &self.truth[at];
        self.standby[at] = std::mem::replace(
            &mut self.seen[at],
            Seen {
                pod: truth.pod,
                ready: truth.ready,
                out_of_service: truth.out_of_service,
                in_use: truth.in_use,
                listed: truth.listed,
                attachment: truth.attachment.clone(),
            },
        );
    }

    fn happens(&mut self, at: usize, event: Event) {
        let truth = &mut self.truth[at];
        match event {
            Event::PodComesOrEnds => truth.pod ^= true,
            Event::Kubelet => self.kubelet(at),
            Event::Attacher(works) => self.attacher(at, works),
            Event::Admin => truth.attachment.iter_mut().for_each(|one| one.deleting = true),
            Event::ReadyOrNot => truth.ready ^= true,
            Event::OutOfService => {
                truth.out_of_service ^= true;
                if truth.out_of_service {
                    (truth.ready, truth.mounted, truth.pod) = (false, false, false);
                }
            }
            Event::CacheMoves => self.look(at),
            Event::Time(seconds) => self.now += Duration::from_secs(seconds.into()),
            Event::Failover => {
                self.memories.fill(Memory::default());
                for at in 0..NODES {
                    // The cache of attachments, and for disks that of nodes, is compared with the API server before the
                    // first write of a term.
                    let truth = &self.truth[at];
                    let (attachment, standby) = (truth.attachment.clone(), self.standby[at].clone());
                    self.seen[at] = Seen { attachment, ..standby };
                    if self.volume.is_disk() {
                        self.seen[at].listed = truth.listed;
                    }
                }
            }
            Event::Sync(luck) => self.sync(luck),
        }
        self.check();
    }

    /// The kubelet reports what it is about to use, and then mounts what the node lists.
    fn kubelet(&mut self, at: usize) {
        let truth = &mut self.truth[at];
        if !truth.ready || truth.out_of_service {
            return;
        }
        match (truth.pod, truth.in_use, truth.mounted) {
            (true, false, _) => truth.in_use = true,
            (true, true, _) => truth.mounted |= truth.listed,
            (false, _, true) => truth.mounted = false,
            (false, _, false) => {
                (truth.in_use, truth.forced) = (false, truth.forced && truth.attachment.is_some())
            }
        }
    }

    fn attacher(&mut self, at: usize, works: bool) {
        let truth = &mut self.truth[at];
        let Some(one) = &mut truth.attachment else { return };
        match (one.deleting, works) {
            (false, true) if !one.attached => (one.attached, one.attach_error) = (true, None),
            (false, false) if !one.attached => one.attach_error = Some("no".into()),
            (true, true) if one.attached => one.attached = false,
            (true, true) => {
                truth.attachment = None;
                truth.forced = false;
            }
            (true, false) => one.detach_error = Some("no".into()),
            _ => {}
        }
    }

    fn sync(&mut self, mut luck: u32) {
        let sites = (0..NODES).map(|at| {
            let seen = &self.seen[at];
            let node = Node {
                managed: true,
                ready: seen.ready,
                out_of_service: seen.out_of_service,
                listed: seen.listed,
            };
            let site = Site {
                users: seen.pod.then(|| user(&format!("ns/p{at}"))).into_iter().collect(),
                node: Some(node),
                in_use: seen.in_use,
                attachment: seen.attachment.clone(),
                memory: self.memories[at].clone(),
                ..Site::default()
            };
            (ArcStr::from(at.to_string()), site)
        });
        let (now, exclusive, volume) = (self.now, self.exclusive, self.volume.clone());
        let mut observed = Observed { now, exclusive, volume, ..observed([]) };
        observed.sites = sites.collect();
        observed.settle();
        for round in 0.. {
            assert!(round < 50, "the plan never ends: {observed:#?}");
            let Plan::Act(batch) = plan(&observed) else { break };
            for step in batch.steps {
                let result = self.act(&observed, &step, luck & 3);
                luck >>= 2;
                observed.absorb(step, result);
                self.check();
            }
        }
        let mut memories = observed.memories();
        for at in 0..NODES {
            self.memories[at] = memories.remove(&*at.to_string()).unwrap_or_default();
        }
    }

    fn act(&mut self, observed: &Observed, step: &Step, luck: u32) -> StepResult<Outcome> {
        let at: usize = step.node.parse().unwrap();
        let site = &observed.sites[&step.node];
        if luck == 2 {
            return fails(step);
        }
        let truth = &mut self.truth[at];
        let outcome = match &step.action {
            Action::List | Action::Unlist => {
                truth.listed = step.action == Action::List;
                self.seen[at].listed = truth.listed;
                Outcome::Done
            }
            Action::UnlistUnused if truth.in_use => Outcome::Use { in_use: true, listed: truth.listed },
            Action::UnlistUnused => {
                assert!(!truth.mounted, "node {at} uses the disk: {truth:?}");
                (truth.listed, self.seen[at].listed) = (false, false);
                Outcome::Done
            }
            Action::CheckUse => Outcome::Use { in_use: truth.in_use, listed: truth.listed },
            Action::Probe => Outcome::Found(truth.attachment.clone()),
            Action::Create(_) => {
                assert!(truth.attachment.is_none() || self.seen[at].attachment.is_none());
                self.created += 1;
                let uid = Uid::from(&*self.created.to_string());
                truth.attachment.get_or_insert(Attachment { uid, ..Attachment::default() });
                self.seen[at].attachment = truth.attachment.clone();
                Outcome::Found(truth.attachment.clone())
            }
            Action::Delete(uid) => {
                assert!(!truth.mounted || site.memory.forced, "node {at} uses the volume: {truth:?}");
                if truth.attachment.as_ref().is_none_or(|one| one.uid != *uid) {
                    self.seen[at].attachment = truth.attachment.clone();
                    Outcome::Found(None)
                } else {
                    truth.attachment.iter_mut().for_each(|one| one.deleting = true);
                    self.seen[at].attachment = truth.attachment.clone();
                    Outcome::Found(truth.attachment.clone())
                }
            }
            Action::Force(_) => {
                assert!(!self.seen[at].ready || self.seen[at].out_of_service, "node {at} is well");
                truth.forced = truth.attachment.is_some() || (observed.volume.is_disk() && truth.mounted);
                Outcome::Done
            }
            Action::Announce | Action::Fail(_) | Action::Refuse(_) => Outcome::Done,
        };
        if luck == 3 { fails(step) } else { StepResult::Done(outcome) }
    }

    fn check(&self) {
        let is_disk = self.volume.is_disk();
        let has = |truth: &Truth| match &truth.attachment {
            Some(one) => one.attached,
            None => is_disk && truth.mounted,
        };
        let holds = |truth: &&Truth| has(truth) && !truth.forced;
        let holders = self.truth.iter().filter(holds).count();
        assert!(!self.exclusive || holders <= 1, "attached to {holders} nodes: {:#?}", self.truth);
    }

    /// Everything works from now on. Checks what comes of it.
    fn settles(&mut self) {
        for truth in &mut self.truth {
            (truth.ready, truth.out_of_service) = (true, false);
        }
        for _ in 0..40 {
            for at in 0..NODES {
                self.kubelet(at);
                self.attacher(at, true);
                self.look(at);
            }
            self.sync(0);
            self.check();
            self.now += Duration::from_secs(123);
        }
        let wanted = self.truth.iter().filter(|truth| truth.pod).count();
        let served = self.truth.iter().filter(|truth| truth.pod && truth.mounted && truth.listed).count();
        let expected = if self.exclusive { wanted.min(1) } else { wanted };
        assert_eq!(served, expected, "{:#?}", self.truth);
        for truth in self.truth.iter().filter(|truth| !truth.pod) {
            assert!(truth.attachment.is_none() && !truth.listed && !truth.in_use, "{truth:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_any_order_of_events_a_volume_is_safe_and_in_the_end_where_it_is_wanted(
        is_disk: bool,
        exclusive: bool,
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new(if is_disk { disk() } else { volume() }, exclusive);
        events.into_iter().for_each(|(at, event)| world.happens(at, event));
        world.settles();
    }
}
