//! Logs to standard error, as the Go components write them.

use std::io;
use std::panic;
use std::sync::OnceLock;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterFn, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

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

/// Decides which records are logged.
type Filter = FilterFn<Box<dyn Fn(&Metadata<'_>) -> bool + Send + Sync>>;

/// Replaces the filter of the process's log.
static FILTER: OnceLock<(reload::Handle<Filter, Registry>, VModule)> = OnceLock::new();

/// Starts logging. Panics are logged as well.
pub(crate) fn start(logging: Logging) {
    let lines = klog::Lines::new(logging.format);
    let layer =
        tracing_subscriber::fmt::layer().event_format(lines).fmt_fields(lines).with_writer(io::stderr);
    let (filter, handle) = reload::Layer::new(filter(logging.verbosity, logging.vmodule.clone()));
    // Both fail only if logging was started before, which is as good.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    let _ = FILTER.set((handle, logging.vmodule));
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload().downcast_ref::<String>().map(String::as_str);
        let reason = text.or_else(|| panic.payload().downcast_ref::<&'static str>().copied());
        tracing::error!(place, reason = reason.unwrap_or_default(), "Panic");
    }));
}

/// Changes the verbosity while the process runs. Returns upstream's confirmation.
///
/// # Errors
/// If `text` is not a number, in Go's words.
pub(crate) fn set_verbosity(text: &str) -> Result<String, String> {
    let invalid = |why| format!("strconv.ParseUint: parsing {text:?}: {why}");
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid("invalid syntax"));
    }
    let verbosity: u32 = text.parse().map_err(|_| invalid("value out of range"))?;
    let verbosity = i32::try_from(verbosity).map_err(|_| invalid("value out of range"))?;
    if let Some((handle, vmodule)) = FILTER.get() {
        let set = handle.reload(filter(verbosity, vmodule.clone()));
        set.map_err(|error| format!("failed set klog.logging.verbosity {text}: {error}"))?;
    }
    Ok(format!("successfully set klog.logging.verbosity to {text}"))
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
fn filter(verbosity: i32, vmodule: VModule) -> Filter {
    let general = targets(verbosity);
    let highest = vmodule.highest().map_or(verbosity, |highest| highest.max(verbosity));
    // The most that any file may show, libraries included.
    let most = match highest {
        ..4 => LevelFilter::INFO,
        4..6 => LevelFilter::DEBUG,
        6.. => LevelFilter::TRACE,
    };
    let shown: Box<dyn Fn(&Metadata<'_>) -> bool + Send + Sync> = Box::new(move |metadata| {
        general.would_enable(metadata.target(), metadata.level())
            || metadata
                .file()
                .and_then(|file| vmodule.of(file))
                .is_some_and(|verbosity| targets(verbosity).would_enable(metadata.target(), metadata.level()))
    });
    FilterFn::new(shown).with_max_level_hint(most)
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing_subscriber::Layer;

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

    #[test]
    fn a_new_verbosity_must_be_a_number() {
        assert_eq!(set_verbosity("4").unwrap(), "successfully set klog.logging.verbosity to 4");
        for (text, why) in [
            ("", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("-1", "strconv.ParseUint: parsing \"-1\": invalid syntax"),
            ("4294967296", "strconv.ParseUint: parsing \"4294967296\": value out of range"),
        ] {
            assert_eq!(set_verbosity(text).unwrap_err(), why);
        }
    }
}
