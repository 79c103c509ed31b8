//! Objects kept whole: k8s-openapi's types, and custom resources.

use bytes::Bytes;
use kube::Resource;
use serde::de::DeserializeOwned;
use steersman_api::{GroupVersionResource, Meta};

use super::object::Representation;
use super::{DecodeError, Encoding, Object};

/// An object of any serde type, kept whole beside its metadata. For kinds that are few, and for a user's own resources.
///
/// Such types are read as JSON: they have no protobuf decoder.
#[derive(Clone, Debug)]
pub struct Whole<T> {
    meta: Meta,
    /// `None` for what could not be read.
    object: Option<T>,
}

impl<T> Whole<T> {
    /// The object; `None` if it could not be read, in which case only its metadata is known.
    pub fn object(&self) -> Option<&T> {
        self.object.as_ref()
    }
}

/// Kinds known when the program is written: k8s-openapi's, or derived with kube's `CustomResource`.
impl<T> Object for Whole<T>
where
    T: Resource<DynamicType = ()> + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    const REPRESENTATION: Representation = Representation::Json;

    fn resource() -> Option<GroupVersionResource> {
        Some(GroupVersionResource::new(&*T::group(&()), &*T::version(&()), &*T::plural(&())))
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn decode(body: &Bytes, encoding: Encoding, _groups: u64) -> Result<Self, DecodeError> {
        let meta = super::meta::decode(body, encoding)?;
        Ok(Self { meta, object: Some(serde_json::from_slice(body)?) })
    }
    fn unreadable(meta: Meta) -> Self {
        Self { meta, object: None }
    }
}
