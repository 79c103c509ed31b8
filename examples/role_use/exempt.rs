//! The rights that the proof does not ask for, each with its reason. There is no other list.

use std::fmt;

use crate::proof::Declared;

/// A rule with a wildcard, which the requests of tests can never use as a whole. Each of its verbs must be used all the same.
pub(crate) struct Wildcard {
    pub(crate) controller: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) why: &'static str,
}

impl Wildcard {
    pub(crate) fn is_about(&self, right: &Declared) -> bool {
        (self.controller, self.resource) == (right.controller, right.resource)
    }
}

/// The rules with wildcards.
pub(crate) const WILDCARDS: [Wildcard; 6] = [
    Wildcard {
        controller: "garbage-collector-controller",
        resource: "*",
        why: "objects of any kind may have owners or be owners",
    },
    Wildcard {
        controller: "namespace-controller",
        resource: "*",
        why: "a namespace may hold objects of any kind",
    },
    Wildcard {
        controller: "resourcequota-controller",
        resource: "*",
        why: "a quota may count objects of any kind",
    },
    Wildcard {
        controller: "horizontal-pod-autoscaler-controller",
        resource: "*/scale",
        why: "an autoscaler may have a target of any kind",
    },
    Wildcard {
        controller: "horizontal-pod-autoscaler-controller",
        resource: "*",
        why: "users name the metrics of custom.metrics.k8s.io and external.metrics.k8s.io",
    },
    Wildcard {
        controller: "disruption-controller",
        resource: "*/scale",
        why: "a budget may select pods whose owners are of any kind",
    },
];

/// Why a cache's right to `list` is unused where its right to `watch` is used.
pub(crate) const LISTS: &str = "caches begin with a watch that sends all objects, and list only where the API server does not have that feature";

/// Rights that no request uses.
pub(crate) struct Unused {
    /// The controllers; empty: all that have such a right.
    pub(crate) controllers: &'static [&'static str],
    /// The resource; with `*/`, all resources that have the subresource.
    pub(crate) resource: &'static str,
    /// The verbs; empty: all.
    pub(crate) verbs: &'static [&'static str],
    pub(crate) why: &'static str,
}

impl Unused {
    pub(crate) fn is_about(&self, right: &Declared) -> bool {
        let resource = self.resource == right.resource
            || self.resource.strip_prefix("*/").is_some_and(|wanted| {
                right.resource.split_once('/').is_some_and(|(_, subresource)| subresource == wanted)
            });
        resource
            && (self.controllers.is_empty() || self.controllers.contains(&right.controller))
            && (self.verbs.is_empty() || self.verbs.contains(&right.verb))
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[&str], all: &str| match items {
            [] => all.to_owned(),
            items => items.join(", "),
        };
        let (verbs, controllers) = (list(self.verbs, "all verbs"), list(self.controllers, "all controllers"));
        write!(f, "{verbs} on {} for {controllers}", self.resource)
    }
}

/// Why a controller's right to `get` is unused.
const IN_DOUBT: &str = "the controller reads only after a write whose outcome is unknown, or if a cache lacks what the API server has; \
                        tests make the embedded API server fail like that";

/// The rights that no request uses.
pub(crate) const UNUSED: [Unused; 21] = [
    Unused {
        controllers: &[],
        resource: "*/finalizers",
        verbs: &["update"],
        why: "the admission plugin OwnerReferencesPermissionEnforcement, which is off by default, asks for it when an object is \
              made whose owner must not go before it",
    },
    Unused {
        controllers: &[],
        resource: "*/restricted",
        verbs: &["create"],
        why: "OpenShift's admission plugin RestrictedEndpointsAdmission asks for it when addresses of the cluster's own ranges \
              are written",
    },
    Unused {
        controllers: &["certificatesigningrequest-approving-controller"],
        resource: "signers",
        verbs: &["approve"],
        why: "the admission plugin CertificateApproval asks for it during the update of the subresource approval",
    },
    Unused {
        controllers: &["certificatesigningrequest-signing-controller"],
        resource: "signers",
        verbs: &["sign"],
        why: "the admission plugin CertificateSigning asks for it during the update of the subresource status",
    },
    Unused {
        controllers: &["kube-apiserver-serving-clustertrustbundle-publisher-controller"],
        resource: "signers",
        verbs: &["attest"],
        why: "the admission plugin ClusterTrustBundleAttest asks for it when the bundle is written",
    },
    Unused {
        controllers: &["clusterrole-aggregation-controller"],
        resource: "clusterroles",
        verbs: &["escalate"],
        why: "the API server asks for it when a role gets rights that the controller lacks",
    },
    Unused {
        controllers: &["resourceclaim-controller"],
        resource: "resourceclaims/binding",
        verbs: &[],
        why: "the API server asks for it during the write of a status that drops an allocation or a reservation, with the verb \
              of that write",
    },
    Unused {
        controllers: &["namespace-controller"],
        resource: "*",
        verbs: &["delete"],
        why: "only kinds of aggregated API servers lack deletecollection, and the tests have none",
    },
    Unused {
        controllers: &["endpoints-controller"],
        resource: "endpoints",
        verbs: &["delete"],
        why: "the API server deletes the Endpoints of a service with the service, and leaves them only if it fails between the two",
    },
    Unused { controllers: &["cronjob-controller"], resource: "cronjobs", verbs: &["get"], why: IN_DOUBT },
    Unused {
        controllers: &["horizontal-pod-autoscaler-controller"],
        resource: "horizontalpodautoscalers",
        verbs: &["get"],
        why: IN_DOUBT,
    },
    Unused {
        controllers: &["service-cidr-controller"],
        resource: "servicecidrs",
        verbs: &["get"],
        why: IN_DOUBT,
    },
    Unused {
        controllers: &["persistentvolume-attach-detach-controller"],
        resource: "volumeattachments",
        verbs: &["get"],
        why: IN_DOUBT,
    },
    Unused { controllers: &["endpoints-controller"], resource: "endpoints", verbs: &["get"], why: IN_DOUBT },
    Unused {
        controllers: &["ephemeral-volume-controller"],
        resource: "persistentvolumeclaims",
        verbs: &["get"],
        why: IN_DOUBT,
    },
    Unused {
        controllers: &["resourceclaim-controller"],
        resource: "resourceclaims",
        verbs: &["get"],
        why: IN_DOUBT,
    },
    Unused {
        controllers: &["daemonset-controller", "statefulset-controller"],
        resource: "controllerrevisions",
        verbs: &["get"],
        why: "the controller reads a revision only if it can't create it because another one has its name, which is a hash",
    },
    Unused {
        controllers: &["resourceclaim-controller"],
        resource: "podgroups",
        verbs: &["get"],
        why: IN_DOUBT,
    },
    Unused {
        controllers: &["podcertificaterequest-cleaner-controller"],
        resource: "podcertificaterequests",
        verbs: &["delete"],
        why: "requests are deleted when they are 15 minutes old, which tests on a real API server do not wait for",
    },
    Unused {
        controllers: &["pod-garbage-collector-controller"],
        resource: "nodes",
        verbs: &["get"],
        why: "a node is read once the cache has lacked it for 40 s, which tests on a real API server do not wait for",
    },
    Unused {
        controllers: &["pod-garbage-collector-controller"],
        resource: "pods/status",
        verbs: &["patch"],
        why: "only pods of such nodes, and of nodes out of service, are marked before they are deleted",
    },
];
