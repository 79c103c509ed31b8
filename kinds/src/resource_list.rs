//! Amounts of resources, as specs and statuses list them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};
use steersman_api::Quantity;
use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::{Error, MapAccess, Visitor};
use steersman_informer::wire::{Field, FieldValue, Key, WireError};
use steersman_informer::{Interned, projection};

/// A `ResourceList`: quantities by the names of resources, such as `cpu` and `requests.memory`.
///
/// It keeps the quantities as the API server wrote them, because equality of [`Quantity`] ignores the notation. Two lists are
/// equal if they are written alike.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceList(
    /// Sorted by name. Each text is a valid quantity.
    Box<[(Interned, Interned)]>,
);

projection! {
    /// An entry of a list in protobuf.
    struct Entry {
        pub name: Interned = 1 "key",
        pub amount: Text = 2 "value",
    }

    /// A quantity in protobuf.
    struct Text {
        pub text: Interned = 1 "string",
    }

    /// What a container or a pod asks for.
    #[derive(Eq, Hash)]
    pub struct Resources {
        /// The most that it may use.
        pub limits: ResourceList = 1 "limits",
        /// What is reserved for it.
        pub requests: ResourceList = 2 "requests",
    }
}

impl ResourceList {
    /// The names with their amounts, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Interned, Quantity)> {
        self.0.iter().map(|(name, text)| (name, text.parse().expect("a decoded quantity must be valid")))
    }

    /// The names, in ascending order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Interned> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The amount of a resource.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.0[at].1.parse().expect("a decoded quantity must be valid"))
    }

    /// Whether the list has no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both lists have the same names with amounts of the same value, whatever the notation.
    pub fn is_worth(&self, other: &Self) -> bool {
        self == other || self.iter().eq(other.iter())
    }

    /// Adds an entry, or replaces the entry of that name. Returns whether the text is a quantity; if it is not, changes
    /// nothing.
    fn insert(&mut self, name: Interned, text: Interned) -> bool {
        if text.parse::<Quantity>().is_err() {
            return false;
        }
        let mut all = std::mem::take(&mut self.0).into_vec();
        match all.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(at) => all[at].1 = text,
            Err(at) => {
                all.reserve_exact(1);
                all.insert(at, (name, text));
            }
        }
        self.0 = all.into();
        true
    }
}

/// The list with these quantities, for tests and for sums.
impl<'a> FromIterator<(&'a str, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (&'a str, Quantity)>>(amounts: I) -> Self {
        let sorted: BTreeMap<&str, Quantity> = amounts.into_iter().collect();
        let text = |amount: Quantity| Interned::from(amount.to_string().as_str());
        Self(sorted.into_iter().map(|(name, amount)| (name.into(), text(amount))).collect())
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, text)| (&**name, &**text)))
    }
}

impl fmt::Debug for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, text)| (name, text))).finish()
    }
}

impl FieldValue for ResourceList {
    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut entry = Entry::default();
        entry.merge(field)?;
        // Go writes the zero quantity as an empty text.
        let text = if entry.amount.text.is_empty() { "0".into() } else { entry.amount.text };
        if self.insert(entry.name, text) { Ok(()) } else { Err(WireError::Mismatch(field.number)) }
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amounts;
        impl<'de> Visitor<'de> for Amounts {
            type Value = ResourceList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of quantities")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
                let mut list = ResourceList::default();
                while let Some(name) = map.next_key::<Key<'de>>()? {
                    let amount = match map.next_value()? {
                        serde_json::Value::String(text) => text,
                        serde_json::Value::Null => "0".to_owned(),
                        number => number.to_string(),
                    };
                    if !list.insert((&*name).into(), amount.as_str().into()) {
                        return Err(A::Error::custom(format!("{amount:?} is no quantity")));
                    }
                }
                Ok(list)
            }
        }
        deserializer.deserialize_map(Amounts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(amounts: serde_json::Value) -> ResourceList {
        ResourceList::from_json(amounts).unwrap()
    }

    #[test]
    fn lists_are_equal_as_written_and_compare_by_value() {
        let (one, other) =
            (list(json!({"cpu": "1", "memory": "1Gi"})), list(json!({"memory": "1024Mi", "cpu": 1})));
        assert_ne!(one, other);
        assert!(one.is_worth(&other));
        assert!(!one.is_worth(&list(json!({"cpu": "1"}))));
        assert_eq!(other.get("memory").unwrap().to_string(), "1Gi");
        assert_eq!(one.get("pods"), None);
        assert_eq!(one.names().map(|name| &**name).collect::<Vec<_>>(), ["cpu", "memory"]);
    }

    #[test]
    fn what_is_no_quantity_is_an_error() {
        assert!(ResourceList::from_json(json!({"cpu": "much"})).is_err());
        assert_eq!(list(json!({"cpu": null})).get("cpu"), Some(Quantity::default()));
    }
}
