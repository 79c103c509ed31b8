//! The settings of controllers: declared once, beside each controller, with [`options!`](crate::options!).
//!
//! The command line, its help and `/configz` are made from the declarations. A constructor reads its own settings with
//! [`OptionSet::get`].

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steersman_api::GoDuration;

/// A controller's settings. [`options!`](crate::options!) implements this trait.
pub trait Options: Clone + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The name of the controller's section in `KubeControllerManagerConfiguration`, such as `JobController`.
    const SECTION: &'static str;

    /// The settings that a flag can change, in the order of their declaration.
    fn flags() -> Vec<Flag<Self>>;
}

/// A flag that sets one field of the settings `O`.
pub struct Flag<O> {
    /// The flag's name without dashes, as upstream has it.
    pub name: &'static str,
    /// What the flag sets, for the help: the doc of the field.
    pub help: &'static str,
    /// The kind of value, for the help, such as `int`.
    pub value_name: &'static str,
    /// The field's name in the controller's section of `KubeControllerManagerConfiguration`. With a dot for a field of a nested
    /// struct: `KubeletServingSignerConfiguration.CertFile`.
    pub field: &'static str,
    /// Reads the setting as the command line shows it.
    pub text: fn(&O) -> String,
    /// Reads the setting as `/configz` shows it.
    pub json: fn(&O) -> Value,
    /// Changes the setting. The error says why the flag does not accept the value.
    pub set: fn(&mut O, &str) -> Result<(), String>,
}

/// A type that a flag's value can have.
pub trait Setting: Sized {
    /// The value's name in the help.
    const VALUE_NAME: &'static str;

    /// Parses a flag's value: decimal integers, and durations such as `1h30m`.
    ///
    /// # Errors
    /// Why the flag does not accept the value.
    fn parse(text: &str) -> Result<Self, String>;

    /// Formats the value as [`parse`](Self::parse) reads it.
    fn text(&self) -> String;

    /// The value as `/configz` shows it.
    fn json(&self) -> Value;
}

/// How many keys a controller syncs at a time: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers(pub usize);

impl Setting for Workers {
    const VALUE_NAME: &'static str = "int";

    fn parse(text: &str) -> Result<Self, String> {
        let count = i32::parse(text)?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0);
        count.map(Self).ok_or_else(|| "must be greater than 0".to_owned())
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn json(&self) -> Value {
        json!(self.0)
    }
}

impl Setting for String {
    const VALUE_NAME: &'static str = "string";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn text(&self) -> String {
        self.clone()
    }

    fn json(&self) -> Value {
        Value::from(self.clone())
    }
}

impl Setting for bool {
    const VALUE_NAME: &'static str = "bool";

    /// Parses Go's words for true and false.
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err("must be true or false".to_owned()),
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Setting for f32 {
    const VALUE_NAME: &'static str = "float";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: std::num::ParseFloatError| error.to_string())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    /// The shortest decimal number that parses to the value. Null if the value is not finite.
    fn json(&self) -> Value {
        self.text().parse::<f64>().map_or(Value::Null, Value::from)
    }
}

impl Setting for i32 {
    const VALUE_NAME: &'static str = "int";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: std::num::ParseIntError| error.to_string())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Setting for f64 {
    const VALUE_NAME: &'static str = "float";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: std::num::ParseFloatError| error.to_string())
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Setting for Duration {
    const VALUE_NAME: &'static str = "duration";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse::<GoDuration>().map(|duration| duration.0).map_err(|error| error.to_string())
    }

    fn text(&self) -> String {
        GoDuration(*self).to_string()
    }

    fn json(&self) -> Value {
        json!(self.text())
    }
}

/// Declares the settings of a controller: a struct with its defaults, and the flags that change them.
///
/// ```
/// use std::time::Duration;
///
/// steersman_controller::options! {
///     /// Settings of the endpoints controller.
///     pub struct EndpointsOptions("EndpointController") {
///         /// Maximum number of services whose Endpoints are synced concurrently
///         pub concurrent_syncs: steersman_controller::options::Workers = steersman_controller::options::Workers(5),
///             "concurrent-endpoint-syncs", "ConcurrentEndpointSyncs";
///         /// How long a sync is delayed after a change of a pod, so that it handles several changes at once
///         pub updates_batch_period: Duration = Duration::ZERO,
///             "endpoint-updates-batch-period", "EndpointUpdatesBatchPeriod";
///     }
/// }
///
/// assert_eq!(EndpointsOptions::default().concurrent_syncs.0, 5);
/// ```
///
/// A field without the two names at its end has no flag: only tests and `standalone` change it.
#[macro_export]
macro_rules! options {
    (@flag $field:ident: $kind:ty, $help:expr) => {
        None
    };
    (@flag $field:ident: $kind:ty, $help:expr, $flag:literal, $key:literal) => {
        Some($crate::options::Flag {
            name: $flag,
            help: $help,
            value_name: <$kind as $crate::options::Setting>::VALUE_NAME,
            field: $key,
            text: |options: &Self| $crate::options::Setting::text(&options.$field),
            json: |options: &Self| $crate::options::Setting::json(&options.$field),
            set: |options: &mut Self, text| {
                options.$field = $crate::options::Setting::parse(text)?;
                Ok(())
            },
        })
    };
    (
        $(#[doc = $doc:literal])*
        $visibility:vis struct $name:ident($section:literal) {
            $(
                $(#[doc = $help:literal])*
                $field_visibility:vis $field:ident: $kind:ty = $default:expr $(, $flag:literal, $key:literal)?;
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        $visibility struct $name {
            $( $(#[doc = $help])* $field_visibility $field: $kind, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::options::Options for $name {
            const SECTION: &'static str = $section;

            fn flags() -> Vec<$crate::options::Flag<Self>> {
                vec![ $( $crate::options!(@flag $field: $kind, concat!($($help),*) $(, $flag, $key)?), )* ]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        }
    };
}

/// [`Options`] whose type only their controller knows.
pub(crate) trait AnyOptions: Any + Debug + Send + Sync {
    fn section(&self) -> &'static str;
    fn flags(&self) -> Vec<FlagInfo>;
    /// `None` if no flag has this name.
    fn set(&mut self, flag: &str, text: &str) -> Option<Result<(), String>>;
    fn configz(&self) -> Map<String, Value>;
    fn clone_box(&self) -> Box<dyn AnyOptions>;
    fn as_any(&self) -> &dyn Any;
}

/// A flag as the command line shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagInfo {
    /// The flag's name without dashes.
    pub name: &'static str,
    /// What the flag sets.
    pub help: String,
    /// The kind of value, such as `int`.
    pub value_name: &'static str,
    /// The current value, which is the default unless the flag was set.
    pub value: String,
}

impl<O: Options> AnyOptions for O {
    fn section(&self) -> &'static str {
        O::SECTION
    }

    fn flags(&self) -> Vec<FlagInfo> {
        let info = |flag: Flag<O>| FlagInfo {
            name: flag.name,
            help: flag.help.split_whitespace().collect::<Vec<_>>().join(" "),
            value_name: flag.value_name,
            value: (flag.text)(self),
        };
        O::flags().into_iter().map(info).collect()
    }

    fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
        let flag = O::flags().into_iter().find(|flag| flag.name == name)?;
        Some((flag.set)(self, text))
    }

    fn configz(&self) -> Map<String, Value> {
        let mut section = Map::new();
        for flag in O::flags() {
            let value = (flag.json)(self);
            match flag.field.split_once('.') {
                None => _ = section.insert(flag.field.to_owned(), value),
                Some((group, field)) => section.entry(group).or_insert_with(|| json!({}))[field] = value,
            }
        }
        section
    }

    fn clone_box(&self) -> Box<dyn AnyOptions> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The settings of any number of controllers, by their types.
#[derive(Debug, Default)]
pub struct OptionSet(Vec<Box<dyn AnyOptions>>);

impl Clone for OptionSet {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|options| options.clone_box()).collect())
    }
}

impl OptionSet {
    pub(crate) fn of(all: impl IntoIterator<Item = Box<dyn AnyOptions>>) -> Self {
        Self(all.into_iter().collect())
    }

    /// The same set, with these settings instead of those of their type.
    #[must_use]
    pub fn with<O: Options>(mut self, options: O) -> Self {
        self.0.retain(|other| !other.as_any().is::<O>());
        self.0.push(Box::new(options));
        self
    }

    /// The settings of type `O`; the defaults, if the set has none of that type.
    pub fn get<O: Options>(&self) -> O {
        self.0.iter().find_map(|options| options.as_any().downcast_ref::<O>()).cloned().unwrap_or_default()
    }

    /// The flags of all controllers.
    pub fn flags(&self) -> Vec<FlagInfo> {
        self.0.iter().flat_map(|options| options.flags()).collect()
    }

    /// Changes the setting of the flag with this name, without dashes.
    ///
    /// # Errors
    /// Why the flag does not accept the value.
    ///
    /// # Panics
    /// If no controller has that flag.
    pub fn set(&mut self, flag: &str, text: &str) -> Result<(), String> {
        let set = self.0.iter_mut().find_map(|options| options.set(flag, text));
        set.expect("the flag must be one of a controller")
    }

    /// Each controller's section of `KubeControllerManagerConfiguration`, by its name.
    pub fn configz(&self) -> Map<String, Value> {
        let mut sections = Map::new();
        for options in &self.0 {
            let section = sections.entry(options.section()).or_insert_with(|| json!({}));
            section.as_object_mut().expect("a section must be an object").extend(options.configz());
        }
        sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    options! {
        /// Settings of a toy.
        struct ToyOptions("ToyController") {
            /// How many toys
            /// are made at a time
            workers: Workers = Workers(5), "concurrent-toy-syncs", "ConcurrentToySyncs";
            /// How long a toy lasts
            lifetime: Duration = Duration::from_secs(90), "toy-lifetime", "ToyLifetime";
            /// How many toys may be broken
            threshold: i32 = 7, "broken-toys", "BrokenToys";
            /// Who paints toys
            painter: String = String::new(), "toy-painter", "Painting.Painter";
            /// What toys are painted with
            paint: String = "oil".to_owned(), "toy-paint", "Painting.Paint";
            /// How much toys weigh
            weight: f32 = 0.1, "toy-weight", "Weight";
            /// Whether toys squeak
            squeaks: bool = true, "squeaking-toys", "SqueakingToys";
            /// What only tests change.
            hidden: bool = true;
        }
    }

    fn toys() -> OptionSet {
        OptionSet::of([Box::new(ToyOptions::default()) as Box<dyn AnyOptions>])
    }

    #[test]
    fn a_declaration_gives_flags_with_their_defaults() {
        let flags: Vec<_> = toys().flags().into_iter().map(|flag| (flag.name, flag.value)).collect();
        let expected = [
            ("concurrent-toy-syncs", "5"),
            ("toy-lifetime", "1m30s"),
            ("broken-toys", "7"),
            ("toy-painter", ""),
            ("toy-paint", "oil"),
            ("toy-weight", "0.1"),
            ("squeaking-toys", "true"),
        ];
        assert_eq!(flags, expected.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(toys().flags()[0].help, "How many toys are made at a time");
        assert!(ToyOptions::default().hidden);
    }

    #[test]
    fn a_flag_changes_its_field_and_configz_shows_it() {
        let mut options = toys();
        options.set("toy-lifetime", "2h").unwrap();
        options.set("broken-toys", "-1").unwrap();
        options.set("squeaking-toys", "F").unwrap();
        let toy = options.get::<ToyOptions>();
        assert_eq!((toy.lifetime, toy.threshold), (Duration::from_secs(7200), -1));
        let section = json!({
            "ConcurrentToySyncs": 5, "ToyLifetime": "2h0m0s", "BrokenToys": -1,
            "Painting": {"Painter": "", "Paint": "oil"}, "Weight": 0.1, "SqueakingToys": false,
        });
        assert_eq!(Value::from(options.configz()), json!({"ToyController": section}));
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused_and_changes_nothing() {
        let mut options = toys();
        for (flag, value, why) in [
            ("concurrent-toy-syncs", "0", "must be greater than 0"),
            ("concurrent-toy-syncs", "-3", "must be greater than 0"),
            ("broken-toys", "many", "invalid digit found in string"),
            ("squeaking-toys", "loudly", "must be true or false"),
        ] {
            assert_eq!(options.set(flag, value), Err(why.to_owned()), "{flag} {value}");
        }
        options.set("toy-lifetime", "soon").unwrap_err();
        assert_eq!(options.get::<ToyOptions>(), ToyOptions::default());
    }

    #[test]
    fn settings_that_nobody_declared_have_their_defaults() {
        assert_eq!(OptionSet::default().get::<ToyOptions>(), ToyOptions::default());
        let few = ToyOptions { threshold: 1, ..ToyOptions::default() };
        assert_eq!(toys().with(few.clone()).get::<ToyOptions>(), few);
    }
}
