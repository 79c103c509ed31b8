use proptest::prelude::*;
use serde_json::json;
use steersman_api::wire::{Writer, wrap};

use super::*;

/// Feeds a body in pieces of the given sizes, over and over.
fn split<S: Splitter>(mut splitter: S, body: &[u8], sizes: &[usize]) -> Result<Vec<S::Part>, FrameError> {
    let mut parts = Vec::new();
    let (mut rest, mut sizes) = (body, sizes.iter().cycle());
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap_or(&rest.len())).clamp(1, rest.len());
        let (piece, behind) = rest.split_at(size);
        splitter.push(Bytes::copy_from_slice(piece));
        while let Some(part) = splitter.next()? {
            parts.push(part);
        }
        rest = behind;
    }
    splitter.finish()?;
    Ok(parts)
}

fn protobuf_list(items: &[Vec<u8>]) -> Vec<u8> {
    let mut list = Writer::new();
    list.message(1, |meta| meta.text(2, "42"));
    items.iter().for_each(|item| list.bytes(2, item));
    wrap("v1", "PodList", &list.into_bytes())
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1_usize..40, 1..6)
}

proptest! {
    #[test]
    fn a_protobuf_list_is_split_alike_in_whatever_pieces_it_comes(
        items in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20), sizes in sizes(),
    ) {
        let parts = split(ProtobufList::default(), &protobuf_list(&items), &sizes).unwrap();
        let expected: Vec<_> = items.into_iter().map(|item| ListPart::Item(item.into())).collect();
        prop_assert!(matches!(parts[0], ListPart::Meta(_)));
        prop_assert_eq!(&parts[1..], &expected[..]);
    }

    #[test]
    fn a_json_list_is_split_alike_in_whatever_pieces_it_comes(
        names in proptest::collection::vec("[a-z\"\\\\{}\\[\\], \n]{0,20}", 0..20), sizes in sizes(), pretty in any::<bool>(),
    ) {
        let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name}, "list": [1, [2]]})).collect();
        let list = json!({"kind": "PodList", "n": 12, "metadata": {"resourceVersion": "42"}, "items": items, "z": null});
        let body = if pretty { serde_json::to_string_pretty(&list).unwrap() } else { list.to_string() };
        let parts = split(JsonList::default(), body.as_bytes(), &sizes).unwrap();
        let read = |part: &ListPart| match part {
            ListPart::Item(item) => Some(serde_json::from_slice::<serde_json::Value>(item).unwrap()),
            ListPart::Meta(_) => None,
        };
        prop_assert_eq!(parts.iter().filter_map(read).collect::<Vec<_>>(), items);
        prop_assert_eq!(parts.iter().filter(|part| matches!(part, ListPart::Meta(_))).count(), 1);
    }

    #[test]
    fn no_bytes_make_a_splitter_panic(body in proptest::collection::vec(any::<u8>(), 0..200), sizes in sizes()) {
        let _ = split(ProtobufList::default(), &body, &sizes);
        let _ = split(ProtobufList::default(), &[b"k8s\0", &body[..]].concat(), &sizes);
        let _ = split(JsonList::default(), &body, &sizes);
        let _ = split(ProtobufWatch::default(), &body, &sizes);
        let _ = split(JsonWatch::default(), &body, &sizes);
    }

    #[test]
    fn a_list_that_is_cut_short_is_never_taken_for_whole(
        items in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..30), 1..6), cut in 0.0..1.0_f64,
    ) {
        let mut list = Writer::new();
        list.message(1, |meta| meta.text(2, "42"));
        items.iter().for_each(|item| list.bytes(2, item));
        // Without the empty fields at its end, a body that lacks anything lacks a part.
        let mut body = Writer::onto(b"k8s\0");
        body.bytes(2, &list.into_bytes());
        let body = body.into_bytes();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let cut = (body.len() as f64 * cut) as usize;
        prop_assume!(cut > 4);
        prop_assert!(split(ProtobufList::default(), &body[..cut], &[7]).is_err());
    }
}

#[test]
fn watches_are_split_into_events_in_both_encodings() {
    let mut frame = Writer::new();
    frame.text(1, "MODIFIED");
    frame.message(2, |extension| extension.bytes(1, &wrap("v1", "Pod", b"raw")));
    let frame = frame.into_bytes();
    let body = [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], &frame].concat().repeat(2);
    let parts = split(ProtobufWatch::default(), &body, &[3]).unwrap();
    assert_eq!(parts, [RawEvent::Modified("raw".into()), RawEvent::Modified("raw".into())]);

    let body = "{\"type\":\"ADDED\",\"object\":{\"a\": 1}}\n\n{\"type\":\"DELETED\",\"object\":{}}\n";
    let parts = split(JsonWatch::default(), body.as_bytes(), &[5]).unwrap();
    assert_eq!(parts, [RawEvent::Added("{\"a\": 1}".into()), RawEvent::Deleted("{}".into())]);
}

#[test]
fn space_costs_no_room() {
    let mut list = JsonList::default();
    let begin = ["{", "{\"items\"", "{\"items\":", "{\"items\":[", "{\"items\":[],"];
    for begin in begin {
        let mut list = JsonList::default();
        list.push(Bytes::from_static(begin.as_bytes()));
        for _ in 0..20 {
            list.push(vec![b' '; 1 << 14].into());
            assert_eq!(list.next().unwrap(), None);
        }
        assert!(list.held() < 1 << 15, "{begin} holds {}", list.held());
    }
    list.push(Bytes::from_static(b"{\"metadata\" \n : {}}"));
    assert_eq!(list.next().unwrap(), Some(ListPart::Meta("{}".into())));
}

#[test]
fn what_is_no_list_and_no_watch_is_refused() {
    let json = |body: &str| split(JsonList::default(), body.as_bytes(), &[9]);
    for body in ["[]", "<html>", "{1}", "{\"items\" 1}", "{\"items\":[}", "{} {}", "{\"items\":[{]"] {
        assert!(json(body).is_err(), "{body}");
    }
    assert!(split(ProtobufList::default(), b"{\"items\": []}", &[4]).is_err());
    assert!(split(JsonWatch::default(), b"{\"type\":\"NEW\",\"object\":{}}\n", &[4]).is_err());
    let huge = u32::MAX.to_be_bytes();
    assert!(matches!(split(ProtobufWatch::default(), &huge, &[4]), Err(FrameError::TooLarge(_))));
}
