//! Which of the kernel's namespaces a pod's containers share.

use k8s_openapi::api::core::v1::Pod;

use crate::cri::v1::{NamespaceMode, NamespaceOption, UserNamespace};

/// The pod's namespaces.
///
/// # Errors
/// The pod wants a user namespace of its own, which this node does not make.
pub(crate) fn of_pod(pod: &Pod) -> Result<NamespaceOption, String> {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.host_users) == Some(false) {
        return Err("can't set spec.HostUsers to false: this node has no user namespaces for pods".to_owned());
    }
    let is =
        |flag: fn(&k8s_openapi::api::core::v1::PodSpec) -> Option<bool>| spec.and_then(flag) == Some(true);
    let node_or_pod = |node: bool| if node { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = match () {
        () if is(|spec| spec.host_pid) => NamespaceMode::Node,
        () if is(|spec| spec.share_process_namespace) => NamespaceMode::Pod,
        () => NamespaceMode::Container,
    };
    Ok(NamespaceOption {
        network: node_or_pod(is(|spec| spec.host_network)) as i32,
        pid: pid as i32,
        ipc: node_or_pod(is(|spec| spec.host_ipc)) as i32,
        target_id: String::new(),
        userns_options: Some(UserNamespace {
            mode: NamespaceMode::Node as i32,
            uids: Vec::new(),
            gids: Vec::new(),
        }),
    })
}
