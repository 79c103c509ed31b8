//! Answers of `metrics.k8s.io`.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::Value;
use steersman_api::ObjectKey;

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
use crate::usage::{self, Usage};

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
            let told = self.usage_of(usage, call, object.into_iter().collect()).pop();
            let told = told.ok_or_else(|| Refusal::not_found(&call.resource, &key.to_string()))?;
            return self.object_answer(StatusCode::OK, &told, shape);
        }
        let ListOptions { selection, .. } = ListOptions::parse(request)?;
        let snapshot = self.store().snapshot(&call.resource.plural, &selection.namespace, None);
        let snapshot = snapshot.map_err(|_| Refusal::list_expired())?;
        let mut objects = snapshot.objects;
        objects.retain(|object| selection.matches(object));
        let objects = self.usage_of(usage, call, objects);
        self.list_answer(
            request,
            Page { version: snapshot.version, objects, continue_from: None, remaining: None },
        )
        .await
    }

    /// The usage of those of these nodes or pods of which it is known.
    fn usage_of(&self, usage: &dyn Usage, call: &Call, objects: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
        let now = self.clock().now();
        let shown = |object: &Object, metrics: Value| {
            Arc::new(Object::unstored(Arc::clone(&call.resource), object.key.clone(), metrics))
        };
        if call.resource.namespaced() {
            let told = objects.iter().filter_map(|pod| Some(shown(pod, usage::of_pod(pod, usage, now)?)));
            return told.collect();
        }
        let pods = self.store().snapshot(&"pods".into(), "", None).map(|snapshot| snapshot.objects);
        let pods = pods.unwrap_or_default();
        let sums = usage::by_node(pods.iter().map(Arc::as_ref), usage);
        let total = |node: &Object| sums.get(node.key.name.as_str()).copied().unwrap_or_default();
        let told = objects
            .iter()
            .filter_map(|node| Some(shown(node, usage::of_node(node, total(node), usage, now)?)));
        told.collect()
    }
}
