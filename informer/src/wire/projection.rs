//! The macro that declares a projection.

/// Declares a message of which only the named fields are kept, with its decoders for both encodings.
///
/// Each field has its number in the published protobuf definition and its name in JSON:
///
/// ```
/// use steersman_informer::{Interned, projection};
/// use steersman_api::Time;
///
/// projection! {
///     /// A condition of a pod.
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
/// The type of a field is any [`FieldValue`](crate::wire::FieldValue). A projection is one as well.
#[macro_export]
macro_rules! projection {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[$doc:meta])* pub $field:ident : $type:ty = $number:literal $json:literal ),* $(,)?
        }
    )*) => { $(
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $visibility struct $name {
            $( $(#[$doc])* pub $field: $type, )*
        }

        impl $crate::wire::Message for $name {
            fn merge_field(
                &mut self,
                field: $crate::wire::Field<'_>,
            ) -> ::std::result::Result<(), $crate::wire::WireError> {
                match field.number {
                    $( $number => $crate::wire::FieldValue::merge(&mut self.$field, field), )*
                    _ => Ok(()),
                }
            }

            fn has_member(&self, name: &str) -> bool {
                ::std::matches!(name, $( $json )|*)
            }

            fn merge_member<'de, D: $crate::serde::Deserializer<'de>>(
                &mut self,
                name: &str,
                value: D,
            ) -> ::std::result::Result<(), D::Error> {
                match name {
                    $( $json => self.$field = $crate::wire::nullable(value)?, )*
                    _ => $crate::wire::ignore(value)?,
                }
                Ok(())
            }
        }

        impl $crate::wire::FieldValue for $name {
            $crate::decoded_as_message!($( $number ),*);

            fn heap_bytes(&self) -> usize {
                0 $( + $crate::wire::FieldValue::heap_bytes(&self.$field) )*
            }
        }
    )* };
}

/// The part of an implementation of [`FieldValue`](crate::wire::FieldValue) that is the same for every
/// [`Message`](crate::wire::Message): how it is decoded. Takes the numbers of the protobuf fields that its `merge_field` reads.
#[macro_export]
macro_rules! decoded_as_message {
    ($( $number:literal ),* $(,)?) => {
        const FIELDS: u64 = 0 $( | $crate::wire::field_bit($number) )*;

        fn merge(
            &mut self,
            field: $crate::wire::Field<'_>,
        ) -> ::std::result::Result<(), $crate::wire::WireError> {
            $crate::wire::merge_message(self, field.message()?)
        }

        fn from_json<'de, D: $crate::serde::Deserializer<'de>>(
            deserializer: D,
        ) -> ::std::result::Result<Self, D::Error> {
            $crate::wire::message_from_json(deserializer)
        }

        fn as_message(&mut self) -> ::std::option::Option<&mut impl $crate::wire::Message> {
            Some(self)
        }
    };
}
