//! The schema table and its index.

use std::sync::{LazyLock, OnceLock};

use super::discovery::{ApiGroupVersion, Resource, Subresource};
use super::kind::Kind;
use super::message::Message;
use crate::GroupVersion;

/// The groups, resources, kinds and messages of Kubernetes.
///
/// It is parsed from a text with one row per line. Rows that begin with `group`, `resource` and `sub` come from
/// discovery, in its order. A row that begins with `message` is followed by the rows of its fields, which begin with a
/// blank; messages are sorted by name:
///
/// ```text
/// message core.v1.Pod @v1                  a kind of this group version; @* of every one
/// message authentication.v1.ExtraValue list            a list in JSON; also map=atomic,
/// union=DISCRIMINATOR,FIELD:VALUE
///  1 containers []core.v1.Container ! patch=merge:name list=map:name
/// ^number  ^name   ^type            ^flags     ^as published
/// ```
///
/// A type may begin with `*` (a pointer in Go), `[]` (a list) or `{}` (a map from text). The name `.` marks an inlined
/// message. Flags are `?` (`omitempty`), `0` (`omitzero`) and `!` (required). A row has a default only if that differs
/// from the usual one of its type; `default=` without a value means that OpenAPI publishes none.
#[derive(Debug)]
pub struct Table {
    version: &'static str,
    group_versions: Vec<ApiGroupVersion>,
    /// The messages, sorted by name.
    messages: Vec<Message>,
    /// The kinds, sorted by group, version and name. Built on first use, since kinds refer to messages within the
    /// table.
    kinds: OnceLock<Vec<Kind>>,
}

/// The group in the `apiVersion` of `PartialObjectMetadata`.
const META_GROUP: &str = "meta.k8s.io";

/// Returns the schema table. The first call parses the index, which takes well under a millisecond in an optimised
/// build; the first use of a message parses its fields.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        Table::parse(include_str!("table.txt")).expect("the schema table must be readable by its own reader")
    });
    &TABLE
}

impl Table {
    fn parse(text: &'static str) -> Option<Self> {
        let mut table =
            Self { version: "", group_versions: Vec::new(), messages: Vec::new(), kinds: OnceLock::new() };
        let mut packages = Vec::new();
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            rest = after;
            let (word, line) = line.split_once(' ')?;
            match word {
                "kubernetes" => table.version = line,
                "package" => packages.push(line.split_once(' ')?),
                "group" => {
                    let (group, version) = line.split_once(' ')?;
                    let group = if group == "-" { "" } else { group };
                    table.group_versions.push(ApiGroupVersion { group, version, resources: Vec::new() });
                }
                "resource" => {
                    let group = table.group_versions.last_mut()?;
                    group.resources.push(Resource::parse(group.group, group.version, line)?);
                }
                "sub" => {
                    let group = table.group_versions.last_mut()?;
                    let sub = Subresource::parse(group.group, group.version, line)?;
                    group.resources.last_mut()?.subresources.push(sub);
                }
                "message" => {
                    let (name, attributes) = line.split_once(' ').unwrap_or((line, ""));
                    let short = name.rsplit_once('.')?.0;
                    let (_, package) = packages.iter().find(|(package, _)| *package == short)?;
                    let end = rest.find("\nmessage ").map_or(rest.len(), |end| end + 1);
                    let end = if rest.starts_with(' ') { end } else { 0 };
                    let (body, after) = rest.split_at(end);
                    rest = after;
                    let fields = OnceLock::new();
                    table.messages.push(Message { name, package, attributes, body, fields });
                }
                _ => return None,
            }
        }
        Some(table)
    }

    /// The release of Kubernetes that the table describes, such as `v1.36.3`.
    pub fn kubernetes_version(&self) -> &'static str {
        self.version
    }

    /// The group versions in the order of discovery: the core group first, and the preferred version first within each
    /// group.
    pub fn group_versions(&'static self) -> &'static [ApiGroupVersion] {
        &self.group_versions
    }

    /// Returns a group version with its resources.
    pub fn group_version(&'static self, group: &str, version: &str) -> Option<&'static ApiGroupVersion> {
        self.group_versions.iter().find(|found| found.group == group && found.version == version)
    }

    /// Returns a resource by its plural name.
    pub fn resource(&'static self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        self.group_version(group, version)?.resources.iter().find(|resource| resource.plural == plural)
    }

    /// Returns all kinds, sorted by group, version and name.
    pub fn kinds(&'static self) -> &'static [Kind] {
        self.kinds.get_or_init(|| {
            let kinds = self.messages.iter().filter_map(|message| {
                let name = message.short_name();
                let (group, version) = match message.api_version()? {
                    "*" if name.starts_with("PartialObjectMetadata") => (META_GROUP, "v1"),
                    "*" => ("", "v1"),
                    api_version => GroupVersion::split(api_version),
                };
                Some(Kind { group, version, name, message })
            });
            let mut kinds: Vec<_> = kinds.collect();
            kinds.sort_by_key(|kind| (kind.group, kind.version, kind.name));
            kinds
        })
    }

    /// Returns a kind by its group, version and name. Every group has the kinds `DeleteOptions`, `Status` and the like.
    pub fn kind(&'static self, group: &str, version: &str, name: &str) -> Option<&'static Kind> {
        let kinds = self.kinds();
        let find = |group, version| {
            let at = kinds
                .binary_search_by_key(&(group, version, name), |kind| (kind.group, kind.version, kind.name));
            at.ok().map(|at| &kinds[at])
        };
        find(group, version).or_else(|| {
            let common = find("", "v1").or_else(|| find(META_GROUP, "v1"))?;
            (common.message.api_version() == Some("*")).then_some(common)
        })
    }

    /// Returns a kind by the `apiVersion` and `kind` of an object.
    pub fn kind_of(&'static self, api_version: &str, kind: &str) -> Option<&'static Kind> {
        let (group, version) = GroupVersion::split(api_version);
        self.kind(group, version, kind)
    }

    /// Returns all messages, sorted by name.
    pub fn messages(&'static self) -> &'static [Message] {
        &self.messages
    }

    /// Returns a message by its name in the table (`core.v1.Pod`) or in OpenAPI (`io.k8s.api.core.v1.Pod`).
    pub fn message(&'static self, name: &str) -> Option<&'static Message> {
        let at = self.messages.binary_search_by_key(&name, |message| message.name).ok();
        at.map(|at| &self.messages[at]).or_else(|| {
            let (package, short) =
                name.rsplit_once('.').filter(|(package, _)| package.starts_with("io.k8s."))?;
            self.messages.iter().find(|message| message.package == package && message.short_name() == short)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ListType, Scope, Type};

    #[test]
    fn every_message_can_be_read() {
        for message in table().messages() {
            let fields = message.fields();
            assert!(fields.is_sorted_by_key(|field| field.number), "{}", message.name);
            for field in fields {
                assert!(
                    !field.name.is_empty() || field.inlined().is_some(),
                    "{} {}",
                    message.name,
                    field.number
                );
            }
        }
        assert!(table().messages().is_sorted_by_key(|message| message.name));
        assert!(table().messages().len() > 500);
    }

    #[test]
    fn every_resource_has_a_kind_and_those_that_are_listed_a_list() {
        for resource in table().group_versions().iter().flat_map(|group| &group.resources) {
            assert!(resource.kind().is_some(), "{}", resource.plural);
            let list = resource.list_kind().and_then(Kind::item).map(|item| item.short_name());
            assert_eq!(list, resource.allows("list").then_some(resource.kind), "{}", resource.plural);
            for sub in &resource.subresources {
                assert!(sub.kind().is_some(), "{}/{}", resource.plural, sub.name);
            }
        }
    }

    #[test]
    fn a_resource_is_found_by_its_plural() {
        let pods = table().resource("", "v1", "pods").unwrap();
        assert_eq!(
            (pods.singular, pods.scope, &pods.short_names[..]),
            ("pod", Scope::Namespaced, &["po"][..])
        );
        assert_eq!(pods.subresource("eviction").unwrap().kind().unwrap().group, "policy");
        assert_eq!(table().resource("", "v1", "nodes").unwrap().scope, Scope::Cluster);
        assert!(table().resource("apps", "v1", "pods").is_none());
    }

    #[test]
    fn a_kind_of_every_group_is_found_in_each() {
        for group in ["", "apps", "meta.k8s.io"] {
            assert_eq!(table().kind(group, "v1", "DeleteOptions").unwrap().name, "DeleteOptions");
        }
        assert!(table().kind("apps", "v1", "Pod").is_none());
        assert_eq!(table().kind_of("apps/v1", "Deployment").unwrap().api_version(), "apps/v1");
    }

    #[test]
    fn a_message_is_found_by_either_name() {
        let volume = table().message("core.v1.Volume").unwrap();
        assert_eq!(volume.openapi_name(), "io.k8s.api.core.v1.Volume");
        assert!(std::ptr::eq(table().message("io.k8s.api.core.v1.Volume").unwrap(), volume));
        let inlined = volume.field("hostPath").unwrap();
        assert!(matches!(inlined.ty, Type::Message(of) if of.name == "core.v1.HostPathVolumeSource"));
    }

    #[test]
    fn what_openapi_publishes_of_a_field_is_kept() {
        let field = |message, field| table().message(message).unwrap().field(field).unwrap();
        let ports = field("core.v1.Container", "ports");
        assert_eq!((ports.patch_strategy().merge, ports.patch_strategy().merge_key), (true, "containerPort"));
        assert_eq!(ports.list_type(), ListType::Map(vec!["containerPort", "protocol"]));
        let protocol = field("core.v1.ContainerPort", "protocol");
        assert_eq!(protocol.default(), Some("TCP".into()));
        assert_eq!(protocol.enumeration(), ["SCTP", "TCP", "UDP"]);
        assert!(field("core.v1.PodSpec", "nodeSelector").is_atomic_map());
        assert!(field("apps.v1.DeploymentSpec", "selector").is_atomic_map());
        assert!(field("apps.v1.DeploymentSpec", "strategy").patch_strategy().retain_keys);
        assert_eq!(field("core.v1.Pod", "spec").default(), Some(serde_json::json!({})));
        assert_eq!(field("core.v1.ObjectReference", "kind").default(), None);
        let queuing = table().message("flowcontrol.v1.LimitResponse").unwrap().unions().next().unwrap();
        assert_eq!(queuing.discriminator, "type");
        assert_eq!(queuing.fields().collect::<Vec<_>>(), [("queuing", "Queuing")]);
    }
}
