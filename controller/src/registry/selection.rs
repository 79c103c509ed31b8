//! The grammar of `--controllers`.

use super::{ByDefault, Descriptor, Error, Registry};

/// Which controllers are wanted: `*` all that are on by default, `foo` the one called foo, `-foo` not that one.
///
/// Of the items that name a controller the first counts; `*` counts for those that no item names, wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// By canonical name, in the order given.
    named: Vec<(&'static str, Wish)>,
    star: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    On,
    Off,
}

/// What a selection says about a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is wanted, by name.
    Named,
    /// It is wanted, since `*` is and it is on by default.
    ByDefault,
    /// It is not wanted.
    Disabled,
}

impl Selection {
    /// Reads the items of the list.
    ///
    /// # Errors
    /// An item names no controller of `registry`.
    pub fn parse<T: AsRef<str>>(items: &[T], registry: &Registry) -> Result<Self, Error> {
        let mut selection = Self { named: Vec::new(), star: false };
        for item in items.iter().map(AsRef::as_ref) {
            let (name, wish) = match item.strip_prefix('-') {
                _ if item == "*" => {
                    selection.star = true;
                    continue;
                }
                Some(name) => (name, Wish::Off),
                None => (item, Wish::On),
            };
            let row = registry.rows().iter().find(|row| row.is_called(name));
            let row = row.ok_or_else(|| Error::Unknown { name: name.to_owned(), known: known(registry) })?;
            selection.named.push((row.name, wish));
        }
        Ok(selection)
    }

    /// What is said about this controller.
    pub fn choice(&self, controller: &Descriptor) -> Choice {
        match self.named.iter().find(|(name, _)| *name == controller.name) {
            Some((_, Wish::On)) => Choice::Named,
            Some((_, Wish::Off)) => Choice::Disabled,
            None if self.star && controller.by_default == ByDefault::On => Choice::ByDefault,
            None => Choice::Disabled,
        }
    }
}

/// The controllers of this program, as one may name them.
fn known(registry: &Registry) -> Vec<String> {
    let here = registry.rows().iter().filter(|row| row.is_here());
    here.map(|row| match row.aliases {
        [] => row.name.to_owned(),
        aliases => format!("{} ({})", row.name, aliases.join(", ")),
    })
    .collect()
}
