//! The cached fields of StorageClasses, in groups.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::selected_annotations::{Keys, SelectedAnnotations};

/// The provisioner of the class's volumes, such as `ebs.csi.aws.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioner(pub Interned);

/// When claims of the class are bound: `Immediate` or `WaitForFirstConsumer`. The API server sets it to `Immediate` if it is
/// absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingMode(pub Option<Interned>);

impl BindingMode {
    /// Whether a claim of the class is bound only after a pod that uses the claim is scheduled. `None` if the class does not
    /// tell.
    pub fn waits_for_first_consumer(&self) -> Option<bool> {
        self.0.as_ref().map(|mode| *mode == *"WaitForFirstConsumer")
    }
}

projection! {
    /// Whether the class is the default one.
    pub struct ClassMark {
        /// The annotations that mark default classes.
        pub selected: SelectedAnnotations<ClassKeys> = 12 "annotations",
    }
}

/// The annotation of a default class, with the value `true`.
pub const IS_DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The old name of [`IS_DEFAULT_CLASS`]. Either of the two marks a class.
pub const BETA_IS_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

/// The annotations in [`ClassMark`].
pub enum ClassKeys {}

impl Keys for ClassKeys {
    const KEYS: &'static [&'static str] = &[IS_DEFAULT_CLASS, BETA_IS_DEFAULT_CLASS];
}

impl ClassMark {
    /// Whether the class is marked as a default class, as upstream's `IsDefaultAnnotation`.
    pub fn is_default(&self) -> bool {
        self.selected.iter().any(|(_, value)| *value == *"true")
    }
}

impl FieldValue for Provisioner {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Interned::from_json(deserializer).map(Self)
    }
}

impl FieldValue for BindingMode {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::from_json(deserializer).map(Self)
    }
}

kind! {
    /// A class of storage.
    pub struct StorageClass("storage.k8s.io", "v1", "storageclasses") {
        provisioner: Provisioner = 2 "provisioner",
        binding_mode: BindingMode = 7 "volumeBindingMode",
        mark: ClassMark = 1 "metadata",
    }
}
