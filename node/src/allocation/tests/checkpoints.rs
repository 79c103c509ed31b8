//! What is on disk.

use super::*;
use crate::allocation::checkpoint::{ALLOCATED_PODS_STATE, Corrupt, Entries, decode, encode};
use crate::allocation::{Error, PodResources, Store};

/// As the kubelet writes it, with the checksum of its own tests.
const OF_KUBELET: &str = r#"{"data":"{\"entries\":{\"pod1\":{\"ContainerResources\":{\"container1\":{\"requests\":{\"cpu\":\"1Ki\",\"memory\":\"1Ki\"}}}}}}","checksum":1178570812}"#;

#[test]
fn a_file_of_the_kubelet_is_read() {
    let entries = decode(OF_KUBELET.as_bytes()).unwrap();
    let requests = json!({ "requests": { "cpu": "1Ki", "memory": "1Ki" } });
    let containers = [("container1".to_owned(), serde_json::from_value(requests).unwrap())];
    let expected = PodResources { containers: containers.into(), pod: None };
    assert_eq!(entries, Entries::from([("pod1".into(), expected)]));
}

#[test]
fn what_is_written_is_read_again_and_has_the_kubelets_names() {
    let pod = whole(
        "u",
        json!({
            "containers": [{ "name": "c", "resources": { "limits": { "cpu": "1" }, "requests": { "cpu": "100m" } } }],
            "initContainers": [{ "name": "i" }],
            "resources": { "limits": { "memory": "1Gi" } },
        }),
    );
    let entries = Entries::from([("u".into(), PodResources::of(&pod))]);
    let written = encode(&entries);
    assert_eq!(decode(&written).unwrap(), entries);
    let file: Value = serde_json::from_slice(&written).unwrap();
    let data: Value = serde_json::from_str(file["data"].as_str().unwrap()).unwrap();
    assert_eq!(
        data,
        json!({ "entries": { "u": {
            "ContainerResources": {
                "c": { "limits": { "cpu": "1" }, "requests": { "cpu": "100m" } },
                "i": {},
            },
            "PodLevelResources": { "limits": { "memory": "1Gi" } },
        } } })
    );
    assert_eq!(decode(&encode(&Entries::new())).unwrap(), Entries::new());
}

#[test]
fn a_file_that_was_changed_or_cut_off_is_refused() {
    let changed = OF_KUBELET.replace("pod1", "pod2");
    assert!(matches!(decode(changed.as_bytes()), Err(Corrupt::Checksum { expected: 1_178_570_812, .. })));
    for cut in [&OF_KUBELET[..40], "", "{}"] {
        assert!(matches!(decode(cut.as_bytes()), Err(Corrupt::Json(_))), "{cut}");
    }
}

#[test]
fn a_store_comes_back_from_its_file_and_writes_only_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(ALLOCATED_PODS_STATE);
    let store = Store::open(path.clone()).unwrap();
    store.save().unwrap();
    assert!(!path.exists(), "there is nothing to write");
    let resources = PodResources::of(&pod("a", "1"));
    store.set(&"a".into(), resources.clone());
    store.set(&"b".into(), PodResources::of(&pod("b", "2")));
    store.save().unwrap();
    let again = Store::open(path.clone()).unwrap();
    assert_eq!(again.get(&"a".into()), Some(resources.clone()));

    std::fs::remove_file(&path).unwrap();
    store.set(&"a".into(), resources.clone());
    store.remove(&"b".into());
    store.save().unwrap();
    assert!(!path.exists(), "the same again is no change, and what went goes with the next one");
    store.set(&"c".into(), resources);
    store.save().unwrap();
    let again = Store::open(path).unwrap();
    assert_eq!((again.get(&"b".into()), again.get(&"c".into()).is_some()), (None, true));
}

#[test]
fn a_store_that_could_not_be_written_is_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join(ALLOCATED_PODS_STATE);
    let store = Store::open(path.clone()).unwrap();
    store.set(&"a".into(), PodResources::of(&pod("a", "1")));
    store.save().unwrap_err();
    std::fs::create_dir(folder.path().join("missing")).unwrap();
    store.save().unwrap();
    assert!(Store::open(path).unwrap().get(&"a".into()).is_some());
}

#[test]
fn a_store_does_not_begin_over_a_file_that_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(ALLOCATED_PODS_STATE);
    std::fs::write(&path, OF_KUBELET.replace("1Ki", "2Ki")).unwrap();
    let error = Store::open(path.clone()).unwrap_err();
    assert!(matches!(error, Error::Restore { .. }), "{error}");
    assert!(error.to_string().contains("please drain this node and delete"), "{error}");
    assert!(matches!(Store::open(folder.path().to_owned()), Err(Error::Read { .. })));
}
