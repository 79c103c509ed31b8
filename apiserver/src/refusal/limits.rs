//! Refusals of what is too large, too much or too slow.

use super::Refusal;
use crate::values;

/// What etcd says once its database has the size that it may have.
const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

impl Refusal {
    /// The object would be more than is stored. In the words of upstream's etcd, which upstream did not foresee.
    pub(crate) fn too_heavy() -> Self {
        Self::unforeseen("etcdserver: request is too large")
    }

    /// The objects have all the space that they may take. In the words of upstream's etcd, which upstream did not foresee.
    pub(crate) fn no_space() -> Self {
        Self::unforeseen(NO_SPACE)
    }

    /// Whether it is [`no_space`](Self::no_space).
    pub(crate) fn is_no_space(&self) -> bool {
        self.status.message == NO_SPACE
    }

    /// A patch is longer than the server works on.
    pub(crate) fn too_many_operations(count: usize, limit: usize) -> Self {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {limit}, got {count}"
        );
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The body is larger than the server reads.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// The object has, or would have, more values than are accepted.
    pub(crate) fn too_many_values() -> Self {
        let message = format!("Request entity too large: at most {} values are accepted", values::LIMIT);
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The server is asked to do more than it wants to.
    pub(crate) fn too_many_requests(retry_after: Option<i32>) -> Self {
        let refusal = Self::new(429, "TooManyRequests", "Too many requests, please try again later.");
        match retry_after {
            Some(seconds) => refusal.retry_after(seconds),
            None => refusal,
        }
    }

    /// Others got ahead again and again.
    pub(crate) fn took_too_long(why: impl std::fmt::Display, retry_after: i32) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {why}")).retry_after(retry_after)
    }

    /// The server gave up waiting.
    pub(crate) fn timed_out() -> Self {
        Self::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
    }
}
