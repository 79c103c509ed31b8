#![doc = include_str!("../README.md")]

pub mod bootstrap_token;
pub mod condition;
pub mod duration;
pub mod go_json;
pub mod gvk;
pub mod key;
pub mod merge_patch;
pub mod meta;
pub mod names;
pub mod node_labels;
pub mod owner;
pub mod quantity;
pub mod resource_version;
pub mod schema;
pub mod selector;
pub mod shared_list;
pub mod status;
pub mod time;
pub mod uid;
pub mod wire;

pub use arcstr::ArcStr;
pub use duration::{GoDuration, InvalidDuration};
pub use gvk::{GroupVersion, GroupVersionKind, GroupVersionResource};
pub use key::ObjectKey;
pub use meta::{Deletion, Meta};
pub use owner::OwnerReference;
pub use quantity::Quantity;
pub use resource_version::ResourceVersion;
pub use selector::{FieldSelector, LabelSelector};
pub use shared_list::SharedList;
pub use status::Status;
pub use time::Time;
pub use uid::Uid;
