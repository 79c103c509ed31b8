//! The cached fields of nodes, in groups.

use std::collections::BTreeMap;

use serde::Deserialize;
use steersman_api::{Quantity, Time};
use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::Error;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::condition::{Picked, Ready};
use super::node_conditions::NodeConditions;
use super::node_volumes::{Attaching, NodeVolumes};
use super::object_ttl::Seconds;
use super::pod_cidrs::PodCidrs;

projection! {
    /// The node's taints, which keep pods away from it.
    pub struct Taints {
        /// The taints, in no particular order.
        pub taints: Vec<Taint> = 5 "taints",
    }

    /// A taint.
    #[derive(Eq)]
    pub struct Taint {
        /// The taint's key, such as `node.kubernetes.io/out-of-service`.
        pub key: Interned = 1 "key",
        /// The taint's value, with which tolerations compare theirs.
        pub value: Interned = 2 "value",
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        pub effect: Interned = 3 "effect",
        /// When the taint was added, if the component that added it says so.
        pub time_added: Option<Time> = 4 "timeAdded",
    }

    /// Whether the node accepts new pods.
    pub struct Cordon {
        /// Whether `kubectl cordon` keeps new pods away.
        pub unschedulable: bool = 4 "unschedulable",
    }

    /// How the node fares.
    pub struct Health {
        /// Its conditions.
        pub conditions: NodeConditions = 4 "conditions",
    }

    /// Whether the node is ready to run pods, as its kubelet reports.
    pub struct Readiness {
        /// The condition `Ready`. A node without it is not ready.
        pub ready: Picked<Ready> = 4 "conditions",
    }

    /// What the node has for pods.
    pub struct Allocatable {
        /// The processor time.
        pub cpu: Cpu = 2 "allocatable",
    }

    /// How long the node's kubelet may cache the objects that its pods use.
    pub struct ObjectTtl {
        /// The time in seconds.
        pub seconds: Seconds = 12 "annotations",
    }
}

impl Taints {
    /// Whether a taint has this key, as upstream's `TaintKeyExists`.
    pub fn has(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }
}

/// The processor time in a list of resources, in thousandths of a processor, rounded up. Zero if the list has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu(pub i64);

impl FieldValue for Cpu {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (mut resource, mut quantity) = ("", Quantity::default());
        let mut entry = field.message()?;
        while let Some(field) = entry.field()? {
            match field.number {
                1 => resource = field.text()?,
                2 if resource == "cpu" => quantity.merge(field)?,
                _ => {}
            }
        }
        if resource == "cpu" {
            self.0 = quantity.milli_value();
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quantities = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
        let Some(cpu) = quantities.get("cpu") else { return Ok(Self::default()) };
        Quantity::deserialize(cpu).map(|cpu| Self(cpu.milli_value())).map_err(D::Error::custom)
    }
}

kind! {
    /// A node.
    pub struct Node("", "v1", "nodes") {
        taints: Taints = 2 "spec",
        cordon: Cordon = 2 "spec",
        readiness: Readiness = 3 "status",
        health: Health = 3 "status",
        allocatable: Allocatable = 3 "status",
        object_ttl: ObjectTtl = 1 "metadata",
        pod_cidrs: PodCidrs = 2 "spec",
        volumes: NodeVolumes = 3 "status",
        attaching: Attaching = 1 "metadata",
    }
}
