//! Answers of `metrics.k8s.io`.

use std::sync::Arc;

use http::{Response, StatusCode};
use steersman_api::ObjectKey;
use tokio::task::yield_now;

use super::answer::shape_of;
use super::body::ResponseBody;
use super::negotiate::Answered;
use super::options::ListOptions;
use super::read::Page;
use super::request::{Call, Request, Verb};
use super::server::ApiServer;
use crate::refusal::{Refusal, Result};
use crate::registry::is_about_usage;
use crate::store::Object;
use crate::usage::{self, Sums, Usage};

/// How many objects are read until other requests have their turn.
const AT_ONCE: usize = 256;

/// Whether a call asks what nodes or pods use.
pub(super) fn asks_for_usage(call: &Call) -> bool {
    is_about_usage(&call.resource.table)
}

impl ApiServer {
    /// Tells what nodes or pods use.
    pub(super) async fn tell_usage(
        &self,
        usage: &dyn Usage,
        request: &Request,
    ) -> Result<Response<ResponseBody>> {
        let call = &request.call;
        if call.verb == Verb::Get {
            let shape = shape_of(request, Answered::Object)?;
            let key = ObjectKey::new(call.namespace.as_str(), call.name.as_str());
            let object = self.store().get(&call.resource.plural, &key);
            let told = self.usage_of(usage, call, object.into_iter().collect()).await.pop();
            let told = told.ok_or_else(|| Refusal::not_found(&call.resource, &key.to_string()))?;
            return self.object_answer(StatusCode::OK, &told, shape);
        }
        let ListOptions { selection, .. } = ListOptions::parse(request)?;
        let snapshot = self.store().snapshot(&call.resource.plural, &selection.namespace, None);
        let snapshot = snapshot.map_err(|_| Refusal::list_expired())?;
        let mut objects = snapshot.objects;
        objects.retain(|object| selection.matches(object));
        let objects = self.usage_of(usage, call, objects).await;
        self.list_answer(
            request,
            Page { version: snapshot.version, objects, continue_from: None, remaining: None },
        )
        .await
    }

    /// The usage of those of these nodes or pods of which it is known.
    async fn usage_of(&self, usage: &dyn Usage, call: &Call, objects: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
        let now = self.clock().now();
        let sums = if call.resource.namespaced() { Sums::default() } else { self.sums(usage).await };
        let mut told = Vec::new();
        for some in objects.chunks(AT_ONCE) {
            told.extend(some.iter().filter_map(|object| {
                let metrics = if call.resource.namespaced() {
                    usage::of_pod(object, usage, now)?
                } else {
                    usage::of_node(object, sums.of(&object.key.name), usage, now)?
                };
                Some(Arc::new(Object::unstored(Arc::clone(&call.resource), object.key.clone(), metrics)))
            }));
            yield_now().await;
        }
        told
    }

    /// What the pods of each node use.
    async fn sums(&self, usage: &dyn Usage) -> Sums {
        let pods = self.store().snapshot(&"pods".into(), "", None).map(|snapshot| snapshot.objects);
        let mut sums = Sums::default();
        for some in pods.unwrap_or_default().chunks(AT_ONCE) {
            some.iter().for_each(|pod| sums.add(pod, usage));
            yield_now().await;
        }
        sums
    }
}
