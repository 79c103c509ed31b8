//! The parts of a pod's spec that say on which nodes the pod may run.

use steersman_api::ArcStr;
use steersman_api::meta::LabelMap;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

projection! {
    /// A pod template of which only the rules of scheduling are cached.
    pub struct ScheduledTemplate {
        /// The rules of scheduling.
        pub spec: NodeRules = 2 "spec",
    }

    /// The fields of a pod's spec that say on which nodes the pod may run.
    pub struct NodeRules {
        /// Labels that a node must have, with their values.
        pub node_selector: LabelMap = 7 "nodeSelector",
        /// The node's name, if only one node will do. Otherwise empty.
        pub node_name: Interned = 10 "nodeName",
        /// Whether the pod uses the node's network.
        pub host_network: bool = 11 "hostNetwork",
        /// Which nodes the pod requires or prefers.
        pub affinity: Affinity = 18 "affinity",
        /// The taints that do not keep the pod away from a node.
        pub tolerations: Vec<Toleration> = 22 "tolerations",
    }

    /// A pod's affinity, of which only the required nodes are cached.
    pub struct Affinity {
        /// The affinity to nodes.
        pub node: NodeAffinity = 1 "nodeAffinity",
    }

    /// A pod's affinity to nodes, of which only the required nodes are cached.
    pub struct NodeAffinity {
        /// The nodes on which the pod can be scheduled. `None`: all.
        pub required: Option<NodeSelector> = 1 "requiredDuringSchedulingIgnoredDuringExecution",
    }

    /// Selects the nodes that any of the terms selects. Without terms it selects no node.
    pub struct NodeSelector {
        /// The terms.
        pub terms: Vec<NodeSelectorTerm> = 1 "nodeSelectorTerms",
    }

    /// Selects the nodes that meet all requirements. Without requirements it selects no node.
    pub struct NodeSelectorTerm {
        /// Requirements of the node's labels.
        pub match_expressions: Vec<NodeSelectorRequirement> = 1 "matchExpressions",
        /// Requirements of the node's fields. The only field is `metadata.name`.
        pub match_fields: Vec<NodeSelectorRequirement> = 2 "matchFields",
    }

    /// A requirement of one label or field of a node.
    pub struct NodeSelectorRequirement {
        /// The label's key, or the field.
        pub key: Interned = 1 "key",
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`. Fields know the first two only.
        pub operator: Interned = 2 "operator",
        /// The values for `In` and `NotIn`; the number for `Gt` and `Lt`.
        pub values: Vec<ArcStr> = 3 "values",
    }

    /// A toleration of the taints that match it.
    #[derive(Eq, Hash)]
    pub struct Toleration {
        /// The key of the taints. Empty: any.
        pub key: Interned = 1 "key",
        /// `Exists`, `Equal`, `Lt` or `Gt`. Empty means `Equal`.
        pub operator: Interned = 2 "operator",
        /// The value to which the operator compares the taint's.
        pub value: Interned = 3 "value",
        /// The effect of the taints. Empty: any.
        pub effect: Interned = 4 "effect",
        /// For how many seconds the pod tolerates a taint with the effect `NoExecute`. `None`: for ever.
        pub seconds: Option<i64> = 5 "tolerationSeconds",
    }
}

/// The field of a node's name, for [`NodeSelectorTerm::match_fields`].
pub const NODE_NAME: &str = "metadata.name";

/// The only node on which a pod's affinity lets the pod run, as the DaemonSet controller pins pods to nodes. Empty if the
/// affinity names no single node in this way.
///
/// Declare it as the field `affinity` in a projection of a pod's spec. It keeps nothing else of the affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedNode(pub Interned);

impl PinnedNode {
    /// The first requirement that the name of the node is in a list decides, as in upstream's `GetTargetNodeName`.
    fn of(affinity: &Affinity) -> Self {
        let terms = affinity.node.required.iter().flat_map(|required| &required.terms);
        let mut by_name = terms
            .flat_map(|term| &term.match_fields)
            .filter(|field| field.key == NODE_NAME && field.operator == "In");
        match by_name.next().map(|field| &*field.values) {
            Some([name]) => Self(Interned::from(name.as_str())),
            _ => Self::default(),
        }
    }
}

impl FieldValue for PinnedNode {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pinned(terms: Value) -> String {
        let required = json!({"nodeSelectorTerms": terms});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        PinnedNode::from_json(affinity).unwrap().0.to_string()
    }

    #[test]
    fn the_first_requirement_of_a_name_pins_a_pod() {
        let name = |values: &[&str]| json!({"key": NODE_NAME, "operator": "In", "values": values});
        let not = json!({"key": NODE_NAME, "operator": "NotIn", "values": ["c"]});
        let label = json!({"key": NODE_NAME, "operator": "In", "values": ["c"]});
        for (terms, node) in [
            (json!([{"matchFields": [name(&["a"])]}]), "a"),
            (json!([{"matchFields": [not, name(&["a"])]}, {"matchFields": [name(&["b"])]}]), "a"),
            (json!([{"matchExpressions": [label]}, {"matchFields": [name(&["b"])]}]), "b"),
            (json!([{"matchFields": [name(&["a", "b"])]}, {"matchFields": [name(&["c"])]}]), ""),
            (json!([{"matchExpressions": [label]}]), ""),
            (json!([]), ""),
        ] {
            assert_eq!(pinned(terms.clone()), node, "{terms}");
        }
    }
}
