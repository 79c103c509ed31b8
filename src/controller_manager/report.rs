//! Makes the report of `/debug/controllers`.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_controller::own_writes::Awaited;
use steersman_controller::runner::{
    ControllerHealth, ControllerStatus, Controllers, LoopSort, LoopStatus, QueueState,
};
use steersman_informer::{AnyInformer, SharedInformerFactory};

use super::checks::{faults, stale};
use crate::serve::controllers::Reporter;
use crate::serve::controllers::report::{
    CacheEntry, ControllerEntry, ErrorEntry, LoopEntry, OwnWriteEntry, QueueEntry, Report, RetryEntry,
    WorkerEntry,
};
use crate::version;

/// Maximum number of caches in a report. The garbage collector has one for each kind of the cluster.
const CACHES: usize = 1_000;

/// Reports on these controllers and caches.
pub(super) fn reporter(controllers: &Controllers, informers: &SharedInformerFactory) -> Reporter {
    let (controllers, informers) = (controllers.clone(), informers.clone());
    Arc::new(move || report(&controllers, &informers))
}

fn report(controllers: &Controllers, informers: &SharedInformerFactory) -> Report {
    let health = controllers.health();
    let running = controllers.status();
    let mut running: Vec<_> =
        running.into_iter().zip(&health).map(|(status, health)| of_controller(status, health)).collect();
    let disabled = controllers.disabled().iter().map(|disabled| ControllerEntry {
        name: disabled.controller.to_owned(),
        state: "disabled".to_owned(),
        reason: Some(disabled.reason.clone()),
        ..ControllerEntry::default()
    });
    let mut disabled: Vec<_> = disabled.collect();
    running.sort_by(|a, b| a.name.cmp(&b.name));
    disabled.sort_by(|a, b| a.name.cmp(&b.name));
    running.append(&mut disabled);

    let mut caches: Vec<_> = informers.informers().iter().map(of_cache).collect();
    caches.sort_by_key(|cache| Reverse((cache.stale.is_some(), cache.bytes)));
    let caches_left_off = caches.len().saturating_sub(CACHES);
    caches.truncate(CACHES);
    Report {
        time: time(Timestamp::now()),
        version: version::STEERSMAN.to_owned(),
        controllers: running,
        caches,
        caches_left_off,
    }
}

fn of_controller(status: ControllerStatus, health: &ControllerHealth) -> ControllerEntry {
    ControllerEntry {
        name: status.controller.to_owned(),
        state: status.stage.to_string(),
        reason: None,
        state_for: Some(status.in_stage.into()),
        faults: faults(health),
        waiting_for: status.unsynced,
        caches: status.caches,
        loops: status.loops.into_iter().map(of_loop).collect(),
    }
}

fn of_loop(status: LoopStatus) -> LoopEntry {
    let (kind, queue, period) = match status.sort {
        LoopSort::Queue(queue) => ("queue", Some(of_queue(queue)), None),
        LoopSort::Periodic { period } => ("periodic", None, Some(period.into())),
        LoopSort::Task => ("task", None, None),
    };
    let busy = status.busy.into_iter().map(|busy| WorkerEntry {
        worker: busy.worker,
        key: busy.key,
        running_for: busy.running_for.into(),
        silent_for: busy.silent_for.into(),
    });
    let errors = status.failures.into_iter().map(|failure| ErrorEntry {
        time: time(failure.at),
        key: failure.key,
        error: failure.error,
        times: failure.times,
    });
    LoopEntry {
        name: status.name,
        kind,
        period,
        queue,
        busy_workers: status.busy_workers,
        busy: busy.collect(),
        errors: errors.collect(),
    }
}

fn of_queue(queue: QueueState) -> QueueEntry {
    let retries = queue.retries.into_iter().map(|retry| RetryEntry {
        key: retry.key,
        failures: retry.failures,
        due_in: retry.due_in.into(),
    });
    let own_writes = queue.waiting.into_iter().map(|waiting| OwnWriteEntry {
        key: waiting.key,
        at_most: waiting.at_most.into(),
        writes: waiting.awaited.iter().map(of_write).collect(),
    });
    QueueEntry {
        workers: queue.workers,
        depth: queue.depth,
        in_retry: queue.failing,
        delayed: queue.delayed,
        waiting_for_own_writes: queue.parked,
        longest_running: queue.longest_running.map(Into::into),
        retries: retries.collect(),
        own_writes: own_writes.collect(),
    }
}

fn of_write(Awaited { resource, version, reached }: &Awaited) -> String {
    format!("{resource} at version {version}, the cache is at {reached}")
}

fn of_cache(cache: &Arc<dyn AnyInformer>) -> CacheEntry {
    let progress = cache.progress();
    let synced = cache.has_synced();
    CacheEntry {
        resource: cache.resource().to_string(),
        synced,
        objects: cache.len(),
        unreadable: cache.unreadable_len(),
        bytes: cache.bytes(),
        version: cache.last_sync_resource_version().to_string(),
        watch: progress.state.to_string(),
        watch_for: progress.in_state.into(),
        staleness: progress.staleness().map(Into::into),
        stale: stale(&progress).filter(|_| synced),
        relists: progress.lists.saturating_sub(1),
        failures: progress.failures,
        queued: progress.queued,
        last_error: progress.last_error.as_ref().map(|last| last.error.clone()),
        last_error_ago: progress.last_error.as_ref().map(|last| last.ago.into()),
    }
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
