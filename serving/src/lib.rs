#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! What every HTTPS server of Steersman stands on: a listener with limits, TLS, authentication and authorization.
//!
//! ```text
//! accept       accepts connections, at most so many; closes one to make room for a new one
//! listen       a server over TLS
//!   ─▶ connection   handshake, HTTP/1.1 or HTTP/2, limits of heads, streams and time
//!        ─▶ Service    the server itself: authenticates, authorizes and answers each request
//! tunnel       carries the bytes of two upgraded connections
//! tls          serving certificates, read again when their files change; versions, cipher suites, key exchanges
//! auth         who a request comes from (proxies' headers, client certificates, tokens), and what that user may do
//! ```
//!
//! Any client that reaches the port may open connections, so a client that is not known costs little. A *stranger* is a
//! connection on which no request of a user (other than the anonymous one) was authorized yet. It is closed after 10 idle
//! seconds, after 60 seconds in all, and at once if there is no room for a new connection ([`accept()`] has the rule, which
//! holds for every port of Steersman). The size of heads and the number
//! of concurrent requests are bounded, more tightly without a verified client certificate. Reviews are bounded in number,
//! both those under way and those that wait.
//!
//! A server has a [`Service`], an [`auth::Authenticator`], an [`auth::Authorizer`] and [`tls::ServingCertificates`], and
//! passes them to [`serve`]. The service calls the authenticator and the authorizer itself: what needs a right, and which
//! right, is its policy.

pub mod answers;
pub mod auth;
pub mod blocking;
pub mod socket;
pub mod tls;
pub mod tunnel;

mod accept;
mod activity;
mod connection;
mod error;
mod files;
mod listen;
mod once_per_minute;
mod origin;
mod peer;
mod shares;

pub use accept::{Connections, Evictable, Standing, accept};
pub use activity::{Activity, Busy};
pub use connection::Streams;
pub use error::Error;
pub use files::FromFiles;
pub use listen::{Serving, bind, serve};
pub use once_per_minute::OncePerMinute;
pub use origin::{Origin, Origins};
pub use peer::{Peer, Service};
pub use shares::Shares;
