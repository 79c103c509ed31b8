//! The order, names and types of the Go fields of a pod template.

use std::collections::HashMap;
use std::sync::{Once, OnceLock};

use steersman_controller::controller::SyncError;
use steersman_controller::server_version::ServerVersion;

/// The Go structs of a pod template in one minor version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Kubernetes 1.35.
    V1_35,
    /// Kubernetes 1.36.
    V1_36,
}

impl Layout {
    /// The layout of Kubernetes 1.`minor`, if this program knows it.
    ///
    /// Without a layout the hashes of templates differ from upstream's. The controllers remain correct, since they find a
    /// template's ReplicaSet by comparing templates. But the controller-manager of upstream that takes over while its cache is
    /// stale may then make a second ReplicaSet of the same template, with another name.
    pub(crate) fn of_minor(minor: u32) -> Option<Self> {
        match minor {
            35 => Some(Self::V1_35),
            36 => Some(Self::V1_36),
            _ => None,
        }
    }

    /// The layout of the API server's version. Logs once if this program does not know it: see
    /// [`of_minor`](Self::of_minor).
    ///
    /// # Errors
    /// The version is not known yet, and the API server can't be asked.
    pub(crate) async fn of_server(version: &ServerVersion) -> Result<Option<Self>, SyncError> {
        static TOLD: Once = Once::new();
        let minor = version.minor().await?;
        let layout = Self::of_minor(minor);
        if layout.is_none() {
            TOLD.call_once(|| {
                tracing::info!(
                    minor,
                    "Hashes of pod templates will differ from those of kube-controller-manager of this version"
                );
            });
        }
        Ok(layout)
    }

    /// The structs of this layout.
    pub(super) fn structs(self) -> &'static Structs {
        static V1_35: OnceLock<Structs> = OnceLock::new();
        static V1_36: OnceLock<Structs> = OnceLock::new();
        match self {
            Self::V1_35 => V1_35.get_or_init(|| Structs::parse(TEXT, Some(WORKLOAD_REF))),
            Self::V1_36 => V1_36.get_or_init(|| Structs::parse(TEXT, None)),
        }
    }
}

/// The layout of Kubernetes 1.36, by reflection over k8s.io/api v0.36: the name of a struct; then, indented, each of its
/// fields with its name, its type as `reflect` writes it and its name in JSON, which is `-` for an embedded struct.
const TEXT: &str = include_str!("layout.txt");

/// What 1.35 has instead of 1.36's last field of a pod's spec. All else is the same in k8s.io/api v0.35. The schema table, which
/// is of 1.36, lacks the field: a template that has it is one with an unknown field.
const WORKLOAD_REF: (&str, &str) = (
    "SchedulingGroup *v1.PodSchedulingGroup schedulingGroup",
    "WorkloadRef *v1.WorkloadReference workloadRef",
);

/// All structs of a layout.
pub(super) struct Structs(Vec<Struct>);

/// A Go struct.
pub(super) struct Struct {
    /// The fields, in the order of their declaration.
    pub(super) fields: Vec<Field>,
}

/// A field of a Go struct.
pub(super) struct Field {
    /// The name in Go.
    pub(super) name: &'static str,
    /// The type, as Go prints it.
    pub(super) printed: &'static str,
    /// The type.
    pub(super) ty: Type,
    /// The name in JSON. `None` for an embedded struct, whose fields are members of the outer object.
    pub(super) json: Option<&'static str>,
}

/// A Go type, as far as its values are printed differently from those of others.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    String,
    Bool,
    Int,
    Time,
    Quantity,
    IntOrString,
    /// Bytes, which only managed fields have.
    Bytes,
    /// The struct at this index.
    Struct(usize),
    Pointer(Box<Type>),
    Slice(Box<Type>),
    /// A map from texts.
    Map(Box<Type>),
}

impl Structs {
    /// The struct of a whole template.
    pub(super) fn template(&self) -> &Struct {
        &self.0[0]
    }

    /// The struct of a field of type [`Type::Struct`].
    pub(super) fn at(&self, index: usize) -> &Struct {
        &self.0[index]
    }

    fn parse(text: &'static str, replaced: Option<(&str, &'static str)>) -> Self {
        let names = text.lines().filter(|line| !line.starts_with(' '));
        let names: HashMap<&str, usize> = names.enumerate().map(|(at, name)| (name, at)).collect();
        let mut structs: Vec<Struct> = Vec::with_capacity(names.len());
        for line in text.lines() {
            let Some(field) = line.strip_prefix(' ') else {
                structs.push(Struct { fields: Vec::new() });
                continue;
            };
            let field = replaced.filter(|(old, _)| *old == field).map_or(field, |(_, new)| new);
            let mut words = field.split(' ');
            let mut word =
                || words.next().expect("a field of the layout must have a name, a type and a name in JSON");
            let (name, printed, json) = (word(), word(), word());
            let ty = Type::parse(printed, &names);
            let json = (json != "-").then_some(json);
            let of = structs.last_mut().expect("the layout must begin with a struct");
            of.fields.push(Field { name, printed, ty, json });
        }
        Self(structs)
    }
}

impl Type {
    fn parse(printed: &str, structs: &HashMap<&str, usize>) -> Self {
        let of = |inner| Box::new(Self::parse(inner, structs));
        if let Some(inner) = printed.strip_prefix('*') {
            return Self::Pointer(of(inner));
        }
        if printed == "[]uint8" {
            return Self::Bytes;
        }
        if let Some(inner) = printed.strip_prefix("[]") {
            return Self::Slice(of(inner));
        }
        match printed {
            "map[string]string" => Self::Map(of("string")),
            "v1.ResourceList" => Self::Map(of("resource.Quantity")),
            "v1.Time" => Self::Time,
            "resource.Quantity" => Self::Quantity,
            "intstr.IntOrString" => Self::IntOrString,
            "bool" => Self::Bool,
            "int32" | "int64" => Self::Int,
            _ => {
                let name = printed.rsplit('.').next().unwrap_or(printed);
                // All other named types are strings.
                structs.get(name).map_or(Self::String, |index| Self::Struct(*index))
            }
        }
    }
}
