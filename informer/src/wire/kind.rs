//! Kinds with groups of fields, and selections: the groups that one user of a cache reads.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use steersman_api::Meta;

use super::{FieldValue, Object};

/// A group of a kind's fields. The cache keeps it only if a user asked for it before the start.
pub trait Group: FieldValue + Clone + fmt::Debug + PartialEq {
    /// The kind whose fields these are.
    type Kind: Object;
    /// The group's bit in a [`GroupSet`](super::groups::GroupSet).
    const BIT: u64;
    /// This group of an object, if the cache keeps it.
    fn of(object: &Self::Kind) -> Option<&Self>;
}

/// A kind that [`kind!`](crate::kind) declares: its names in the API.
pub trait Kind: Object {
    /// The API group, such as `apps`. Empty for the core group.
    const GROUP: &'static str;
    /// The API version, such as `v1`.
    const VERSION: &'static str;
    /// The resource in URLs, such as `replicasets`.
    const RESOURCE: &'static str;
    /// The kind in objects and owner references, such as `ReplicaSet`.
    const KIND: &'static str;
}

/// The groups of fields that one user of a cache reads. Declared with [`keep!`](crate::keep).
pub trait Selection: Send + Sync + 'static {
    /// The kind.
    type Kind: Object;
    /// The groups, as a mask of their bits.
    const GROUPS: u64;
}

/// Says that a selection includes a group. Reading a group that the selection lacks does not compile.
///
/// ```compile_fail
/// use steersman_informer::{Interned, View, keep, kind, projection};
/// projection! { pub struct Spec { pub node: Interned = 10 "nodeName" } }
/// projection! { pub struct Status { pub phase: Interned = 1 "phase" } }
/// kind! { pub struct Pod("", "v1", "pods") { spec: Spec = 2 "spec", status: Status = 3 "status" } }
/// keep! { pub struct Mine: Pod => Spec }
/// fn phase(pod: &View<Mine>) -> &str { &pod.get::<Status>().phase }
/// ```
pub trait Keeps<G: Group<Kind = Self::Kind>>: Selection {}

/// A kind kept whole is its own selection.
impl<T> Selection for super::whole::Whole<T>
where
    Self: Object,
    T: Send + Sync + 'static,
{
    type Kind = Self;
    const GROUPS: u64 = 0;
}

/// A kind of which only the metadata is kept is its own selection.
impl Selection for super::meta::MetaOnly {
    type Kind = Self;
    const GROUPS: u64 = 0;
}

/// A cached object, with the fields of one selection. Clones share the object.
pub struct View<S: Selection> {
    object: Arc<S::Kind>,
    selection: PhantomData<fn() -> S>,
}

impl<S: Selection> View<S> {
    /// Makes a view of an object from a cache that keeps this selection.
    pub(crate) fn new(object: Arc<S::Kind>) -> Self {
        Self { object, selection: PhantomData }
    }

    /// Makes a view of an object in JSON, for tests.
    ///
    /// # Panics
    /// If the JSON can't be decoded.
    #[cfg(any(test, feature = "testing"))]
    pub fn from_json(json: &serde_json::Value) -> Self {
        let object = S::Kind::decode(&json.to_string().into(), super::Encoding::Json, S::GROUPS);
        Self::new(Arc::new(object.expect("the JSON of a test must be an object of the kind")))
    }

    /// The metadata.
    pub fn meta(&self) -> &Meta {
        self.object.meta()
    }

    /// The object itself.
    pub fn object(&self) -> &Arc<S::Kind> {
        &self.object
    }

    /// A group of the object's fields.
    ///
    /// If the object can't be read, this is the group of its last readable state, or the default if there was none. Listers
    /// refuse to return such an object, so only key mappings and handlers get one.
    ///
    /// # Panics
    /// Never, for objects of a cache: the cache knows every selection before it decodes anything.
    pub fn get<G: Group<Kind = S::Kind>>(&self) -> &G
    where
        S: Keeps<G>,
    {
        G::of(&self.object).expect("a cache must keep the groups of every selection that reads it")
    }
}

impl<S: Selection> Clone for View<S> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.object))
    }
}

impl<S: Selection> fmt::Debug for View<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

/// Declares a kind: where it is served, and the groups of fields that a cache can keep of it.
///
/// Each group names the field of the object that it looks into, such as `spec`, and is a
/// [`projection!`](crate::projection) of that field. Several groups may look into one field, which is read once for all of
/// them. A group can also be any other [`FieldValue`](crate::wire::FieldValue), which then gets the field as a whole.
///
/// A kind has at most [`MOST`](crate::wire::packed::MOST) groups. A group must be `Clone`, `Debug` and `PartialEq`, as
/// projections are. A group with its default value takes no memory; [`packed`](crate::wire::packed) says how much the others
/// take.
///
/// ```
/// use steersman_informer::{Interned, kind, projection};
///
/// projection! {
///     /// Where a pod runs.
///     pub struct Placement {
///         /// Empty until the pod is scheduled.
///         pub node: Interned = 10 "nodeName",
///     }
/// }
/// kind! {
///     /// A pod.
///     pub struct Pod("", "v1", "pods") {
///         placement: Placement = 2 "spec",
///     }
/// }
/// ```
#[macro_export]
macro_rules! kind {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident($group:literal, $version:literal, $resource:literal) {
            $( $field:ident : $type:ty = $number:literal $json:literal ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility struct $name {
            meta: $crate::Meta,
            groups: $crate::wire::packed::Packed<<$name as $crate::wire::packed::Packs>::Group>,
        }

        const _: () = {
            /// A group in the list of an object.
            #[derive(Clone, Debug)]
            #[allow(non_camel_case_types, reason = "the variants have the names of the groups")]
            $visibility enum HeldGroup {
                $( $field($crate::kind!(@slot $type)), )*
            }

            impl $crate::wire::packed::HeldGroup for HeldGroup {
                fn heap_bytes(&self) -> usize {
                    match self {
                        $( Self::$field(slot) => $crate::wire::packed::Slot::heap_bytes(slot), )*
                    }
                }
            }

            const _: () = {
                let groups: &[&str] = &[$( ::std::stringify!($field), )*];
                assert!(groups.len() <= $crate::wire::packed::MOST as usize, "a kind has more groups than MOST");
            };

            impl $crate::wire::packed::Packs for $name {
                type Group = HeldGroup;
            }

            $crate::kind!(@groups $name, 0, $( $field: $type, )*);

            #[derive(Default)]
            struct Wire {
                meta: $crate::wire::meta::WireMeta,
                groups: $crate::wire::groups::GroupSet,
                $( $field: ::std::option::Option<$type>, )*
            }

            impl Wire {
                /// Every kept group is `Some`, at first with its defaults.
                fn new(groups: u64) -> Self {
                    Self {
                        meta: ::std::default::Default::default(),
                        groups,
                        $( $field: (groups & <$type as $crate::wire::Group>::BIT != 0)
                            .then(::std::default::Default::default), )*
                    }
                }
            }

            impl $crate::wire::groups::Groups for Wire {
                const SOURCES: &'static [$crate::wire::groups::Source] = &[
                    $crate::wire::groups::Source {
                        number: 1,
                        name: "metadata",
                        group: $crate::wire::groups::META,
                        fields: <$crate::wire::meta::WireMeta as $crate::wire::FieldValue>::FIELDS,
                    },
                    $( $crate::wire::groups::Source {
                        number: $number,
                        name: $json,
                        group: <$type as $crate::wire::Group>::BIT,
                        fields: <$type as $crate::wire::FieldValue>::FIELDS,
                    }, )*
                ];

                fn visit<V: $crate::wire::groups::Visit>(
                    &mut self,
                    groups: u64,
                    visit: &mut V,
                ) -> ::std::result::Result<(), V::Error> {
                    if groups & $crate::wire::groups::META != 0 {
                        visit.group($crate::wire::groups::META, &mut self.meta)?;
                    }
                    $( if groups & <$type as $crate::wire::Group>::BIT != 0
                        && let Some(group) = &mut self.$field
                    {
                        visit.group(<$type as $crate::wire::Group>::BIT, group)?;
                    } )*
                    Ok(())
                }
            }

            impl ::std::convert::From<Wire> for $name {
                fn from(mut wire: Wire) -> Self {
                    $( if let Some(group) = &mut wire.$field {
                        $crate::wire::FieldValue::settle(group);
                    } )*
                    let held = 0 $( | $crate::wire::packed::held(&wire.$field) )*;
                    let mut groups = ::std::vec::Vec::with_capacity(held.count_ones() as usize);
                    $( if held & <$type as $crate::wire::Group>::BIT != 0 {
                        groups.extend(wire.$field.map(|group| {
                            HeldGroup::$field($crate::wire::packed::Slot::new(group))
                        }));
                    } )*
                    Self {
                        meta: wire.meta.into(),
                        groups: $crate::wire::packed::Packed::new(wire.groups, held, groups.into()),
                    }
                }
            }

            impl $crate::wire::Kind for $name {
                const GROUP: &'static str = $group;
                const VERSION: &'static str = $version;
                const RESOURCE: &'static str = $resource;
                const KIND: &'static str = ::std::stringify!($name);
            }

            impl $crate::wire::Object for $name {
                const REPRESENTATION: $crate::wire::object::Representation =
                    $crate::wire::object::Representation::Protobuf;

                fn resource() -> ::std::option::Option<$crate::GroupVersionResource> {
                    Some($crate::GroupVersionResource::new($group, $version, $resource))
                }

                fn meta(&self) -> &$crate::Meta {
                    &self.meta
                }

                fn decode(
                    body: &$crate::bytes::Bytes,
                    encoding: $crate::wire::Encoding,
                    groups: u64,
                ) -> ::std::result::Result<Self, $crate::wire::DecodeError> {
                    let mut wire = Wire::new(groups);
                    $crate::wire::groups::decode(&mut wire, groups, body, encoding)?;
                    Ok(wire.into())
                }

                fn unreadable(meta: $crate::Meta) -> Self {
                    Self { meta, ..Wire::new(u64::MAX).into() }
                }

                fn with_meta(&self, meta: $crate::Meta) -> Self {
                    Self { meta, groups: self.groups.clone() }
                }

                fn heap_bytes(&self) -> usize {
                    $crate::wire::meta_bytes(&self.meta) + self.groups.heap_bytes()
                }
            }
        };
    };
    (@slot $type:ty) => {
        <$crate::wire::packed::Choice<{ ::std::mem::size_of::<$type>() > $crate::wire::packed::INLINE }>
            as $crate::wire::packed::Choose<$type>>::Slot
    };
    (@groups $name:ident, $bit:expr, ) => {};
    (@groups $name:ident, $bit:expr, $field:ident : $type:ty, $($rest:tt)*) => {
        impl $crate::wire::Group for $type {
            type Kind = $name;
            const BIT: u64 = 1 << ($bit);
            fn of(object: &$name) -> ::std::option::Option<&Self> {
                static EMPTY: ::std::sync::LazyLock<$type> = ::std::sync::LazyLock::new(::std::default::Default::default);
                match object.groups.get(<Self as $crate::wire::Group>::BIT) {
                    Some(HeldGroup::$field(slot)) => Some($crate::wire::packed::Slot::get(slot)),
                    _ => object.groups.keeps(<Self as $crate::wire::Group>::BIT).then(|| &*EMPTY),
                }
            }
        }
        $crate::kind!(@groups $name, $bit + 1, $($rest)*);
    };
}

/// Declares the groups of fields that one user of a cache reads.
///
/// ```
/// # use steersman_informer::{Interned, kind, projection};
/// # projection! { pub struct Placement { pub node: Interned = 10 "nodeName" } }
/// # kind! { pub struct Pod("", "v1", "pods") { placement: Placement = 2 "spec" } }
/// steersman_informer::keep! {
///     /// The groups that the pod collector reads.
///     pub struct CollectedPod: Pod => Placement
/// }
/// ```
#[macro_export]
macro_rules! keep {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident: $kind:ty => $($group:ty),* $(,)?) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;
        impl $crate::wire::Selection for $name {
            type Kind = $kind;
            const GROUPS: u64 = 0 $( | <$group as $crate::wire::Group>::BIT )*;
        }
        $( impl $crate::wire::Keeps<$group> for $name {} )*
    };
}
