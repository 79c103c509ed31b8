//! Which requests are due, in the situations of upstream's test.

use super::*;

fn request(name: &str, created: Option<i64>) -> Meta {
    let created = created.map(Time::from_seconds);
    Meta { key: ObjectKey::new("ns", name), uid: name.into(), created, ..Meta::default() }
}

#[test]
fn requests_are_deleted_a_quarter_of_an_hour_after_their_creation() {
    let requests = vec![
        request("old", Some(0)),
        request("just due", Some(100)),
        request("young", Some(101)),
        request("later than the clock", Some(5_000)),
        request("undated", None),
    ];
    let observed = Observed { requests, is_cleaned: false };
    let due = |name: &str| Due { key: ObjectKey::new("ns", name), uid: name.into() };
    let Plan::Act(batch) = plan(&observed, Time::from_seconds(1_000)) else { panic!("nothing is due") };
    assert_eq!(batch.steps, [due("old"), due("just due")]);
    let cleaned = Observed { is_cleaned: true, ..observed };
    assert_eq!(plan(&cleaned, Time::from_seconds(1_000)), Plan::done(), "each is tried once");
    assert_eq!(plan(&Observed::default(), Time::from_seconds(1_000)), Plan::done());
}
