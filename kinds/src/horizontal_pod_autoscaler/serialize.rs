//! The JSON of an autoscaler's status, as Go writes it.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use steersman_api::ArcStr;

use super::{
    ContainerResourceMetricStatus, ExternalMetricStatus, MetricIdentifier, MetricStatus, MetricValue,
    ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus, TargetReference,
};
use crate::selector::{SelectorRequirement, SelectorSpec};

/// Implements [`Serialize`] for a struct: the members that are always there, and then those that are there if set.
macro_rules! object {
    ($($type:ty { $($name:literal: $field:ident),* ; $($optional:literal: $set:ident),* })*) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $( map.serialize_entry($name, &self.$field)?; )*
                $( if let Some(value) = &self.$set {
                    map.serialize_entry($optional, value)?;
                } )*
                map.end()
            }
        }
    )* };
}

object! {
    MetricStatus {
        "type": kind;
        "object": object, "pods": pods, "resource": resource, "external": external,
        "containerResource": container_resource
    }
    ObjectMetricStatus { "metric": metric, "current": current, "describedObject": described_object; }
    PodsMetricStatus { "metric": metric, "current": current; }
    ResourceMetricStatus { "name": name, "current": current; }
    ContainerResourceMetricStatus { "name": name, "current": current, "container": container; }
    ExternalMetricStatus { "metric": metric, "current": current; }
    MetricIdentifier { "name": name; "selector": selector }
    MetricValue {
        ; "value": value, "averageValue": average_value, "averageUtilization": average_utilization
    }
}

impl Serialize for TargetReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("name", &self.name)?;
        if !self.api_version.is_empty() {
            map.serialize_entry("apiVersion", &self.api_version)?;
        }
        map.end()
    }
}

impl Serialize for SelectorSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.match_labels.is_empty() {
            let labels: BTreeMap<&ArcStr, &ArcStr> = self.match_labels.iter().collect();
            map.serialize_entry("matchLabels", &labels)?;
        }
        if !self.match_expressions.is_empty() {
            let expressions: Vec<_> = self.match_expressions.iter().map(Expression).collect();
            map.serialize_entry("matchExpressions", &expressions)?;
        }
        map.end()
    }
}

struct Expression<'a>(&'a SelectorRequirement);

impl Serialize for Expression<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &self.0.key)?;
        map.serialize_entry("operator", &self.0.operator)?;
        if !self.0.values.is_empty() {
            map.serialize_entry("values", &self.0.values)?;
        }
        map.end()
    }
}
