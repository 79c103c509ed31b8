//! What goes wrong in a cluster.

use std::time::Duration;

use rand::Rng as _;
use tokio::time::sleep;

use crate::network::Weather;
use crate::world::World;

/// How many faults there are in a run.
const FAULTS: usize = 14;

impl World {
    /// Lets one thing after another go wrong.
    pub(crate) async fn faults(&mut self) -> Result<(), String> {
        for _ in 0..FAULTS {
            self.pause(0.1, 20.0).await;
            self.look()?;
            match self.random.random_range(0..14) {
                0..=3 => self.end_a_manager().await,
                4..=8 => self.disturb_a_manager().await,
                9..=11 => self.disturb_the_api_server().await?,
                _ => self.silence_a_node().await,
            }
        }
        self.look()
    }

    /// Ends all faults that go on by themselves.
    pub(crate) fn calm(&self) {
        self.invariants.tell("the faults have ended");
        self.nodes.all_are_heard();
        for manager in &self.managers {
            manager.link.set_weather(Weather::default());
            manager.set_wall_clock_ahead(0);
        }
    }

    fn seconds(&mut self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(self.random.random_range(least..most))
    }

    async fn pause(&mut self, least: f64, most: f64) {
        let pause = self.seconds(least, most);
        sleep(pause).await;
    }

    fn any_manager(&mut self) -> usize {
        self.random.random_range(0..self.managers.len())
    }

    /// One ends, in one way or the other, and another one starts.
    async fn end_a_manager(&mut self) {
        let at = self.any_manager();
        let ended = self.managers.remove(at);
        if self.random.random_bool(0.7) {
            self.invariants.tell(format_args!("{} is killed", ended.name));
            ended.kill();
            self.pause(0.0, 5.0).await;
            self.start_manager();
        } else {
            self.invariants.tell(format_args!("{} is asked to end", ended.name));
            self.start_manager();
            ended.stop().await;
        }
    }

    async fn disturb_a_manager(&mut self) {
        let at = self.any_manager();
        let name = self.managers[at].name.clone();
        let tell = |what: std::fmt::Arguments| self.invariants.tell(what);
        match self.random.random_range(0..5) {
            0 => {
                let held = Duration::from_secs_f64(self.random.random_range(0.5..40.0));
                tell(format_args!("nothing gets through to {name} for {held:.1?}"));
                let link = &self.managers[at].link;
                link.hold(true);
                sleep(held).await;
                link.hold(false);
                tell(format_args!("{name} is reached again"));
            }
            1 => {
                let frozen = Duration::from_secs_f64(self.random.random_range(0.5..40.0));
                tell(format_args!("{name} is frozen for {frozen:.1?}"));
                self.managers[at].freeze(frozen);
            }
            2 => {
                tell(format_args!("the connections of {name} break"));
                self.managers[at].link.break_all();
            }
            3 => {
                let weather = Weather {
                    delay: Duration::from_millis(self.random.random_range(0..400)),
                    loses_one_in: self.random.random_bool(0.6).then(|| self.random.random_range(4..40)),
                    doubles_one_in: self.random.random_bool(0.4).then(|| self.random.random_range(3..30)),
                };
                tell(format_args!("around {name}: {weather:?}"));
                self.managers[at].link.set_weather(weather);
            }
            _ => {
                let ahead = self.random.random_range(-7200..7200);
                tell(format_args!("the wall clock of {name} is {ahead} s ahead"));
                self.managers[at].set_wall_clock_ahead(ahead);
            }
        }
    }

    async fn disturb_the_api_server(&mut self) -> Result<(), String> {
        let how_long = self.seconds(0.1, 20.0);
        match self.random.random_range(0..4) {
            0 => {
                self.invariants.tell(format_args!("the API server is away for {how_long:.1?}"));
                self.api_server.be_away(how_long).await;
            }
            1 => {
                self.invariants.tell(format_args!("the API server's disk is full for {how_long:.1?}"));
                self.api_server.fill_disk(how_long).await;
            }
            2 => {
                let after = self.random.random_range(0..60);
                self.invariants.tell(format_args!("the API server's disk fails after {after} operations"));
                self.api_server.fail_disk_after(after);
                self.restart_the_api_server(how_long).await?;
            }
            _ => {
                let after = self.random.random_range(0..60);
                self.invariants
                    .tell(format_args!("the power of the API server is cut after {after} operations"));
                self.api_server.cut_power_after(after);
                self.restart_the_api_server(how_long).await?;
            }
        }
        self.invariants.tell("the API server is well again");
        Ok(())
    }

    /// Waits until it has failed, and starts it again. It must have kept all that anybody has seen.
    async fn restart_the_api_server(&mut self, how_long: Duration) -> Result<(), String> {
        if !self.api_server.fails_within(Duration::from_secs(60)).await {
            return Err("the API server goes on without a disk".to_owned());
        }
        let seen = self.invariants.latest_version();
        let chance = self.random.random();
        self.api_server.restart(chance, how_long).await;
        match self.api_server.address().server().restored_version() {
            kept if kept < seen => {
                Err(format!("the API server has kept version {kept}, and {seen} was seen"))
            }
            _ => Ok(()),
        }
    }

    async fn silence_a_node(&mut self) {
        let silent = self.nodes.silence();
        self.invariants.tell(format_args!("node {silent} falls silent"));
        self.pause(10.0, 90.0).await;
        self.nodes.all_are_heard();
        self.invariants.tell(format_args!("node {silent} is heard again"));
    }
}
