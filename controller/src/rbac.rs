//! The rights that each controller declares. The manifests' ClusterRole is generated from them.

use std::fmt::Write;

/// One rule of a ClusterRole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API groups; the core group is empty.
    pub groups: &'static [&'static str],
    /// Resources, each with its subresource after a slash.
    pub resources: &'static [&'static str],
    /// Verbs, such as `get`.
    pub verbs: &'static [&'static str],
    /// The names of the objects that the rule is about; empty: all objects.
    pub names: &'static [&'static str],
    /// Why the controller needs the right, where its purpose does not say so; else empty.
    pub why: &'static str,
}

impl Rule {
    /// A rule that allows these verbs on these resources.
    pub const fn new(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self { groups, resources, verbs, names: &[], why: "" }
    }

    /// The same rule for objects of these names alone. RBAC ignores such a rule for `list`, `watch` and `create`, unless the
    /// request names the object.
    #[must_use]
    pub const fn named(mut self, names: &'static [&'static str]) -> Self {
        self.names = names;
        self
    }

    /// The same rule with a reason, which becomes a comment in the manifest. It must be one line.
    #[must_use]
    pub const fn because(mut self, why: &'static str) -> Self {
        self.why = why;
        self
    }
}

/// A ClusterRole in YAML: the rules of each controller under the controller's name.
pub fn cluster_role<'a>(name: &str, controllers: impl IntoIterator<Item = (&'a str, &'a [Rule])>) -> String {
    let mut yaml = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {name}\nrules:\n"
    );
    for (controller, rules) in controllers {
        _ = writeln!(yaml, "  # {controller}");
        for rule in rules {
            if !rule.why.is_empty() {
                _ = writeln!(yaml, "  # {}", rule.why);
            }
            _ = writeln!(yaml, "  - apiGroups: [{}]", items(rule.groups));
            _ = writeln!(yaml, "    resources: [{}]", items(rule.resources));
            if !rule.names.is_empty() {
                _ = writeln!(yaml, "    resourceNames: [{}]", items(rule.names));
            }
            _ = writeln!(yaml, "    verbs: [{}]", items(rule.verbs));
        }
    }
    yaml
}

/// The items of a YAML list. Nothing would be no item, and a bare `*` an alias, so these have quotes.
fn items(names: &[&str]) -> String {
    let quoted = |name: &&str| {
        if name.is_empty() || name.contains('*') { format!("\"{name}\"") } else { (*name).to_owned() }
    };
    names.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_names_the_controllers_and_their_reasons() {
        const RULES: &[Rule] = &[
            Rule::new(&[""], &["pods"], &["list", "watch"]),
            Rule::new(&["batch"], &["jobs/finalizers"], &["update"])
                .because("Pods block their job's deletion."),
            Rule::new(&["*"], &["*/scale"], &["get"]),
            Rule::new(&[""], &["configmaps"], &["get"]).named(&["a", "b"]),
        ];
        let expected = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: manager
rules:
  # job-controller
  - apiGroups: [\"\"]
    resources: [pods]
    verbs: [list, watch]
  # Pods block their job's deletion.
  - apiGroups: [batch]
    resources: [jobs/finalizers]
    verbs: [update]
  - apiGroups: [\"*\"]
    resources: [\"*/scale\"]
    verbs: [get]
  - apiGroups: [\"\"]
    resources: [configmaps]
    resourceNames: [a, b]
    verbs: [get]
";
        assert_eq!(cluster_role("manager", [("job-controller", RULES)]), expected);
    }
}
