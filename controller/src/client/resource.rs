//! A resource that is known only at run time.

use http::Method;
use json_patch::merge;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use steersman_api::{
    ArcStr, GroupVersion, GroupVersionResource, LabelSelector, Meta, ObjectKey, ResourceVersion, Uid,
};
use steersman_client::Sender;
use steersman_informer::wire::Object;
use steersman_informer::wire::meta::MetaOnly;

use super::scale::Scale;
use super::{Changed, Deleted, list};
use crate::call::{APPLY_PATCH, Accept, Answer, Call, Content, JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH};
use crate::controller::SyncError;

/// Reads and writes objects of one resource, without a type. Cheap to clone.
///
/// For controllers of kinds that they learn from discovery. Controllers of built-in kinds use [`Client`](super::Client).
#[derive(Clone)]
pub struct ResourceClient {
    sender: Sender,
    resource: GroupVersionResource,
    /// The kind's name, for errors.
    kind: ArcStr,
}

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself.
    None,
    /// Its status.
    Status,
    /// The decision about a request, of CertificateSigningRequests.
    Approval,
    /// The finalizers in the spec of a namespace. An update of the namespace itself keeps them.
    Finalize,
}

/// A patch of an object.
#[derive(Clone, Debug)]
pub enum Patch {
    /// A JSON merge patch: merges maps, removes members that are null, replaces lists as a whole.
    Merge(Value),
    /// A strategic merge patch: also merges the lists of built-in kinds, by their merge keys. Custom resources have none.
    Strategic(Value),
    /// A server-side apply in the name of a field manager. It creates the object if there is none, and takes over fields
    /// that other managers own.
    Apply {
        /// The field manager.
        manager: &'static str,
        /// The fields that the manager owns from now on, with `apiVersion` and `kind`.
        object: Value,
    },
}

/// How an object is to be deleted, and on which conditions.
#[derive(Clone, Debug, Default)]
pub struct Delete {
    /// Deletes only the object of this uid.
    pub uid: Option<Uid>,
    /// Deletes the object only in this version.
    pub resource_version: Option<ResourceVersion>,
    /// What happens to the object's dependents. `None`: the kind's default.
    pub propagation: Option<Propagation>,
    /// The grace period in seconds. `None`: the object's own.
    pub grace_period_seconds: Option<i64>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The dependents stay, without the owner reference.
    Orphan,
    /// The garbage collector deletes the dependents after the object is gone.
    Background,
    /// The object stays until its dependents are gone.
    Foreground,
}

impl Propagation {
    /// The value of `propagationPolicy`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Background => "Background",
            Self::Foreground => "Foreground",
        }
    }
}

impl Delete {
    /// Deletes the object of this uid, with its own grace period and its kind's propagation policy.
    pub fn of(uid: &Uid) -> Self {
        Self { uid: Some(uid.clone()), ..Self::default() }
    }

    fn content(&self) -> Content {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(uid) = &self.uid {
            options["preconditions"]["uid"] = uid.to_string().into();
        }
        if let Some(version) = &self.resource_version {
            options["preconditions"]["resourceVersion"] = version.to_string().into();
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = propagation.as_str().into();
        }
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        Content::json(JSON, &options)
    }
}

impl Patch {
    fn content(&self) -> Content {
        match self {
            Self::Merge(patch) => Content::json(MERGE_PATCH, patch),
            Self::Strategic(patch) => Content::json(STRATEGIC_MERGE_PATCH, patch),
            Self::Apply { object, .. } => Content::json(APPLY_PATCH, object),
        }
    }
}

impl ResourceClient {
    /// Makes a client of a resource. `kind` names the kind in errors.
    pub fn new(sender: Sender, resource: GroupVersionResource, kind: impl Into<ArcStr>) -> Self {
        Self { sender, resource, kind: kind.into() }
    }

    /// The resource.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.resource
    }

    pub(super) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// A version of the resource that is no older than this call.
    ///
    /// # Errors
    /// The call failed.
    pub async fn version(&self) -> Result<ResourceVersion, SyncError> {
        let what = || format!("reading the version of {}", self.resource);
        let path = format!("{}?limit=1", self.resource.path(""));
        self.send(what, Method::GET, path, Accept::Object, None).await?.list_version()
    }

    /// Reads an object with a quorum read. `None` if there is no object of that name.
    ///
    /// # Errors
    /// The call failed.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Answer>, SyncError> {
        self.read(key, "", Accept::Object).await
    }

    /// Reads an object in JSON, with all of its fields.
    ///
    /// # Errors
    /// The call failed, or the answer is no JSON.
    pub async fn get_json(&self, key: &ObjectKey) -> Result<Option<Value>, SyncError> {
        let answer = self.read(key, "", Accept::Json).await?;
        answer.map(|answer| answer.json()).transpose()
    }

    /// Finds an object by a quorum list, and returns it in JSON as [`get_json`](Self::get_json) does. For roles that grant
    /// `list` and not `get`.
    ///
    /// # Errors
    /// The call failed, or the answer is no JSON.
    pub async fn find_json(&self, key: &ObjectKey) -> Result<Option<Value>, SyncError> {
        let what = || format!("finding {} {key}", self.kind);
        let name = utf8_percent_encode(&key.name, NON_ALPHANUMERIC);
        let path = format!("{}?fieldSelector=metadata.name%3D{name}", self.resource.path(&key.namespace));
        let mut list = self.send(what, Method::GET, path, Accept::Json, None).await?.json()?;
        let Some(found) = list["items"].as_array_mut().and_then(Vec::pop) else { return Ok(None) };
        // The items of a list lack what the list says for all of them.
        let GroupVersionResource { group, version, .. } = self.resource.clone();
        let api_version = GroupVersion { group, version }.to_string();
        let mut object = json!({"apiVersion": api_version, "kind": self.kind.as_str()});
        merge(&mut object, &found);
        Ok(Some(object))
    }

    /// Reads the metadata of an object with a quorum read. `None` if there is no object of that name.
    ///
    /// # Errors
    /// The call failed, or the answer can't be decoded.
    pub async fn get_meta(&self, key: &ObjectKey) -> Result<Option<Meta>, SyncError> {
        let answer = self.read(key, "", Accept::Metadata).await?;
        let meta = |answer: Answer| answer.object::<MetaOnly>(0).map(|object| object.meta().clone());
        answer.map(meta).transpose()
    }

    /// Reads the metadata of an object with a quorum read, and the text of its `resourceVersion`, for API servers whose versions
    /// are no numbers. `None` if there is no object of that name.
    ///
    /// # Errors
    /// The call failed, or the answer can't be decoded.
    pub async fn get_meta_and_version(&self, key: &ObjectKey) -> Result<Option<(Meta, String)>, SyncError> {
        let Some(answer) = self.read(key, "", Accept::MetadataJson).await? else { return Ok(None) };
        let version = answer.json()?["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok(Some((answer.object::<MetaOnly>(0)?.meta().clone(), version)))
    }

    /// Reads the scale of an object. `None` if there is no object of that name.
    ///
    /// # Errors
    /// The call failed, the resource has no scale, or the answer can't be decoded.
    pub async fn scale(&self, key: &ObjectKey) -> Result<Option<Scale>, SyncError> {
        match self.existing_scale(key).await {
            Ok(scale) => Ok(Some(scale)),
            Err(error) if error.is("NotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the scale of an object. That there is no such object is an error, in the API server's words.
    ///
    /// # Errors
    /// The call failed, there is no object of that name, the resource has no scale, or the answer can't be decoded.
    pub async fn existing_scale(&self, key: &ObjectKey) -> Result<Scale, SyncError> {
        let answer = self.call("reading", Method::GET, key, "/scale", Accept::Json, None).await?;
        Scale::parse(answer.json()?)
    }

    /// Sets the wanted number of replicas. `scale` is the state that the caller decided on: if the object has changed
    /// since, the outcome is [`Changed::Conflict`].
    ///
    /// # Errors
    /// The call failed.
    pub async fn set_scale(
        &self,
        key: &ObjectKey,
        scale: &Scale,
        replicas: i32,
    ) -> Result<Changed<Scale>, SyncError> {
        let content = Content::json(JSON, &scale.with_replicas(replicas));
        let answer = self.call("scaling", Method::PUT, key, "/scale", Accept::Json, Some(content)).await;
        Changed::of(answer, |answer| Scale::parse(answer.json()?).map(Into::into))
    }

    /// Creates an object in a namespace. An object of a cluster-wide kind has none: pass the empty text.
    ///
    /// # Errors
    /// The call failed. The caller must tell `AlreadyExists` and the cause `NamespaceTerminating` apart, as
    /// [`Client::create`](super::Client::create) does.
    pub async fn create(&self, namespace: &str, object: Content) -> Result<Answer, SyncError> {
        self.create_as(namespace, object, Accept::Object).await
    }

    /// As [`create`](Self::create), with the answer in a form of the caller's choice.
    pub(super) async fn create_as(
        &self,
        namespace: &str,
        object: Content,
        accept: Accept,
    ) -> Result<Answer, SyncError> {
        let what = || format!("creating {} in namespace {namespace:?}", self.kind);
        self.send(what, Method::POST, self.resource.path(namespace), accept, Some(object)).await
    }

    /// Replaces an object or a subresource. The object's `resourceVersion`, if it has one, is a precondition.
    ///
    /// # Errors
    /// The call failed.
    pub async fn update(
        &self,
        key: &ObjectKey,
        part: Subresource,
        object: Content,
    ) -> Result<Answer, SyncError> {
        self.call("updating", Method::PUT, key, part.path(), Accept::Object, Some(object)).await
    }

    /// As [`update`](Self::update), with the answer in JSON, with all of its fields.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn update_json(
        &self,
        key: &ObjectKey,
        part: Subresource,
        object: Content,
    ) -> Result<Answer, SyncError> {
        self.call("updating", Method::PUT, key, part.path(), Accept::Json, Some(object)).await
    }

    /// Patches an object or a subresource.
    ///
    /// # Errors
    /// The call failed.
    pub async fn patch(
        &self,
        key: &ObjectKey,
        part: Subresource,
        patch: &Patch,
    ) -> Result<Answer, SyncError> {
        self.patch_as(key, part, patch, Accept::Object).await
    }

    /// As [`patch`](Self::patch), with the answer in a form of the caller's choice.
    pub(super) async fn patch_as(
        &self,
        key: &ObjectKey,
        part: Subresource,
        patch: &Patch,
        accept: Accept,
    ) -> Result<Answer, SyncError> {
        let mut suffix = part.path().to_owned();
        if let Patch::Apply { manager, .. } = patch {
            suffix.push_str("?force=true&fieldManager=");
            suffix.push_str(manager);
        }
        self.call("patching", Method::PATCH, key, &suffix, accept, Some(patch.content())).await
    }

    /// Patches an object and returns its new metadata.
    ///
    /// # Errors
    /// The call failed.
    pub async fn patch_meta(&self, key: &ObjectKey, patch: &Patch) -> Result<Changed<Meta>, SyncError> {
        let answer = self.patch_as(key, Subresource::None, patch, Accept::Metadata).await;
        Changed::of(answer, |answer| Ok(answer.object::<MetaOnly>(0)?.meta().clone().into()))
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The call failed.
    pub async fn delete(&self, key: &ObjectKey, delete: &Delete) -> Result<Answer, SyncError> {
        self.call("deleting", Method::DELETE, key, "", Accept::Object, Some(delete.content())).await
    }

    /// Deletes an object and returns the outcome.
    ///
    /// # Errors
    /// The call failed.
    pub async fn delete_meta(&self, key: &ObjectKey, delete: &Delete) -> Result<Deleted<Meta>, SyncError> {
        Deleted::of(self.delete(key, delete).await)
    }

    /// Deletes all objects of a namespace.
    ///
    /// # Errors
    /// The call failed. The API server may have deleted some of the objects.
    pub async fn delete_collection(&self, namespace: &str, delete: &Delete) -> Result<(), SyncError> {
        let what = || format!("deleting all {} of namespace {namespace:?}", self.resource);
        let path = self.resource.path(namespace);
        let content = Some(delete.content());
        // The answer lists the objects, of which there may be very many.
        let call = Call { what: what(), method: Method::DELETE, path, accept: Accept::MetadataList, content };
        call.send_and_discard(&self.sender).await
    }

    /// Calls `look` with the metadata of each object of a namespace, by a quorum list. An empty namespace stands for all.
    /// Holds one object at a time.
    ///
    /// # Errors
    /// The call failed, or the metadata of an object can't be decoded.
    pub async fn for_each_meta(&self, namespace: &str, mut look: impl FnMut(&Meta)) -> Result<(), SyncError> {
        let look = |object: MetaOnly| look(object.meta());
        list::walk(self, 0, namespace, &LabelSelector::everything(), look).await.map(drop)
    }

    async fn read(&self, key: &ObjectKey, part: &str, accept: Accept) -> Result<Option<Answer>, SyncError> {
        match self.call("reading", Method::GET, key, part, accept, None).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is("NotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn call(
        &self,
        doing: &str,
        method: Method,
        key: &ObjectKey,
        suffix: &str,
        accept: Accept,
        content: Option<Content>,
    ) -> Result<Answer, SyncError> {
        let what = || format!("{doing} {} {key}{}", self.kind, suffix.split('?').next().unwrap_or_default());
        // Users write names and namespaces into references. None of them may turn the path into that of another object.
        let segment = |of: &str, text: &str| {
            path_segment(text)
                .map_err(|why| SyncError::Failed(format!("{}: invalid {of} {text:?}: [{why}]", what())))
        };
        let namespace = match &*key.namespace {
            "" => String::new(),
            namespace => segment("namespace", namespace)?,
        };
        let mut path = self.resource.path(&namespace);
        path.push('/');
        path.push_str(&segment("resource name", &key.name)?);
        path.push_str(suffix);
        self.send(what, method, path, accept, content).await
    }

    async fn send(
        &self,
        what: impl FnOnce() -> String,
        method: Method,
        path: String,
        accept: Accept,
        content: Option<Content>,
    ) -> Result<Answer, SyncError> {
        Call { what: what(), method, path, accept, content }.send(&self.sender).await
    }
}

/// The ASCII characters of names that a path must not contain as they are.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A name as a segment of a path. Names may come from users: an owner reference can name any owner.
///
/// # Errors
/// What is wrong with a name that can't be a segment. Upstream's `IsPathSegmentName`.
pub fn path_segment(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("may not be empty".to_owned());
    }
    if name == "." || name == ".." {
        return Err(format!("may not be '{name}'"));
    }
    match ['/', '%'].into_iter().find(|bad| name.contains(*bad)) {
        Some(bad) => Err(format!("may not contain '{bad}'")),
        None => Ok(utf8_percent_encode(name, ENCODED).to_string()),
    }
}

impl Subresource {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Status => "/status",
            Self::Approval => "/approval",
            Self::Finalize => "/finalize",
        }
    }
}
