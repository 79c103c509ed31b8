//! A manager's process, which leads and stands by in turn.

use std::time::Duration;

use steersman_controller::context::ControllerContext;
use steersman_controller::options::OptionSet;
use steersman_controller::registry::{BoxError, Construction, Descriptor, Registry, Selection};
use steersman_controller::runner::{Controllers, Metrics, Timing};
use steersman_controller::testing::context;
use steersman_informer::SharedInformerFactory;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::world::World;
use crate::node_lifecycle::{self, NodeLifecycleOptions};
use crate::taint_eviction;

const TIMING: Timing = Timing { start_interval: Duration::ZERO, shutdown_timeout: Duration::from_secs(30) };

/// A process with both controllers. It keeps its caches while it stands by.
pub(super) struct Process {
    /// When it was started.
    pub begun: Instant,
    controllers: Controllers,
    informers: SharedInformerFactory,
    /// Ends the role.
    end: CancellationToken,
    /// The task that leads or stands by.
    role: JoinSet<()>,
}

/// Both controllers, as one.
pub(super) fn both(context: &ControllerContext) -> Result<Construction, BoxError> {
    let (one, other) = (node_lifecycle::construct(context)?, taint_eviction::construct(context)?);
    let (
        Construction::Controller { loops, caches },
        Construction::Controller { loops: more_loops, caches: more_caches },
    ) = (one, other)
    else {
        return Err("declined".into());
    };
    Ok(Construction::new(loops.into_iter().chain(more_loops), caches.into_iter().chain(more_caches)))
}

impl Process {
    /// Starts a process, which stands by. It writes no events.
    pub(super) fn start(world: &World, options: NodeLifecycleOptions) -> Self {
        let (context, _) = context(&world.cluster.server, OptionSet::default().with(options));
        let registry = Registry::new(vec![Descriptor::new("tested", &[], both)]);
        let all = Selection::parse(&["*"], &registry).unwrap();
        let controllers = registry.build(&all, &context, &Metrics::new()).unwrap();
        context.informers.start();
        let mut process = Self {
            begun: Instant::now(),
            controllers,
            informers: context.informers.clone(),
            end: CancellationToken::new(),
            role: JoinSet::new(),
        };
        process.stand_by();
        process
    }

    /// Begins to lead.
    pub(super) async fn lead(&mut self) {
        self.end_role().await;
        self.informers.informers().iter().for_each(|informer| informer.resync());
        let (controllers, end) = (self.controllers.clone(), CancellationToken::new());
        self.end = end.clone();
        self.role.spawn(async move { controllers.run(&end, TIMING).await.unwrap() });
    }

    /// Stops leading, and stands by.
    pub(super) async fn step_down(&mut self) {
        self.end_role().await;
        self.stand_by();
    }

    /// Ends without finishing anything.
    pub(super) async fn crash(mut self) {
        self.role.shutdown().await;
        self.informers.shutdown().await;
    }

    fn stand_by(&mut self) {
        let (controllers, end) = (self.controllers.clone(), CancellationToken::new());
        self.end = end.clone();
        self.role.spawn(async move { controllers.stand_by(&end).await });
    }

    async fn end_role(&mut self) {
        self.end.cancel();
        while let Some(ended) = self.role.join_next().await {
            ended.unwrap();
        }
    }
}
