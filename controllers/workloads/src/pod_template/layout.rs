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
    /// Kubernetes 1.37.
    V1_37,
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
            37 => Some(Self::V1_37),
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
        static V1_37: OnceLock<Structs> = OnceLock::new();
        match self {
            Self::V1_35 => V1_35.get_or_init(|| Structs::parse(&[TEXT], Some(WORKLOAD_REF))),
            Self::V1_36 => V1_36.get_or_init(|| Structs::parse(&[TEXT], None)),
            Self::V1_37 => V1_37.get_or_init(|| Structs::parse(&[TEXT, ADDED_IN_1_37], None)),
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

/// What 1.37 has after 1.36's fields and structs, by reflection over k8s.io/api v0.37: the fields that it appends to structs
/// of 1.36, and a new struct. The schema table, which is of 1.36, lacks them, so a fourth word has the number in protobuf.
const ADDED_IN_1_37: &str = include_str!("added-in-1.37.txt");

/// All structs of a layout.
pub(super) struct Structs {
    structs: Vec<Struct>,
    /// The index of each struct by its name.
    names: HashMap<&'static str, usize>,
}

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
    /// The number in protobuf, if the schema table lacks the field.
    pub(super) number: Option<u32>,
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
        &self.structs[0]
    }

    /// The struct of a field of type [`Type::Struct`].
    pub(super) fn at(&self, index: usize) -> &Struct {
        &self.structs[index]
    }

    /// The fields of a struct that the schema table lacks.
    pub(super) fn newer_fields(&self, name: &str) -> impl Iterator<Item = &Field> {
        let of = self.names.get(name).map(|index| self.at(*index));
        of.into_iter().flat_map(|of| &of.fields).filter(|field| field.number.is_some())
    }

    fn parse(texts: &[&'static str], replaced: Option<(&str, &'static str)>) -> Self {
        let lines = || texts.iter().flat_map(|text| text.lines());
        let mut names = HashMap::new();
        for name in lines().filter(|line| !line.starts_with(' ')) {
            let next = names.len();
            names.entry(name).or_insert(next);
        }
        let mut structs: Vec<Struct> = names.iter().map(|_| Struct { fields: Vec::new() }).collect();
        let mut of = 0;
        for line in lines() {
            let Some(field) = line.strip_prefix(' ') else {
                of = names[line];
                continue;
            };
            let field = replaced.filter(|(old, _)| *old == field).map_or(field, |(_, new)| new);
            let mut words = field.split(' ');
            let mut word =
                || words.next().expect("a field of the layout must have a name, a type and a name in JSON");
            let (name, printed, json) = (word(), word(), word());
            let number = words.next().map(|number| number.parse().expect("the fourth word must be a number"));
            let ty = Type::parse(printed, &names);
            let json = (json != "-").then_some(json);
            structs[of].fields.push(Field { name, printed, ty, json, number });
        }
        Self { structs, names }
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
