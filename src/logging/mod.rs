//! Logs to standard error, as the Go components write them.

use std::io;
use std::panic;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterFn, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod klog;
mod vmodule;

pub(crate) use klog::Format;
pub(crate) use vmodule::VModule;

/// How much is logged, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logging {
    /// `-v`: klog's verbosity.
    pub verbosity: i32,
    /// `--vmodule`: the verbosity of single source files.
    pub vmodule: VModule,
    /// `--logging-format`.
    pub format: Format,
}

/// Starts logging. What panics is logged as well.
pub(crate) fn start(logging: Logging) {
    let lines = klog::Lines::new(logging.format);
    let layer =
        tracing_subscriber::fmt::layer().event_format(lines).fmt_fields(lines).with_writer(io::stderr);
    // Fails only if logging was started before, which is as good.
    let filter = filter(logging.verbosity, logging.vmodule);
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload().downcast_ref::<String>().map(String::as_str);
        let reason = text.or_else(|| panic.payload().downcast_ref::<&'static str>().copied());
        tracing::error!(place, reason = reason.unwrap_or_default(), "Panic");
    }));
}

/// klog's levels, by the conventions of Kubernetes: up to 3 what an operator wants to know, 4 and 5 what is being
/// debugged, from 6 on everything. What libraries say begins to be shown at 6.
fn targets(verbosity: i32) -> Targets {
    let (ours, libraries) = match verbosity {
        ..4 => (LevelFilter::INFO, LevelFilter::WARN),
        4..6 => (LevelFilter::DEBUG, LevelFilter::WARN),
        6..8 => (LevelFilter::TRACE, LevelFilter::INFO),
        8..10 => (LevelFilter::TRACE, LevelFilter::DEBUG),
        10.. => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    Targets::new().with_target("steersman", ours).with_default(libraries)
}

/// Lets pass what `verbosity` shows, and beyond that what `vmodule` shows of single files.
fn filter(verbosity: i32, vmodule: VModule) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let general = targets(verbosity);
    let highest = vmodule.highest().map_or(verbosity, |highest| highest.max(verbosity));
    // The most that any file may show, libraries included.
    let most = match highest {
        ..4 => LevelFilter::INFO,
        4..6 => LevelFilter::DEBUG,
        6.. => LevelFilter::TRACE,
    };
    filter_fn(move |metadata: &Metadata<'_>| {
        general.would_enable(metadata.target(), metadata.level())
            || metadata
                .file()
                .and_then(|file| vmodule.of(file))
                .is_some_and(|verbosity| targets(verbosity).would_enable(metadata.target(), metadata.level()))
    })
    .with_max_level_hint(most)
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing_subscriber::{Layer, Registry};

    use super::*;

    #[test]
    fn verbosity_is_klogs() {
        for (verbosity, ours, libraries) in [
            (-1, Level::INFO, Level::WARN),
            (0, Level::INFO, Level::WARN),
            (2, Level::INFO, Level::WARN),
            (4, Level::DEBUG, Level::WARN),
            (6, Level::TRACE, Level::INFO),
            (8, Level::TRACE, Level::DEBUG),
            (10, Level::TRACE, Level::TRACE),
        ] {
            let filter = targets(verbosity);
            for (target, most) in [("steersman_client::transport", ours), ("hyper::client", libraries)] {
                for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                    assert_eq!(filter.would_enable(target, &level), level <= most, "-v={verbosity}");
                }
            }
        }
    }

    fn hint(filter: &impl Layer<Registry>) -> Option<LevelFilter> {
        filter.max_level_hint()
    }

    #[test]
    fn a_pattern_shows_more_of_its_files_and_never_less() {
        let filter = filter(4, VModule::parse("klog=6,mod=0").unwrap());
        assert_eq!(hint(&filter), Some(LevelFilter::TRACE));
        assert_eq!(hint(&super::filter(0, VModule::default())), Some(LevelFilter::INFO));
    }
}
