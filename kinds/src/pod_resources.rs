//! What a pod asks for and what it has: the resources of its containers, and what else decides which quotas count it.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

use super::condition::{ConditionType, ReasonOf};
use super::resource_list::{ResourceList, Resources};
use super::selector::SelectorSpec;
use super::shared::pooled;

projection! {
    /// The fields of a pod's spec that quotas look at.
    #[derive(Eq, Hash)]
    pub struct PodDemand {
        /// The containers.
        pub containers: Vec<ContainerDemand> = 2 "containers",
        /// The init containers, sidecars included.
        pub init_containers: Vec<ContainerDemand> = 20 "initContainers",
        /// What running the pod costs beside its containers.
        pub overhead: ResourceList = 32 "overhead",
        /// What the pod as a whole asks for. `None` if the spec does not say.
        pub resources: Option<Resources> = 40 "resources",
        /// After how many seconds the pod must end. `None`: never.
        pub active_deadline_seconds: Option<i64> = 5 "activeDeadlineSeconds",
        /// Whether the pod's affinity looks at pods of other namespaces.
        pub affinity: CrossNamespace = 18 "affinity",
        /// The name of the pod's priority class. May be empty.
        pub priority_class: Interned = 24 "priorityClassName",
    }

    /// What a container asks for.
    #[derive(Eq, Hash)]
    pub struct ContainerDemand {
        /// The container's name.
        pub name: Interned = 1 "name",
        /// The requests and the limits.
        pub resources: Resources = 8 "resources",
        /// `Always` for sidecars.
        pub restart_policy: Interned = 24 "restartPolicy",
    }

    /// The fields of a pod's status that quotas look at.
    #[derive(Eq, Hash)]
    pub struct PodAllotment {
        /// What the containers have.
        pub containers: Allotments = 8 "containerStatuses",
        /// What the init containers have, sidecars included.
        pub init_containers: Allotments = 10 "initContainerStatuses",
        /// Whether the node can't give the pod what its spec asks for since it was resized.
        pub resize: ResizeInfeasible = 2 "conditions",
        /// `Guaranteed`, `Burstable` or `BestEffort`. Empty if the API server has not said.
        pub qos_class: Interned = 9 "qosClass",
        /// The claim that stands for the pod's extended resources. `None` if there is none, or none yet.
        pub extended_claim: Option<ExtendedClaim> = 18 "extendedResourceClaimStatus",
    }

    /// What a container has.
    #[derive(Eq, Hash)]
    pub struct ContainerAllotment {
        /// The container's name.
        pub name: Interned = 1 "name",
        /// What the node has set aside for the container.
        pub allocated: ResourceList = 10 "allocatedResources",
        /// What the running container has. `None` if the kubelet has not said.
        pub resources: Option<Resources> = 11 "resources",
    }

    /// The claim that stands for a pod's extended resources.
    #[derive(Eq, Hash)]
    pub struct ExtendedClaim {
        /// The name of the ResourceClaim.
        pub claim: ArcStr = 2 "resourceClaimName",
    }

    struct Affinity {
        pub near: Terms = 2 "podAffinity",
        pub far: Terms = 3 "podAntiAffinity",
    }

    struct Terms {
        pub required: Vec<Term> = 1 "requiredDuringSchedulingIgnoredDuringExecution",
        pub preferred: Vec<Weighted> = 2 "preferredDuringSchedulingIgnoredDuringExecution",
    }

    struct Weighted {
        pub term: Term = 2 "podAffinityTerm",
    }

    struct Term {
        pub namespaces: Vec<ArcStr> = 2 "namespaces",
        pub namespace_selector: Option<SelectorSpec> = 4 "namespaceSelector",
    }
}

pooled!(PodDemand, PodAllotment);

impl ContainerDemand {
    /// Whether the container is a sidecar, given that it is an init container.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == "Always"
    }
}

/// Whether a pod's affinity, or anti-affinity, has a term with namespaces or a namespace selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CrossNamespace(pub bool);

impl CrossNamespace {
    fn of(affinity: &Affinity) -> Self {
        let crosses = |term: &Term| !term.namespaces.is_empty() || term.namespace_selector.is_some();
        let any = |terms: &Terms| {
            terms.required.iter().any(crosses)
                || terms.preferred.iter().any(|weighted| crosses(&weighted.term))
        };
        Self(any(&affinity.near) || any(&affinity.far))
    }
}

impl FieldValue for CrossNamespace {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut affinity = Affinity::default();
        affinity.merge(field)?;
        *self = Self::of(&affinity);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Affinity::from_json(deserializer).map(|affinity| Self::of(&affinity))
    }
}

/// What containers have, of those whose resources the kubelet has reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Allotments(pub Vec<ContainerAllotment>);

impl FieldValue for Allotments {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut container = ContainerAllotment::default();
        container.merge(field)?;
        if container.resources.is_some() {
            self.0.reserve_exact(1);
            self.0.push(container);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut containers = Vec::<ContainerAllotment>::from_json(deserializer)?;
        containers.retain(|container| container.resources.is_some());
        containers.shrink_to_fit();
        Ok(Self(containers))
    }
}

/// `PodResizePending`: the kubelet has not resized the pod yet.
#[derive(Clone, Copy, Debug, Default)]
struct ResizePending;

impl ConditionType for ResizePending {
    const TYPE: &'static str = "PodResizePending";
}

/// Whether the first condition `PodResizePending` has the reason `Infeasible`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResizeInfeasible {
    /// There is no such condition.
    #[default]
    NotPending,
    /// The resize is pending for another reason.
    No,
    /// The resize is infeasible.
    Yes,
}

impl ResizeInfeasible {
    fn of(pending: &ReasonOf<ResizePending>) -> Self {
        match &pending.reason {
            None => Self::NotPending,
            Some(reason) if *reason == "Infeasible" => Self::Yes,
            Some(_) => Self::No,
        }
    }
}

impl FieldValue for ResizeInfeasible {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut pending = ReasonOf::default();
        pending.merge(field)?;
        if *self == Self::NotPending {
            *self = Self::of(&pending);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReasonOf::from_json(deserializer).map(|pending| Self::of(&pending))
    }
}
