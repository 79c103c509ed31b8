//! Which requests are meant: by faults that hit them, and by tests that count them.

use crate::rest::{Call, Verb};

/// A pattern of requests. What is not said fits anything.
///
/// ```
/// use steersman_apiserver::{Calls, Verb};
/// let pod_creates = Calls::to("pods").verb(Verb::Create);
/// let status_writes = Calls::to("jobs").subresource("status");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Calls {
    verb: Option<Verb>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Option<String>,
}

impl Calls {
    /// All requests to resources.
    pub fn all() -> Self {
        Self::default()
    }

    /// Requests to a resource, named by its plural (`jobs`), whatever its group.
    pub fn to(resource: &str) -> Self {
        Self { resource: Some(resource.to_owned()), ..Self::default() }
    }

    /// Only this verb.
    #[must_use]
    pub fn verb(self, verb: Verb) -> Self {
        Self { verb: Some(verb), ..self }
    }

    /// Only this subresource; the empty text stands for the objects themselves.
    #[must_use]
    pub fn subresource(self, subresource: &str) -> Self {
        Self { subresource: Some(subresource.to_owned()), ..self }
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Only to the object of this name. Creates have the name of their object's body.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Only by clients whose user agent contains this.
    #[must_use]
    pub fn user_agent(self, part: &str) -> Self {
        Self { user_agent: Some(part.to_owned()), ..self }
    }

    pub(crate) fn fit(&self, call: &Call, user_agent: &str) -> bool {
        let fits =
            |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        self.verb.is_none_or(|verb| verb == call.verb)
            && fits(&self.resource, &call.resource.plural)
            && fits(&self.subresource, &call.subresource)
            && fits(&self.namespace, &call.namespace)
            && fits(&self.name, &call.name)
            && self.user_agent.as_ref().is_none_or(|part| user_agent.contains(part.as_str()))
    }
}
