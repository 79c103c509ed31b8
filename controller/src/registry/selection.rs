//! The grammar of `--controllers`.

use super::{ByDefault, Descriptor, Error, Registry};

/// The controllers that `--controllers` enables: `*` enables all that are on by default, `foo` enables the controller
/// foo, and `-foo` disables it.
///
/// If several items name a controller, the first one counts. `*` applies to controllers that no item names, wherever it
/// stands in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The controllers that an item names, by canonical name, in the order of the items.
    named: Vec<(&'static str, Wish)>,
    star: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    On,
    Off,
}

/// Whether a selection enables a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Enabled by its name.
    Named,
    /// Enabled by `*`, since it is on by default.
    ByDefault,
    /// Not enabled.
    Disabled,
}

impl Selection {
    /// Parses the items of the list.
    ///
    /// # Errors
    /// [`Error::Unknown`] if an item names no controller of `registry`.
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

    /// Whether the selection enables this controller.
    pub fn choice(&self, controller: &Descriptor) -> Choice {
        match self.named.iter().find(|(name, _)| *name == controller.name) {
            Some((_, Wish::On)) => Choice::Named,
            Some((_, Wish::Off)) => Choice::Disabled,
            None if self.star && controller.by_default == ByDefault::On => Choice::ByDefault,
            None => Choice::Disabled,
        }
    }
}

/// The controllers of this program with their aliases, for the error about an unknown name.
fn known(registry: &Registry) -> Vec<String> {
    let here = registry.rows().iter().filter(|row| row.is_here());
    here.map(|row| match row.aliases {
        [] => row.name.to_owned(),
        aliases => format!("{} ({})", row.name, aliases.join(", ")),
    })
    .collect()
}
