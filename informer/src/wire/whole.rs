//! Objects kept whole: k8s-openapi's types, and custom resources.

use bytes::Bytes;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use steersman_api::{GroupVersionResource, Meta};

use super::object::Representation;
use super::{DecodeError, Encoding, Object};

/// An object of any serde type, kept whole. For kinds with few objects, and for custom resources.
///
/// The informer requests such kinds as JSON, since the types have no protobuf decoder. It drops the managed fields: they are
/// the larger half of many objects, and only the API server uses them.
#[derive(Clone, Debug)]
pub struct Whole<T> {
    meta: Meta,
    /// `None` if the object could not be read.
    object: Option<T>,
    /// The length of the object in JSON, which stands for the memory that its fields hold.
    encoded: usize,
}

impl<T> Whole<T> {
    /// The object; `None` if it could not be read, in which case only its metadata is known.
    pub fn object(&self) -> Option<&T> {
        self.object.as_ref()
    }
}

/// Types of k8s-openapi, and types derived with kube's `CustomResource`.
impl<T> Object for Whole<T>
where
    T: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + Sync + 'static,
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
        // Reads from a string, as kube does: so the large decoders of these types are compiled only once.
        let text = std::str::from_utf8(body).map_err(serde_json::Error::custom)?;
        let mut object: T = serde_json::from_str(text)?;
        object.meta_mut().managed_fields = None;
        Ok(Self { meta, object: Some(object), encoded: body.len() })
    }
    fn unreadable(meta: Meta) -> Self {
        Self { meta, object: None, encoded: 0 }
    }
    fn with_meta(&self, meta: Meta) -> Self {
        Self { meta, object: self.object.clone(), encoded: self.encoded }
    }
    fn heap_bytes(&self) -> usize {
        super::meta_bytes(&self.meta) + self.encoded
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn read(body: &'static [u8]) -> Result<Whole<ConfigMap>, DecodeError> {
        Whole::decode(&Bytes::from_static(body), Encoding::Json, 0)
    }

    #[test]
    fn an_object_is_kept_but_for_who_manages_it() {
        let whole = read(
            br#"{"metadata": {"name": "m", "managedFields": [{"manager": "kubectl"}], "labels": {"a": "b"}}, "data": {"k": "v"}}"#,
        );
        let whole = whole.unwrap();
        let map = whole.object().unwrap();
        assert_eq!(map.data.as_ref().unwrap()["k"], "v");
        assert_eq!(map.metadata.labels.as_ref().unwrap()["a"], "b");
        assert_eq!(map.metadata.managed_fields, None);
        assert_eq!(whole.meta().key.name.as_str(), "m");
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        let error = read(b"{\"metadata\": {\"name\": \"m\"}, \"data\": {\"k\": \"\xff\"}}").unwrap_err();
        assert!(error.to_string().contains("utf-8"), "{error}");
    }
}
