//! Settings from files, drop-ins and flags.

mod defaults;
mod drop_ins;
mod fields;
mod flags;
mod thresholds;
mod validation;

use super::{Error, KubeletConfiguration, Loaded, Sources, load};

/// What every file begins with.
const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A folder of its own with `kubelet.yaml`, which has these lines after its head.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(lines: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.add("kubelet.yaml", &format!("{HEAD}{lines}"))
    }

    fn add(self, name: &str, text: &str) -> Self {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn sources(&self) -> Sources {
        Sources { file: Some(self.0.path().join("kubelet.yaml")), ..Sources::default() }
    }

    /// With the folder `conf.d` of drop-ins.
    fn with_drop_ins(&self) -> Sources {
        Sources { directory: Some(self.0.path().join("conf.d")), ..self.sources() }
    }

    /// A line without the folder's own path.
    fn plainly(&self, line: &str) -> String {
        line.replace(&format!("{}/", self.0.path().display()), "")
    }

    fn refusal(&self, sources: &Sources) -> String {
        self.plainly(&load(sources).unwrap_err().to_string())
    }
}

fn loaded(lines: &str) -> Loaded {
    load(&Folder::new(lines).sources()).unwrap_or_else(|error| panic!("{error}"))
}

fn configuration(lines: &str) -> KubeletConfiguration {
    loaded(lines).configuration
}

fn refused(lines: &str) -> String {
    let folder = Folder::new(lines);
    folder.refusal(&folder.sources())
}

fn warnings(lines: &str) -> Vec<String> {
    let folder = Folder::new(lines);
    let loaded = load(&folder.sources()).unwrap_or_else(|error| panic!("{error}"));
    loaded.warnings.iter().map(|line| folder.plainly(line)).collect()
}

fn invalid(configuration: &KubeletConfiguration) -> Vec<String> {
    let faults = configuration.validate().err().unwrap_or_default();
    assert!(faults.is_empty() || Error::Invalid(faults.clone()).to_string().lines().count() == 1);
    faults.iter().map(ToString::to_string).collect()
}
