//! Settings that both controllers have.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_controller::options::Setting;
use steersman_informer::work_queue::{ItemExponential, Key, MaxOf, OncePerWindow, RateLimiter, TokenBucket};

/// A maximum number of endpoints: from 1 to 1000, the limit of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceSize(pub usize);

impl Setting for SliceSize {
    const VALUE_NAME: &'static str = "int";

    fn parse(text: &str) -> Result<Self, String> {
        match i32::parse(text)? {
            size if size < 1 => Err(format!("must not be less than 1, but got {size}")),
            size if size > 1000 => Err(format!("must not be more than 1000, but got {size}")),
            size => Ok(Self(usize::try_from(size).expect("a size must be positive after the check"))),
        }
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn json(&self) -> Value {
        json!(self.0)
    }
}

/// Upstream's back-off of both controllers: a second after a key's first failure, doubled with each further one; and for all
/// keys together a bucket of 100 tokens that refills with 10 per second.
pub(crate) fn backoff<K: Key>(longest: Duration) -> impl RateLimiter<K> + 'static {
    const QPS: NonZeroU32 = NonZeroU32::new(10).expect("ten must not be zero");
    const BURST: NonZeroU32 = NonZeroU32::new(100).expect("a hundred must not be zero");
    OncePerWindow::new(MaxOf::new(vec![
        Box::new(ItemExponential::new(Duration::from_secs(1), longest)),
        Box::new(TokenBucket::new(QPS, BURST)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_from_1_to_1000() {
        for (text, size) in [("1", Some(1)), ("1000", Some(1000)), ("0", None), ("-1", None), ("1001", None)]
        {
            assert_eq!(SliceSize::parse(text).ok(), size.map(SliceSize), "{text}");
        }
    }
}
