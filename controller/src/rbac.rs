//! The rights that controllers need, declared beside each controller; the manifests' ClusterRole is made from them.

use std::fmt::Write;

/// One rule of a ClusterRole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API groups; the core group is empty.
    pub groups: &'static [&'static str],
    /// Resources, with a subresource behind a slash.
    pub resources: &'static [&'static str],
    /// Verbs, such as `get`.
    pub verbs: &'static [&'static str],
    /// Why the controller needs the right, where its purpose does not say so; else empty.
    pub why: &'static str,
}

impl Rule {
    /// These verbs on these resources of one group.
    pub const fn new(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self { groups, resources, verbs, why: "" }
    }

    /// The same rule with a reason, which the manifest shows as a comment.
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
            let groups: Vec<_> =
                rule.groups.iter().map(|group| if group.is_empty() { "\"\"" } else { group }).collect();
            _ = writeln!(yaml, "  - apiGroups: [{}]", groups.join(", "));
            _ = writeln!(yaml, "    resources: [{}]", rule.resources.join(", "));
            _ = writeln!(yaml, "    verbs: [{}]", rule.verbs.join(", "));
        }
    }
    yaml
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
";
        assert_eq!(cluster_role("manager", [("job-controller", RULES)]), expected);
    }
}
