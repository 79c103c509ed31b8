//! What the controller reads of Deployments, ReplicaSets and pods.

use steersman_api::LabelSelector;
use steersman_api::selector::InvalidSelector;
use steersman_controller::children::Owns;
use steersman_informer::keep;
use steersman_informer::wire::Group;
use steersman_kinds::deployment::{
    Deployment, DeploymentAnnotations, DeploymentSpec, DeploymentStatus, DeploymentTemplate,
};
use steersman_kinds::pod::{Phase, Pod};
use steersman_kinds::replica_set::{
    ReplicaSet, ReplicaSetAnnotations, ReplicaSetSpec, ReplicaSetStatus, ReplicaSetTemplate,
};

keep! {
    /// What the controller reads of a Deployment.
    pub struct SyncedDeployment: Deployment =>
        DeploymentSpec, DeploymentTemplate, DeploymentAnnotations, DeploymentStatus
}

keep! {
    /// What the controller reads of a ReplicaSet.
    pub struct DeploymentReplicaSet: ReplicaSet =>
        ReplicaSetSpec, ReplicaSetTemplate, ReplicaSetAnnotations, ReplicaSetStatus
}

keep! {
    /// What the controller reads of a pod, for the strategy `Recreate`.
    pub struct DeploymentPod: Pod => Phase
}

impl Owns for SyncedDeployment {
    type Child = DeploymentReplicaSet;

    fn selector(owner: &Deployment) -> Result<LabelSelector, InvalidSelector> {
        let spec = DeploymentSpec::of(owner).expect("the groups that the controller reads must be kept");
        spec.selector.clone().unwrap_or_default().to_selector()
    }

    fn is_untouched(owner: &Deployment) -> bool {
        let status = DeploymentStatus::of(owner).expect("the groups that the controller reads must be kept");
        status.observed_generation == 0
    }
}
