//! What is printed of an attack.

use std::fmt;
use std::time::Duration;

use crate::bystander::Seen;
use crate::process::Usage;

/// What an attack cost.
#[derive(Debug)]
pub(crate) struct Report {
    /// What the bystander saw before the attack, under it, and after it.
    pub(crate) calm: Seen,
    pub(crate) seen: Seen,
    pub(crate) recovered: Seen,
    /// What the server's process had taken when the attack began, when it ended, and once the server was at rest again.
    pub(crate) before: Usage,
    pub(crate) during: Usage,
    pub(crate) after: Usage,
    /// What the server answered to the attack, in words.
    pub(crate) answers: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:>10} {:>10} {:>10}", "", "before", "attacked", "after")?;
        let seen = [&self.calm, &self.seen, &self.recovered];
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("slowest", 1.0)] {
            let [before, under, after] = seen.map(|seen| milliseconds(seen.quantile(share)));
            writeln!(f, "{:<28} {before:>10} {under:>10} {after:>10}", format!("bystander, {name} (ms)"))?;
        }
        let [before, under, after] = seen.map(|seen| seen.failed);
        writeln!(f, "{:<28} {before:>10} {under:>10} {after:>10}", "bystander, unanswered")?;
        let [before, under, after] =
            [self.before.resident, self.during.peak, self.after.resident].map(megabytes);
        writeln!(f, "{:<28} {before:>10} {under:>10} {after:>10}", "resident memory, peak (MB)")?;
        let spent = self.during.processor.saturating_sub(self.before.processor);
        writeln!(f, "{:<28} {:>10} {:>10} {:>10}", "processor time (ms)", "", spent.as_millis(), "")?;
        writeln!(f, "{:<28} {}", "answers to the attack", self.answers)
    }
}

fn milliseconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1000.0))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
