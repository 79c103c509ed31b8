//! What is meant to differ.

/// A difference, and why it is there.
#[derive(Debug)]
pub struct Meant {
    pub why: &'static str,
    /// Where the answers differ, such as `body.message`; with `*` at its end, also within.
    pub at: &'static [&'static str],
    /// The steps, each as `script: title`; with `*` at its end, all that begin so.
    pub steps: &'static [&'static str],
}

/// The table. What is not in it may not differ; what is in it must, in every step that it names.
pub const MEANT: &[Meant] = &[
    Meant {
        why: "Go's decoders word their errors by Go's types",
        at: &["body.message"],
        steps: &[
            "objects: create an array",
            "objects: create a text",
            "objects: create what is no JSON",
            "objects: create with more behind the object",
            "objects: data that are no texts",
            "objects: binary data that are no base64",
            "metadata: labels that are no texts",
            "metadata: labels that are no map",
            "metadata: a time that is none",
            "metadata: a time that is a number",
            "metadata: a name that is a number",
            "metadata: metadata that are a text",
            "field_validation: a wrong type and unknown fields",
            "field_validation: a wrong type deep within",
            "field_validation: a text where a list should be",
            "field_validation: a number out of range",
            "field_validation: a number far out of range",
            "field_validation: a whole number written as a float",
            "field_validation: a number with an exponent",
            "field_validation: a truth that is a text",
            "field_validation: a quantity that is none",
            "deletes: with a wrong type",
            "deletes: with no JSON",
            "deletes: with an array",
            "others: a secret that is no base64",
            "others: a lease with a time of seconds",
            "patches: merge: an array",
            "patches: merge: null",
            "patches: merge: no JSON",
            "patches: merge: an empty body",
            "patches: strategic: an array",
            "patches: json: an object",
            "patches: json: a text",
            "patches: json: no JSON",
            "protocol: a body in protobuf that is JSON",
            "protocol: a body in protobuf that is garbage",
            "protocol: a body in protobuf that is only the magic",
            "protocol: a body in JSON that is protobuf",
            "protocol: a body with a mark of byte order",
            "protocol: a body with a number that is none",
            "protocol: a body with a comment",
            "protocol: a body with a comma too many",
            "lists: a token that is none",
            "lists: a token that is base64 only",
            "protocol: a token of 10 KB",
        ],
    },
    Meant {
        why: "YAML is read by another reader",
        at: &["body.message"],
        steps: &["apply: no YAML", "apply: absurd nesting"],
    },
    Meant {
        why: "What the server adds to a new object, and a list that is empty, have no manager",
        at: &["body.metadata.managedFields.0.fieldsV1.*"],
        steps: &[
            "others: a cluster role that gathers",
            "workloads: a daemon set",
            "workloads: a daemon set's template",
        ],
    },
    Meant {
        why: "Go's decoders word their errors by Go's types, here within a cause",
        at: &["body.message", "body.details.causes*"],
        steps: &["others: a secret for registries"],
    },
    Meant {
        why: "Names a file of upstream's, or a conversion that does not exist here",
        at: &["body.message"],
        steps: &[
            "objects: create of another kind",
            "objects: create of another version",
            "objects: create of another group",
            "deletes: with options of another kind",
            "protocol: a body in protobuf of another kind",
            "protocol: a body in protobuf of an unknown kind",
            "subresources: scale: put of another kind",
        ],
    },
    Meant {
        why: "The value is shown by its members in the order of their names; upstream has the order and the names of Go's fields, or Go's own form",
        at: &["body.message", "body.details.causes*"],
        steps: &[
            "metadata: two controllers",
            "metadata: a patch of the kind",
            "metadata: a patch of the version of the kind",
            "field_validation: unknown in a merge patch, strict",
            "field_validation: duplicate in a merge patch, strict",
            "field_validation: duplicate and unknown in a merge patch, strict",
            "field_validation: unknown in a strategic patch, strict",
            "field_validation: duplicate in a strategic patch, strict",
            "field_validation: unknown in a JSON patch, strict",
            "field_validation: unknown in the operation of a JSON patch, strict",
            "field_validation: duplicate in the operation of a JSON patch, strict",
            "patches: merge: a wrong type",
            "patches: strategic: a wrong type",
            "patches: strategic: a list where a map should be",
            "patches: strategic: a map where a list should be",
            "patches: json: a result of a wrong type",
            "others: a role binding to another role",
            "services: a service with one port twice",
            "workloads: a deployment with a wrong strategy",
            "workloads: a stateful set with wrong policies",
            "workloads: a disruption budget with both",
            "batch: the template does not",
            "protocol: a body with a zero byte in a name",
        ],
    },
    Meant {
        why: "Members stand in the order of their names, also in annotations",
        at: &["body.metadata.annotations.autoscaling.alpha.kubernetes.io/*"],
        steps: &["workloads: an autoscaler as of old"],
    },
    Meant {
        why: "Upstream adds a difference of Go's values",
        at: &["body.message", "body.details.causes*"],
        steps: &[
            "pods: change a command",
            "pods: change the node",
            "pods: change resources through the pod",
            "subresources: ephemeral containers: not through the pod",
            "others: a claim changes",
        ],
    },
    Meant {
        why: "What is wrong is told once; upstream looks twice",
        at: &["body.details.causes*"],
        steps: &[
            "metadata: an update with a wrong label",
            "metadata: an update that sets a time of deletion",
            "metadata: an update that sets a grace",
            "metadata: a patch of the uid",
            "deletes: f gets no more finalizers",
        ],
    },
    Meant {
        why: "A job's own labels are looked at as well as those of its pods",
        at: &["body.message", "body.details.causes*"],
        steps: &["batch: a job with a long name"],
    },
    Meant {
        why: "Nesting ends at 120 levels, not at 10,000",
        at: &["body.message"],
        steps: &[
            "protocol: an array nested absurdly",
            "protocol: objects nested absurdly",
            "protocol: an array that never ends",
            "protocol: a patch nested absurdly",
        ],
    },
    Meant {
        why: "Text that is no Unicode is refused, not mended",
        at: &["*"],
        steps: &["protocol: a body that is no UTF-8", "protocol: a body with half a surrogate"],
    },
    Meant {
        why: "Refusals bring no warnings",
        at: &["header.warning"],
        steps: &["patches: json: the whole document", "services: endpoints that are none"],
    },
    Meant {
        why: "Quantities have one canonical form, whatever they were written as",
        at: &["body.spec.containers.0.resources.*"],
        steps: &["field_validation: a quantity that is a number"],
    },
    Meant { why: "Time zones are not looked up", at: &["*"], steps: &["batch: a cron job in no time zone"] },
    Meant {
        why: "The group of events is its own, not that of the kind behind them",
        at: &["body.message", "body.details.group"],
        steps: &["others: an event of the new group that is none"],
    },
    Meant {
        why: "Custom resources are served at once, and end at once",
        at: &["*"],
        steps: &["others: a definition", "others: a definition is gone"],
    },
    Meant {
        why: "Claims within a stateful set do not say of what kind they are",
        at: &["body.spec.volumeClaimTemplates.*"],
        steps: &[
            "workloads: a stateful set",
            "workloads: a stateful set whose container mounts its claim",
            "workloads: a stateful set may change some",
            "workloads: a stateful set's status",
        ],
    },
    Meant {
        why: "Upstream compares a revision's data byte for byte, even where only the number changes",
        at: &["*"],
        steps: &["workloads: a revision's number", "workloads: a revision in protobuf"],
    },
    Meant {
        why: "Addresses of the server are not told: who asks knows them",
        at: &["body.serverAddressByClientCIDRs"],
        steps: &["discovery: the core group"],
    },
    Meant {
        why: "Hashes of storage versions are for migrations, of which there are none",
        at: &["body.resources.*", "body.apiVersion"],
        steps: &[
            "discovery: a version",
            "discovery: the version of the core group",
            "discovery: apps",
            "discovery: the root of versions in protobuf",
        ],
    },
    Meant {
        why: "What is served is told in JSON",
        at: &["header.content-type.0"],
        steps: &["discovery: the root of versions in protobuf"],
    },
    Meant {
        why: "Kinds say their group and version, which upstream leaves out, and answers may not be cached",
        at: &["body.items.*", "header.cache-control.0"],
        steps: &["discovery: aggregated", "discovery: aggregated core"],
    },
    Meant {
        why: "Whether anything of a selection is left is known, so the last page says so",
        at: &["body.metadata.continue"],
        steps: &["lists: the next page with a selector"],
    },
    Meant {
        why: "Encodings are offered as far as they are there, and chosen in the order of the request",
        at: &["*"],
        steps: &[
            "protocol: accept any application",
            "protocol: accept what nobody writes",
            "protocol: accept what nobody writes, of a list",
            "protocol: accept by quality",
            "protocol: accept what is no media type",
            "protocol: accept an unknown transformation",
            "protocol: accept an unknown version of metadata",
            "protocol: accept what nobody writes, of what is not there",
            "protocol: a body in text",
            "protocol: a body in YAML",
            "protocol: a body in a form",
            "lists: metadata only, a list asked of one",
            "lists: metadata only, one asked of a list",
            "watches: as a table of what is no list",
        ],
    },
    Meant {
        why: "What is used of a quota is written after what uses it, and in nobody's name",
        at: &["body.metadata.managedFields", "body.metadata.resourceVersion"],
        steps: &["quotas: what is used now", "quotas: what is used at the end"],
    },
    Meant {
        why: "What is different of a claim is not shown in Go's form",
        at: &["body.message", "body.details.causes.0.message"],
        steps: &["limits: an unbound claim grows"],
    },
    Meant { why: "An empty dry run is as good as none", at: &["*"], steps: &["objects: an empty dry run"] },
    Meant {
        why: "Unknown fields of a scale are not looked for",
        at: &["*"],
        steps: &["subresources: scale: unknown, strict"],
    },
    Meant {
        why: "New nodes begin without a taint: nobody here would take it off",
        at: &["body.spec.taints*"],
        steps: &[
            "others: a node",
            "others: a node is cordoned",
            "others: a node gets an address range",
            "subresources: a node*",
        ],
    },
    Meant {
        why: "Evictions are taken as kubectl sends them, and less is looked at",
        at: &["*"],
        steps: &["subresources: bound: status", "subresources: evicted"],
    },
];

/// Every step of every entry: the place of the entry, the place of the step in it, the step's script and title.
fn all() -> impl Iterator<Item = (usize, usize, &'static str, &'static str)> {
    MEANT.iter().enumerate().flat_map(|(entry, meant)| {
        meant.steps.iter().enumerate().map(move |(at, step)| {
            let (script, title) = step.split_once(": ").unwrap_or_else(|| panic!("no script: {step}"));
            (entry, at, script, title)
        })
    })
}

/// The scripts that the table names.
pub fn scripts() -> impl Iterator<Item = &'static str> {
    all().map(|(_, _, script, _)| script)
}

/// What of the table a run has come across.
#[derive(Default)]
pub struct Used(std::collections::HashSet<(usize, usize)>);

impl Used {
    /// Whether the table excuses a difference.
    pub fn excuses(&mut self, script: &str, title: &str, at: &str) -> bool {
        let mut excused = false;
        for (entry, step, of_script, of_title) in all() {
            let here = of_script == script && fits(of_title, title);
            if here && MEANT[entry].at.iter().any(|pattern| fits(pattern, at)) {
                self.0.insert((entry, step));
                excused = true;
            }
        }
        excused
    }

    /// The steps of a script that the table names for nothing, each with what was said of it.
    pub fn unused(&self, script: &str) -> Vec<(&'static str, &'static str)> {
        let unused = all().filter(|(entry, step, of, _)| *of == script && !self.0.contains(&(*entry, *step)));
        unused.map(|(entry, step, ..)| (MEANT[entry].steps[step], MEANT[entry].why)).collect()
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    }
}
