//! The macro that declares a projection.

/// Declares a message of which only the named fields are kept, and both of its decoders.
///
/// Each field is declared once, with its number in the published protobuf definition and its name in JSON:
///
/// ```
/// use steersman_informer::{Interned, projection};
/// use steersman_api::Time;
///
/// projection! {
///     /// How a pod is doing, in one respect.
///     pub struct PodCondition {
///         /// Such as `Ready`.
///         pub kind: Interned = 1 "type",
///         /// `True`, `False` or `Unknown`.
///         pub status: Interned = 2 "status",
///         /// When `status` last changed.
///         pub changed: Option<Time> = 4 "lastTransitionTime",
///     }
/// }
/// ```
///
/// What a field can hold is any [`FieldValue`](crate::wire::FieldValue), and a projection is one in its turn.
#[macro_export]
macro_rules! projection {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[$doc:meta])* pub $field:ident : $type:ty = $number:literal $json:literal ),* $(,)?
        }
    )*) => { $(
        $(#[$attribute])*
        #[derive(Clone, Debug, Default)]
        $visibility struct $name {
            $( $(#[$doc])* pub $field: $type, )*
        }

        impl $crate::wire::FieldValue for $name {
            fn merge(
                &mut self,
                field: $crate::wire::Field<'_>,
            ) -> ::std::result::Result<(), $crate::wire::WireError> {
                let mut message = field.message()?;
                while let Some(field) = message.field()? {
                    match field.number {
                        $( $number => $crate::wire::FieldValue::merge(&mut self.$field, field)?, )*
                        _ => {}
                    }
                }
                Ok(())
            }

            fn from_json<'de, D: $crate::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                struct Members;
                impl<'de> $crate::serde::de::Visitor<'de> for Members {
                    type Value = $name;
                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str(stringify!($name))
                    }
                    fn visit_map<A: $crate::serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> ::std::result::Result<$name, A::Error> {
                        let mut message = $name::default();
                        while let Some(key) = map.next_key::<$crate::wire::Key<'de>>()? {
                            match &*key {
                                $( $json => message.$field = map.next_value_seed($crate::wire::Nullable::default())?, )*
                                _ => { map.next_value::<$crate::serde::de::IgnoredAny>()?; }
                            }
                        }
                        Ok(message)
                    }
                }
                deserializer.deserialize_map(Members)
            }
        }
    )* };
}
