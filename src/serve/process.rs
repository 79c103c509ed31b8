//! Metrics of this process and of its build, under the names that dashboards use.

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, GaugeVec, Opts, Registry};
use tokio::runtime;

use crate::version;

/// Registers the metrics of the process and of its build.
///
/// # Errors
/// If the registry already has one of the families.
pub(crate) fn register(registry: &Registry) -> Result<(), prometheus::Error> {
    registry.register(Box::new(build_info()?))?;
    registry.register(Box::new(ProcessCollector::new()?))
}

fn build_info() -> Result<GaugeVec, prometheus::Error> {
    let help = "A metric with a constant '1' value labeled by the version of Kubernetes that the program corresponds to, and \
                by what it was built with";
    let labels = [
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ];
    let family = GaugeVec::new(Opts::new("kubernetes_build_info", help), &labels)?;
    let info = version::info();
    let values = [
        info.major,
        info.minor,
        &info.git_version,
        info.git_commit,
        info.git_tree_state,
        info.build_date,
        info.go_version,
        info.compiler,
        &info.platform,
    ];
    family.with_label_values(&values).set(1.0);
    Ok(family)
}

/// Reads `/proc` at each scrape. Leaves out the values that it can't read.
struct ProcessCollector {
    cpu: Counter,
    resident: Gauge,
    virtual_memory: Gauge,
    start: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
    threads: Gauge,
    tasks: Gauge,
}

/// Fields of `/proc/self/stat`, in the system's units.
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl ProcessCollector {
    fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            cpu: Counter::new("process_cpu_seconds_total", "User and system processor time in seconds")?,
            resident: Gauge::new("process_resident_memory_bytes", "Resident memory in bytes")?,
            virtual_memory: Gauge::new("process_virtual_memory_bytes", "Virtual memory in bytes")?,
            start: Gauge::new("process_start_time_seconds", "Start of the process, in seconds since 1970")?,
            open_fds: Gauge::new("process_open_fds", "Open file descriptors")?,
            max_fds: Gauge::new("process_max_fds", "Maximum number of open file descriptors")?,
            threads: Gauge::new("process_threads", "Threads of the process")?,
            tasks: Gauge::new(
                "go_goroutines",
                "Number of tokio tasks, which this program has in place of goroutines",
            )?,
        })
    }

    fn read(&self) {
        if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text)) {
            let ticks = rustix::param::clock_ticks_per_second() as f64;
            let cpu = stat.cpu_ticks as f64 / ticks;
            self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
            self.resident.set(stat.resident_pages as f64 * rustix::param::page_size() as f64);
            self.virtual_memory.set(stat.virtual_bytes as f64);
            self.threads.set(stat.threads as f64);
            if let Some(boot) = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_time(&text)) {
                self.start.set(boot as f64 + stat.start_ticks as f64 / ticks);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of the descriptors is that of the folder itself.
            self.open_fds.set(open.count().saturating_sub(1) as f64);
        }
        if let Some(most) = fs::read_to_string("/proc/self/limits").ok().and_then(|text| max_files(&text)) {
            self.max_fds.set(most as f64);
        }
        if let Ok(runtime) = runtime::Handle::try_current() {
            self.tasks.set(runtime.metrics().num_alive_tasks() as f64);
        }
    }
}

impl Stat {
    /// Parses the fields as proc(5) numbers them. They are counted from behind the process's name, which may contain any
    /// text.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

fn boot_time(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn max_files(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?.parse().ok()
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [&self.resident, &self.virtual_memory, &self.start, &self.open_fds, &self.max_fds];
        let gauges = gauges.into_iter().chain([&self.threads, &self.tasks]).flat_map(Collector::desc);
        self.cpu.desc().into_iter().chain(gauges).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read();
        let gauges = [&self.resident, &self.virtual_memory, &self.start, &self.open_fds, &self.max_fds];
        let gauges = gauges.into_iter().chain([&self.threads, &self.tasks]).flat_map(Collector::collect);
        self.cpu.collect().into_iter().chain(gauges).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_blanks_and_brackets() {
        let rest: Vec<String> = (3..=40).map(|number| number.to_string()).collect();
        let stat = Stat::parse(&format!("7 (a) b) (c) {}", rest.join(" "))).unwrap();
        assert_eq!((stat.cpu_ticks, stat.threads, stat.start_ticks), (29, 20, 22));
        assert_eq!((stat.virtual_bytes, stat.resident_pages), (23, 24));
        assert!(Stat::parse("7 (a) 1 2 3").is_none());
    }

    #[tokio::test]
    async fn a_scrape_shows_this_process() {
        let registry = Registry::new();
        register(&registry).unwrap();
        let families = registry.gather();
        let value = |name: &str| {
            let family = families.iter().find(|family| family.name() == name);
            let series = &family.unwrap_or_else(|| panic!("{name} is missing")).get_metric()[0];
            series.get_gauge().get_value() + series.get_counter().get_value()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0 && value("process_max_fds") >= value("process_open_fds"));
        let now = jiff::Timestamp::now().as_second() as f64;
        let age = now - value("process_start_time_seconds");
        assert!((-2.0..3_600.0).contains(&age), "{age}");
        value("process_cpu_seconds_total");
        value("go_goroutines");
        let info = families.iter().find(|family| family.name() == "kubernetes_build_info").unwrap();
        let labels = info.get_metric()[0].get_label();
        let version = labels.iter().find(|label| label.name() == "git_version").unwrap();
        assert!(version.value().starts_with("v1.36."), "the alert KubeVersionMismatch compares {version:?}");
    }
}
