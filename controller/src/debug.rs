//! Pages that show the state of controllers to people who debug them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The media type, such as `text/vnd.graphviz`.
    pub media_type: &'static str,
    /// The contents.
    pub text: String,
}

/// The decoded parameters of a page's URL.
#[derive(Clone, Debug, Default)]
pub struct Query(pub Vec<(String, String)>);

impl Query {
    /// The values of a parameter.
    pub fn get<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

type Show = dyn Fn(&Query) -> Page + Send + Sync;
/// Pages by controller and name.
type Pages = BTreeMap<(&'static str, &'static str), Arc<Show>>;

/// The pages of all controllers. Cheap to clone.
///
/// Upstream's manager serves them at `/debug/controllers/{controller}/{page}`. They may show names of any object, so the
/// server that serves them must restrict who may read them.
#[derive(Clone, Default)]
pub struct DebugPages(Arc<Mutex<Pages>>);

impl DebugPages {
    /// Adds a page of a controller. Replaces an earlier page of that name.
    pub fn add(
        &self,
        controller: &'static str,
        page: &'static str,
        show: impl Fn(&Query) -> Page + Send + Sync + 'static,
    ) {
        self.0.lock().insert((controller, page), Arc::new(show));
    }

    /// A page as it is now. `None` if there is no such page.
    pub fn show(&self, controller: &str, page: &str, query: &Query) -> Option<Page> {
        let show = {
            let pages = self.0.lock();
            let named = pages.iter().find(|(name, _)| **name == (controller, page));
            named.map(|(_, show)| Arc::clone(show))?
        };
        Some(show(query))
    }
}

impl fmt::Debug for DebugPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_made_anew_from_its_parameters() {
        let pages = DebugPages::default();
        pages.add("toys", "list", |query| Page {
            media_type: "text/plain",
            text: query.get("toy").collect::<Vec<_>>().join(" "),
        });
        let query =
            Query([("toy", "a"), ("other", "b"), ("toy", "c")].map(|(k, v)| (k.into(), v.into())).into());
        let shown = |controller, page| pages.show(controller, page, &query).map(|page| page.text);
        assert_eq!(shown("toys", "list").as_deref(), Some("a c"));
        assert_eq!((shown("toys", "other"), shown("other", "list")), (None, None));
    }
}
