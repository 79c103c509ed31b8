use super::super::data::{Form, data};
use super::super::verdicts::{Comparison, Verdicts};
use super::*;

/// The data of the revision of a template, as Kubernetes 1.33 wrote it.
fn old(template: &Value) -> String {
    let data = data(Form::StatefulSet, &protobuf_of(template)).unwrap();
    data.replace(r#""metadata":{"#, r#""metadata":{"creationTimestamp":null,"#)
}

fn new(template: &Value) -> String {
    data(Form::StatefulSet, &protobuf_of(template)).unwrap()
}

#[test]
fn revisions_have_the_template_by_their_data_or_the_last_one_by_meaning() {
    let (a, b) = (image("a"), image("b"));
    for (case, datas, expected) in [
        ("none", vec![], vec![]),
        ("of another template", vec![new(&b)], vec![false]),
        ("the last", vec![new(&b), new(&a)], vec![false, true]),
        ("an earlier one, after a roll-back", vec![new(&a), new(&b)], vec![true, false]),
        ("duplicates", vec![new(&a), new(&b), new(&a)], vec![true, false, true]),
        ("the last, by meaning", vec![new(&b), old(&a)], vec![false, true]),
        ("only an earlier one, by meaning", vec![old(&a), new(&b)], vec![false, false]),
        ("an earlier one by its data, the last by meaning", vec![new(&a), old(&a)], vec![true, false]),
        ("data that can't be read", vec!["1".into(), "null".into()], vec![false, false]),
    ] {
        let set = Set::new("set", &a);
        let revisions: Vec<_> =
            (0_i64..).zip(&datas).map(|(at, data)| revision(&format!("r{at}"), 1, at, data)).collect();
        let verdicts = Verdicts::new(Form::StatefulSet);
        for look in ["first look", "remembered"] {
            assert_eq!(verdicts.of(&set.owner(), revisions.iter()).unwrap(), expected, "{case}, {look}");
        }
    }
}

#[test]
fn where_only_data_counts_a_revision_of_the_same_meaning_does_not_have_the_template() {
    let a = image("a");
    let set = Set::new("set", &a);
    let verdicts = Verdicts::new(Form::StatefulSet).comparing(Comparison::Data);
    for (data, expected) in [(new(&a), true), (old(&a), false)] {
        let revision = revision("r", 1, 1, &data);
        assert_eq!(verdicts.of(&set.owner(), [&revision].into_iter()).unwrap(), [expected], "{data}");
        verdicts.clear();
    }
}

#[test]
fn a_changed_template_or_revision_or_owner_is_judged_anew() {
    let (a, b) = (Set::new("set", &image("a")), Set::new("set", &image("b")));
    let verdicts = Verdicts::new(Form::StatefulSet);
    let of =
        |set: &Set, revision: &ControllerRevision| verdicts.of(&set.owner(), [revision].into_iter()).unwrap();
    let first = revision("r", 1, 1, &new(&image("a")));
    assert_eq!(of(&a, &first), [true]);
    assert_eq!(of(&b, &first), [false]);
    assert_eq!(of(&a, &first), [true]);
    assert_eq!(of(&a, &revision("r", 2, 1, &new(&image("b")))), [false]);
    assert_eq!(of(&a, &revision("r", 3, 1, &old(&image("a")))), [true]);
    assert_eq!(of(&Set::new("other", &image("b")), &first), [false]);
    verdicts.forget(&a.meta.key);
    assert_eq!(of(&a, &first), [true]);
}

#[test]
fn a_template_that_cannot_be_read_is_an_error() {
    let set = Set { template: Opaque::Protobuf([0x0a, 5].into()), ..Set::new("set", &nginx()) };
    let verdicts = Verdicts::new(Form::StatefulSet);
    let revision = revision("r", 1, 1, "{}");
    assert!(verdicts.of(&set.owner(), [&revision].into_iter()).is_err());
    assert!(verdicts.of(&set.owner(), [].into_iter()).unwrap().is_empty());
}
