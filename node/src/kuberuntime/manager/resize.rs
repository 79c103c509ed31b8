//! Changing the resources of what runs.
//!
//! Processor time and memory of running containers, and of the pod as a whole. What can't be done is refused with a clear
//! error before anything is changed: to give pod or containers less memory than they use.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tracing::debug;

use super::convert::resources_of;
use super::records::uid;
use super::sandbox::Sandbox;
use super::spec::container_spec;
use super::{Kuberuntime, off_thread};
use crate::aggregate::aggregate;
use crate::allocation::PodResources;
use crate::cgroups::PodCgroups;
use crate::container::{ContainerStatus, PodStatus};
use crate::cri::v1;
use crate::kuberuntime::actions::PodActions;
use crate::kuberuntime::actions::resize::ContainerToUpdate;
use crate::kuberuntime::container_config::{container_resources, sandbox_overhead, sandbox_resources};
use crate::pod_text::pod_text;
use crate::runtime::Error;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

impl Kuberuntime {
    /// Gives the pod and its containers what they are to have: first the pod gets the larger of what it has and is to have
    /// of everything, then its containers change, then the pod gets what it is to have. So no container has more than its
    /// pod in between.
    ///
    /// Fails, in words, with the first step that does; what was changed before stays, and the next sync goes on from there.
    pub(super) async fn resize(
        &self,
        pod: &Pod,
        status: &PodStatus,
        sandbox: &Sandbox,
        actions: &PodActions,
    ) -> Result<(), String> {
        let updates = &actions.containers_to_update;
        self.check_memory(pod, &updates.memory).await?;
        let whole = actions.update_pod_resources || actions.update_pod_level_resources;
        let cpu_alone = updates.memory.is_empty() && !whole;
        self.tell_sandbox(pod, sandbox, if cpu_alone { CPU } else { MEMORY }).await?;
        let mut had = self.records.given(&uid(pod));
        had.containers.retain(|name, _| status.running().any(|running| running.name == *name));
        let between = larger(pod, &had);
        self.with_cgroups(move |cgroups| cgroups.ensure(&between))
            .await
            .map_err(|error| error.to_string())?;
        for (updates, resource) in [(&updates.memory, MEMORY), (&updates.cpu, CPU)] {
            for update in updates {
                self.update_container(pod, update, resource).await?;
            }
        }
        let wanted = pod.clone();
        self.with_cgroups(move |cgroups| cgroups.resize(&wanted)).await.map_err(|error| error.to_string())?;
        self.records.set_actuated_pod(pod);
        self.save_given().await
    }

    /// Whether pod and containers may get the memory that they are to have: not less than they use. All that may not are
    /// told.
    ///
    /// Upstream leaves out the pod where no container changes with it; version 2 of control groups would then kill.
    async fn check_memory(&self, pod: &Pod, updates: &[ContainerToUpdate]) -> Result<(), String> {
        let mut wrong = Vec::new();
        let asked = pod.clone();
        let of_pod = self.with_cgroups(move |cgroups| cgroups.memory(&asked)).await;
        match (of_pod.lowered(), of_pod.used) {
            (Some(_), None) => wrong.push("missing pod memory usage".to_owned()),
            (Some(limit), Some(used)) if used >= limit => wrong
                .push(format!("attempting to set pod memory limit ({limit}) below current usage ({used})")),
            _ => {}
        }
        for update in updates {
            let (limit, had) = (update.desired.memory_limit, update.current.memory_limit);
            if limit == 0 || (had != 0 && limit >= had) {
                continue;
            }
            let name = update.spec.of(pod).map(|container| container.name.as_str()).unwrap_or_default();
            let stats = self.runtime.container_stats(&update.id.id).await.map_err(|error| {
                debug!(container = %update.id, %error, "a container's memory can't be read");
                format!("unable to read memory usage for pod {:?}", pod_text(pod))
            })?;
            let used = stats.memory.and_then(|memory| memory.usage_bytes.or(memory.working_set_bytes));
            match used.map(|used| used.value) {
                None => wrong.push(format!("missing container {name:?} memory usage")),
                Some(used) if i64::try_from(used).is_ok_and(|used| used < limit) => {}
                Some(used) => wrong.push(format!(
                    "attempting to set container {name:?} memory limit ({limit}) below current usage ({used})"
                )),
            }
        }
        aggregate(wrong).map_or(Ok(()), |wrong| Err(format!("cannot decrease memory limits: {wrong}")))
    }

    /// Tells the runtime what the pod as a whole is to have, because of `resource`. Runtimes that don't want to know are
    /// left alone.
    async fn tell_sandbox(&self, pod: &Pod, sandbox: &Sandbox, resource: &str) -> Result<(), String> {
        let request = v1::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: sandbox.id.clone(),
            overhead: Some(sandbox_overhead(pod, &self.options.node)),
            resources: Some(sandbox_resources(pod, &self.options.node)),
        };
        match self.runtime.update_pod_sandbox_resources(&request).await {
            // Some of containerd's versions say it so.
            Err(error) if error.is_unimplemented() || error.message().contains("not implemented") => Ok(()),
            Err(error) => Err(format!(
                "failed to notify runtime for UpdatePodSandboxResources (resource={resource}); resize rejected: \
                 updatePodSandboxResources failed for sanboxID {:?}: {error}",
                sandbox.id
            )),
            Ok(_) => Ok(()),
        }
    }

    async fn with_cgroups<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn PodCgroups) -> T + Send + 'static,
    ) -> T {
        let cgroups = Arc::clone(&self.cgroups);
        off_thread(move || work(&*cgroups)).await
    }

    /// Changes one resource of one container, and leaves the other as it is.
    async fn update_container(
        &self,
        pod: &Pod,
        update: &ContainerToUpdate,
        resource: &str,
    ) -> Result<(), String> {
        let Some(container) = update.spec.of(pod) else {
            return Err(format!("container {} is not in the pod's spec", update.id));
        };
        let uid = uid(pod);
        let had = self.records.actuated(&uid, &container.name).unwrap_or_default();
        let given = with_resource(&had, container.resources.as_ref(), resource);
        let changed = Container { resources: Some(given.clone()), ..container.clone() };
        let resources = v1::ContainerResources {
            linux: Some(container_resources(pod, &changed, &self.options.node)),
            windows: None,
        };
        let updated = self.runtime.update_container_resources(&update.id.id, &resources).await;
        updated.map_err(|error: Error| error.to_string())?;
        debug!(container = %update.id, resource, "a container's resources were changed");
        self.records.set_actuated(&uid, &container.name, given);
        self.save_given().await
    }

    async fn save_given(&self) -> Result<(), String> {
        self.records.save().await.map_err(|error| error.to_string())
    }

    /// What a container that an agent before this one started was given, as far as the runtime tells: what its spec asks
    /// for, unless the runtime tells of something else and changing that restarts nothing.
    pub(super) fn given(&self, pod: &Pod, status: &ContainerStatus) -> Option<ResourceRequirements> {
        let told = status.resources.as_ref()?;
        let container = container_spec(pod, &status.name)?;
        let wanted = container.resources.clone().unwrap_or_default();
        let linux = container_resources(pod, &container, &self.options.node);
        let expected = resources_of(&linux).unwrap_or_default();
        let mut policies = container.resize_policy.iter().flatten();
        if policies.any(|policy| policy.restart_policy == "RestartContainer") || *told == expected {
            return Some(wanted);
        }
        let milli = |amount: Option<i64>| amount.map(|amount| Quantity(format!("{amount}m")));
        let bytes = |amount: Option<i64>| amount.map(|amount| Quantity(amount.to_string()));
        let requested = wanted.requests.as_ref();
        let list = |cpu: Option<Quantity>, memory: Option<Quantity>| {
            let both = [(CPU, cpu), (MEMORY, memory)];
            Some(both.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?))).collect())
        };
        Some(ResourceRequirements {
            limits: list(milli(told.cpu_limit_milli), bytes(told.memory_limit)),
            requests: list(
                milli(told.cpu_request_milli),
                requested.and_then(|requested| requested.get(MEMORY)).cloned(),
            ),
            ..wanted
        })
    }
}

/// `had` with one resource as `wanted` has it.
fn with_resource(
    had: &ResourceRequirements,
    wanted: Option<&ResourceRequirements>,
    resource: &str,
) -> ResourceRequirements {
    let list = |had: &Option<BTreeMap<String, Quantity>>, wanted: Option<&BTreeMap<String, Quantity>>| {
        let mut list = had.clone().unwrap_or_default();
        match wanted.and_then(|wanted| wanted.get(resource)) {
            Some(amount) => list.insert(resource.to_owned(), amount.clone()),
            None => list.remove(resource),
        };
        Some(list)
    };
    ResourceRequirements {
        limits: list(&had.limits, wanted.and_then(|wanted| wanted.limits.as_ref())),
        requests: list(&had.requests, wanted.and_then(|wanted| wanted.requests.as_ref())),
        ..had.clone()
    }
}

/// The pod with, of processor time and memory, the larger of what it and each of its containers has and is to have; without a
/// limit where one of both has none.
fn larger(pod: &Pod, had: &PodResources) -> Pod {
    let mut larger = pod.clone();
    let Some(spec) = &mut larger.spec else { return larger };
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(had) = had.containers.get(&container.name) {
            raise(container.resources.get_or_insert_default(), had);
        }
    }
    if let (Some(wanted), Some(had)) = (&mut spec.resources, &had.pod) {
        raise(wanted, had);
    }
    larger
}

/// Makes `wanted` no less than `had`.
fn raise(wanted: &mut ResourceRequirements, had: &ResourceRequirements) {
    let (mut limits, mut requests) =
        (wanted.limits.clone().unwrap_or_default(), wanted.requests.clone().unwrap_or_default());
    for resource in [CPU, MEMORY] {
        let amount = |list: &Option<BTreeMap<String, Quantity>>| {
            list.as_ref().and_then(|list| list.get(resource)).cloned()
        };
        match (amount(&had.limits), amount(&wanted.limits)) {
            (Some(had), Some(wanted)) => limits.insert(resource.to_owned(), max(had, wanted)),
            _ => limits.remove(resource),
        };
        if let Some(had) = amount(&had.requests) {
            let more = amount(&wanted.requests).map_or(had.clone(), |wanted| max(had, wanted));
            requests.insert(resource.to_owned(), more);
        }
    }
    (wanted.limits, wanted.requests) = (Some(limits), Some(requests));
}

fn max(one: Quantity, other: Quantity) -> Quantity {
    let read = |text: &Quantity| text.0.parse::<steersman_api::Quantity>().unwrap_or_default();
    if read(&one) >= read(&other) { one } else { other }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(whole: &str, container: &str) -> Pod {
        let limits = |amount: &str| json!({"limits": {"cpu": amount, "memory": amount}});
        let containers = json!([{"name": "a", "resources": limits(container)}]);
        serde_json::from_value(
            json!({"metadata": {}, "spec": {"resources": limits(whole), "containers": containers}}),
        )
        .unwrap()
    }

    #[test]
    fn a_pod_has_the_larger_of_both_while_it_is_resized() {
        for (had, wanted, between) in [
            (pod("4", "2"), pod("3", "1"), pod("4", "2")),
            (pod("3", "1"), pod("4", "2"), pod("4", "2")),
            (pod("4", "1"), pod("3", "2"), pod("4", "2")),
        ] {
            let larger = PodResources::of(&larger(&wanted, &PodResources::of(&had)));
            assert_eq!(
                json!(larger)["PodLevelResources"]["limits"],
                json!(PodResources::of(&between))["PodLevelResources"]["limits"]
            );
            assert_eq!(
                json!(larger)["ContainerResources"]["a"]["limits"],
                json!(PodResources::of(&between))["ContainerResources"]["a"]["limits"]
            );
        }
    }
}
