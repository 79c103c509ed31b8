//! Estimates how much memory cached objects hold.

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, Meta, OwnerReference, shared_list};

/// What the allocation of a shared string holds beside its text: its length and the number of its users.
const TEXT_HEAD: usize = 16;

/// The memory of a string's text in bytes. Of a text that several strings share, the share of one of them.
pub fn text_bytes(text: &ArcStr) -> usize {
    // Static texts have no users to count, and the empty one is static.
    ArcStr::strong_count(text).map_or(0, |users| (text.len() + TEXT_HEAD) / users.max(1))
}

/// The memory of a list whose elements hold so much beside themselves, in bytes. Of a list that several objects share, the share of
/// one of them.
fn list_bytes<T>(elements: usize, users: usize, beside: usize) -> usize {
    (shared_list::HEAD + elements * size_of::<T>() + beside).checked_div(users).unwrap_or(0)
}

/// The memory of pairs of strings, in bytes.
pub(super) fn pair_bytes<'a>(pairs: impl Iterator<Item = (&'a ArcStr, &'a ArcStr)>) -> usize {
    pairs.map(|(key, value)| size_of::<(ArcStr, ArcStr)>() + text_bytes(key) + text_bytes(value)).sum()
}

/// The memory that labels hold beside themselves, in bytes.
fn label_bytes(labels: &Labels) -> usize {
    let texts = labels.iter().map(|(key, value)| text_bytes(key) + text_bytes(value)).sum();
    list_bytes::<(ArcStr, ArcStr)>(labels.len(), labels.users(), texts)
}

/// The memory that an object's metadata holds beside itself, in bytes.
pub fn meta_bytes(meta: &Meta) -> usize {
    let owner_texts = meta
        .owners
        .iter()
        .map(|owner| text_bytes(&owner.api_version) + text_bytes(&owner.kind) + text_bytes(&owner.name));
    let finalizer_texts = meta.finalizers.iter().map(text_bytes);
    text_bytes(&meta.key.namespace)
        + text_bytes(&meta.key.name)
        + label_bytes(&meta.labels)
        + list_bytes::<OwnerReference>(meta.owners.len(), meta.owners.users(), owner_texts.sum())
        + list_bytes::<ArcStr>(meta.finalizers.len(), meta.finalizers.users(), finalizer_texts.sum())
        + meta.deletion.as_deref().map_or(0, size_of_val)
}

#[cfg(test)]
mod tests {
    use steersman_api::ObjectKey;

    use super::*;

    #[test]
    fn a_shared_text_counts_once_in_all() {
        let alone = ArcStr::from("a text of 20 letters");
        assert_eq!(text_bytes(&alone), 20 + TEXT_HEAD);
        let shared = [alone.clone(), alone.clone(), alone];
        assert_eq!(shared.iter().map(text_bytes).sum::<usize>(), 20 + TEXT_HEAD);
        assert_eq!(text_bytes(&ArcStr::new()), 0);
    }

    #[test]
    fn metadata_counts_all_its_texts() {
        let bare = Meta { key: ObjectKey::cluster("a"), ..Meta::default() };
        let labelled = Meta { labels: [("key", "value")].into_iter().collect(), ..bare.clone() };
        // The name has two users now.
        let name = text_bytes(&bare.key.name);
        assert_eq!(meta_bytes(&bare), name);
        let pair = shared_list::HEAD + 2 * size_of::<ArcStr>() + 3 + TEXT_HEAD + 5 + TEXT_HEAD;
        assert_eq!(meta_bytes(&labelled), name + pair);
    }
}
