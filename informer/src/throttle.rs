//! Bounds the log lines of a fault that hits many objects at once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Lets a few lines pass in each period, and counts those that it keeps back.
///
/// Use one for each message that a sick API server can cause thousands of times. Metrics tell the exact numbers.
#[derive(Debug)]
pub struct Throttle {
    lines: u32,
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the current period began. `None` before the first line.
    begun: Option<Instant>,
    /// The number of lines that passed in the current period.
    passed: u32,
    /// The number of lines kept back since the last one that passed.
    kept_back: u64,
}

/// A line that may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The number of lines kept back since the one before. `None` if there were none.
    pub kept_back: Option<u64>,
}

impl Throttle {
    /// Lets `lines` lines pass in each period. The first line after a period begins the next one.
    pub fn new(lines: u32, period: Duration) -> Self {
        Self { lines, period, state: Mutex::default() }
    }

    /// Asks for one line. If the answer is `None`, the caller must not log it, and the line is counted.
    pub fn pass(&self) -> Option<Pass> {
        let mut state = self.state.lock();
        if state.begun.is_none_or(|begun| begun.elapsed() >= self.period) {
            (state.begun, state.passed) = (Some(Instant::now()), 0);
        }
        if state.passed >= self.lines {
            state.kept_back += 1;
            return None;
        }
        state.passed += 1;
        Some(Pass { kept_back: Some(std::mem::take(&mut state.kept_back)).filter(|lines| *lines > 0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_few_lines_pass_in_each_period_and_the_next_tells_how_many_did_not() {
        let throttle = Throttle::new(2, Duration::from_secs(10));
        let passed = |kept_back| Some(Pass { kept_back });
        let asked: Vec<_> = (0..5).map(|_| throttle.pass()).collect();
        assert_eq!(asked, [passed(None), passed(None), None, None, None]);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(throttle.pass(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        let asked: Vec<_> = (0..3).map(|_| throttle.pass()).collect();
        assert_eq!(asked, [passed(Some(4)), passed(None), None]);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(throttle.pass(), passed(Some(1)));
    }
}
