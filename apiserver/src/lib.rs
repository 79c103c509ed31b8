#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! An embedded Kubernetes API server: all kinds of Kubernetes 1.36, in process.
//!
//! [`Server`] is for people: over HTTPS, for those whom rules allow it, with objects that last. Tests use [`TestServer`]:
//! in memory, for everybody, with faults on demand. A request's way: `serve` (or [`InMemory`]) → `rest` (which resource, which verb,
//! which encoding) → `registry` (what is particular to the kind) → `store` (versions and history); changes go from the
//! store's history through `watch` to the clients.
//!
//! Objects live in memory; where they are to last, every write is also in a data folder before anybody hears of it.
//!
//! JSON is the form the server works on. One state of an object is made once, and its encodings at most once each:
//! readers and watchers share them.
//!
//! # What differs from upstream
//!
//! Requests are answered as Kubernetes 1.36 answers them, but:
//!
//! | What | Here |
//! |---|---|
//! | Who may do what | A [`TestServer`] lets everybody do everything, nodes included |
//! | Rights of nodes | As by upstream's authorizer `Node` and its plugin `NodeRestriction`; rights that do not depend on the node are those of the ClusterRole `system:node`, as it stands. Refusals of the authorizer do not say why. A mirror pod for a Node that does not exist gets 403, upstream's 404; a claim or driver that does not exist is ignored when audiences of tokens are checked. In-tree volumes are not translated to CSI. Updates of ResourceSlices are restricted, too |
//! | Constrained impersonation | Not there: who asks as another needs the verb `impersonate`; refusals name the narrower right, as upstream's |
//! | Columns of tables | Without descriptions; flow schemas in the order of their names |
//! | OpenAPI | Version 3 in JSON, without descriptions, whose text is upstream's: `kubectl explain` shows fields and types; neither version 2 nor the protobuf form |
//! | YAML bodies (but applied configurations), compression | Not served: clients fall back or are refused |
//! | Streams (`exec`, `attach`, `portforward`) | Carried byte for byte: WebSockets are not translated for nodes that speak SPDY only; they refuse, and clients fall back |
//! | Addresses of nodes | `InternalIP` first, host names later |
//! | Proxies | No `OPTIONS`; links within pages are not rewritten; bodies of requests are limited as all others |
//! | `bindings` | Refused with 501 |
//! | `componentstatuses` | Refused with 501 |
//! | Custom resources | Served at once; their schemas are not enforced, and they have no `scale`; a definition of what is built in is refused |
//! | Validation | What a wrong manifest or a faulty controller is likely to hit, not all |
//! | The service `kubernetes`, roles of the system | A [`Server`] has them, without the roles of upstream's controllers; a [`TestServer`] has none |
//! | Events | Kept for an hour after their last write, looked for each minute; a [`TestServer`] keeps them |
//! | Roles that are made of others | Begin with the rules of their parts; keeping them up to date is a controller's business, as upstream |
//! | Service accounts of pods | Where the default account or `kube-root-ca.crt` is missing, pods that ask for neither run without a token; a [`TestServer`] gives none unless told to |
//! | Quotas | What objects use is counted as upstream's controller does it, without their claims of devices; a [`TestServer`] leaves that to controllers |
//! | `metrics.k8s.io` | Served by the server itself, where [`Settings::usage`] says what containers use |
//! | Admission webhooks, bindings of admission policies, API services of other servers | Refused with 501, as they would have no effect |
//! | Flow schemas, priority levels | Kept, with a warning: requests are taken as they come |
//! | Pod security | Not enforced; who labels a namespace for it is warned |
//! | New nodes | Begin without the taint `node.kubernetes.io/not-ready` |
//! | Applied configurations | YAML keys are texts (`y` is not `true`); of keys that are there twice only the first is reported |
//! | Text of errors that Go's own libraries word, values in them | Other words, the same code and reason |
//! | Nesting | Ends at 120 levels (400), at 64 in applied configurations, so that what wraps an object has room; upstream at 10,000 |
//! | Bodies that are no Unicode | Refused with 400; upstream puts U+FFFD in its place |
//! | Addresses longer than 64 KiB | Refused with 414, by the HTTP library; upstream takes 1 MiB |
//! | Size of an object | About 2 MiB of JSON; upstream 1.5 MiB of protobuf |
//! | History | What 5 minutes bring, as upstream, but of a resource at most 10,000 changes, or 32 MiB of them |
//! | Pages of a selection | The last one says so; upstream may offer an empty one after it |
//! | Refusals | Bring no warnings along |
//! | Space | Bounded by [`Settings::quota_backend_bytes`], as etcd's is, and by the disk; then deletes and all writes that need no more space go on, and there is nothing to disarm once there is space again |
//! | Connections | Bounded in number, and by what [`Limits`] says; upstream does not bound them |
//! | Requests under way | A user may have at most as many as remain free; upstream divides them by flow schemas, and lets them wait |
//! | Audit log | Level `Metadata` for all requests of clients; no policy, no webhook, no stage `RequestReceived`; the names of new objects, reasons of the authorizer, `details` of a Status, ids and versions of objects are left out; a client's own `Audit-ID` is not heeded |
//! | Snapshots | `/debug/snapshot` has all objects at one moment, for those who may get that path and everything else; see [`SavedSnapshot`] |
//! | Clients with the server's own certificate | The user `kube-apiserver-kubelet-client` gets 401: the server has connected to itself |
//! | Quantities | Have one canonical form, also those written as `1e3` |
//!
//! `tests/parity` sends the same requests to both servers; its table `meant.rs` lists, request by request, what of this shows.

mod access;
mod admission;
mod calls;
mod clock;
mod codec;
mod depth;
mod discovery;
mod faults;
mod field;
mod in_memory;
#[cfg(test)]
mod linearizability;
mod managed_fields;
mod meta;
mod monitoring;
mod names;
mod object;
mod openapi;
mod patch;
mod recorder;
mod refusal;
mod registry;
mod rest;
mod select;
mod serve;
mod server;
mod store;
mod table;
mod test_server;
mod usage;
mod values;
mod watch;
mod weight;

pub use access::{Identity, KeyError};
pub use calls::Calls;
pub use clock::Clock;
pub use faults::{Failure, Faults};
pub use in_memory::InMemory;
pub use monitoring::{AuditError, AuditOptions};
pub use recorder::{Recorded, Recording};
pub use rest::{OutboundError, Reset, ResponseBody, Settings, Verb};
pub use serve::Limits;
pub use server::{Options, Pair, PkiError, Server, StartError};
pub use store::{EncryptionKeys, KeyFileError, OpenError, SavedSnapshot, SnapshotError, TestDisk};
pub use test_server::{Builder, TestServer};
pub use usage::{Amounts, RunningContainer, Usage};
