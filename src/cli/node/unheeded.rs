//! The flags of the kubelet 1.36 that set no field of its configuration and have no effect in this version.

use crate::cli::upstream::Unheeded;

pub(super) const UNHEEDED: Unheeded = Unheeded {
    switches: &[
        "enable-load-reader",
        "exit-on-lock-contention",
        "experimental-allocatable-ignore-eviction",
        "log-cadvisor-usage",
        "log-json-split-stream",
        "log-text-split-stream",
        "storage-driver-secure",
    ],
    settings: &[
        "application-metrics-count-limit",
        "boot-id-file",
        "bootstrap-kubeconfig",
        "container-hints",
        "containerd",
        "containerd-namespace",
        "event-storage-age-limit",
        "event-storage-event-limit",
        "experimental-mounter-path",
        "global-housekeeping-interval",
        "housekeeping-interval",
        "lock-file",
        "log-json-info-buffer-size",
        "log-text-info-buffer-size",
        "machine-id-file",
        "reserved-memory",
        "runtime-cgroups",
        "storage-driver-buffer-duration",
        "storage-driver-db",
        "storage-driver-host",
        "storage-driver-password",
        "storage-driver-table",
        "storage-driver-user",
        "vmodule",
    ],
};
