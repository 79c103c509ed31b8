//! Durations as Go prints them.

use std::fmt;
use std::time::Duration;

/// In whole milliseconds: `0s`, `850ms`, `1.2s`, `1m2.05s`, `1h0m0s`.
pub(super) struct GoMillis(pub(super) Duration);

impl fmt::Display for GoMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => return f.write_str("0s"),
            1..1000 => return write!(f, "{millis}ms"),
            _ => {}
        }
        let (seconds, fraction) = (millis / 1000, millis % 1000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        let fraction = format!("{fraction:03}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{}{point}{fraction}s", seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        for (micros, text) in [
            (0, "0s"),
            (999, "0s"),
            (1_999, "1ms"),
            (850_000, "850ms"),
            (1_000_000, "1s"),
            (1_200_000, "1.2s"),
            (1_005_000, "1.005s"),
            (62_050_000, "1m2.05s"),
            (3_600_000_000, "1h0m0s"),
        ] {
            assert_eq!(GoMillis(Duration::from_micros(micros)).to_string(), text);
        }
    }
}
