//! What is measured of the node's start, under the kubelet's names.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::{Gauge, GaugeVec, Opts, Registry};

/// The families. A clone counts into the same ones. They work whether or not they are registered.
#[derive(Debug, Clone)]
pub struct Metrics {
    node_name: GaugeVec,
    pre_kubelet: Gauge,
    pre_registration: Gauge,
    registration: Gauge,
    post_registration: Gauge,
    total: Gauge,
    moments: Arc<Mutex<Moments>>,
}

/// When what happened first. Of a Node that was there already nothing is measured.
#[derive(Debug, Default)]
struct Moments {
    started: Timestamp,
    attempted: Option<Timestamp>,
    registered: Option<Timestamp>,
    ready: Option<Timestamp>,
}

impl Metrics {
    /// New families. `started` is when the agent was.
    pub fn new(started: Timestamp) -> Self {
        let gauge = |name: &str, help: &str| {
            Gauge::new(format!("kubelet_node_startup_{name}"), help)
                .expect("the gauge's options must be valid")
        };
        let name = Opts::new("kubelet_node_name", "The node's name. The count is always 1.");
        Self {
            node_name: GaugeVec::new(name, &["node"]).expect("the gauge's options must be valid"),
            pre_kubelet: gauge(
                "pre_kubelet_duration_seconds",
                "Duration in seconds of node startup before kubelet starts.",
            ),
            pre_registration: gauge(
                "pre_registration_duration_seconds",
                "Duration in seconds of node startup before registration.",
            ),
            registration: gauge(
                "registration_duration_seconds",
                "Duration in seconds of node startup during registration.",
            ),
            post_registration: gauge(
                "post_registration_duration_seconds",
                "Duration in seconds of node startup after registration.",
            ),
            total: gauge("duration_seconds", "Duration in seconds of node startup in total."),
            moments: Arc::new(Mutex::new(Moments { started, ..Moments::default() })),
        }
    }

    /// Makes them part of what a process tells.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.node_name.clone()))?;
        for gauge in [
            &self.pre_kubelet,
            &self.pre_registration,
            &self.registration,
            &self.post_registration,
            &self.total,
        ] {
            registry.register(Box::new(gauge.clone()))?;
        }
        Ok(())
    }

    pub(super) fn named(&self, node: &str) {
        self.node_name.with_label_values(&[node]).set(1.0);
    }

    pub(super) fn attempted(&self, now: Timestamp) {
        self.moments.lock().attempted.get_or_insert(now);
    }

    pub(super) fn registered_anew(&self, boot_time: Option<i64>, now: Timestamp) {
        let mut moments = self.moments.lock();
        let (Some(attempted), None) = (moments.attempted, moments.registered) else { return };
        moments.registered = Some(now);
        if let Some(booted) = boot_time.and_then(|at| Timestamp::from_second(at).ok()) {
            self.pre_kubelet.set(seconds(booted, moments.started));
        }
        self.pre_registration.set(seconds(moments.started, attempted));
        self.registration.set(seconds(attempted, now));
    }

    pub(super) fn ready(&self, boot_time: Option<i64>, now: Timestamp) {
        let mut moments = self.moments.lock();
        let (Some(registered), None) = (moments.registered, moments.ready) else { return };
        moments.ready = Some(now);
        self.post_registration.set(seconds(registered, now));
        if let Some(booted) = boot_time.and_then(|at| Timestamp::from_second(at).ok()) {
            self.total.set(seconds(booted, now));
        }
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
