//! `hostPath`: a file or folder of the node, as it is.

use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use crate::volumes::disk::{DiskError, During, make_dirs};

/// As upstream names it.
pub(in crate::volumes) const PLUGIN: &str = "kubernetes.io/host-path";

/// Makes what is to be made, and sees whether what is there is of the type that the volume names.
pub(in crate::volumes) fn set_up(source: &HostPathVolumeSource) -> Result<(), DiskError> {
    let text = source.path.as_str();
    if text.split('/').any(|part| part == "..") {
        return Err(DiskError::Invalid(format!("invalid HostPath `{text}`: must not contain '..'")));
    }
    let path = Path::new(text);
    let found = std::fs::metadata(path).ok().map(|meta| meta.file_type());
    let is = |kind: fn(&std::fs::FileType) -> bool, name: &str| {
        if found.as_ref().is_some_and(kind) {
            return Ok(());
        }
        Err(DiskError::Invalid(format!("hostPath type check failed: {text} is not a {name}")))
    };
    match source.type_.as_deref().unwrap_or_default() {
        "" => Ok(()),
        "DirectoryOrCreate" if found.is_none() => make_dirs(path, 0o755),
        "FileOrCreate" if found.is_none() => {
            let open = std::fs::OpenOptions::new().create(true).append(true).mode(0o644).open(path);
            open.map(drop).during("creating file", path)
        }
        "DirectoryOrCreate" | "Directory" => is(std::fs::FileType::is_dir, "directory"),
        "FileOrCreate" | "File" => is(std::fs::FileType::is_file, "file"),
        "Socket" => is(FileTypeExt::is_socket, "socket file"),
        "CharDevice" => is(FileTypeExt::is_char_device, "character device"),
        "BlockDevice" => is(FileTypeExt::is_block_device, "block device"),
        other => Err(DiskError::Invalid(format!("{other} is an invalid volume type"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path, type_: &str) -> Result<(), String> {
        let path = path.display().to_string();
        let source = HostPathVolumeSource { path, type_: Some(type_.to_owned()) };
        set_up(&source).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_there_must_be_of_the_type_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::fs::create_dir(at("dir")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let types = ["Directory", "File", "Socket", "CharDevice", "BlockDevice"];
        for (path, fitting) in [
            (at("dir"), "Directory"),
            (at("file"), "File"),
            (at("socket"), "Socket"),
            ("/dev/null".into(), "CharDevice"),
            (at("none"), ""),
        ] {
            check(&path, "").unwrap();
            for type_ in types {
                assert_eq!(check(&path, type_).is_ok(), type_ == fitting, "{path:?} {type_}");
            }
        }
        let file = at("file").display().to_string();
        assert_eq!(
            check(&at("file"), "Directory").unwrap_err(),
            format!("hostPath type check failed: {file} is not a directory")
        );
        assert_eq!(check(&at("file"), "Door").unwrap_err(), "Door is an invalid volume type");
        assert!(check(Path::new("/a/../b"), "").unwrap_err().contains("must not contain '..'"));
    }

    #[test]
    fn what_is_missing_is_made_where_the_type_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        check(&at("a/b"), "DirectoryOrCreate").unwrap();
        check(&at("a/b"), "DirectoryOrCreate").unwrap();
        check(&at("a/c"), "FileOrCreate").unwrap();
        assert!(at("a/b").is_dir() && at("a/c").is_file());
        assert!(check(&at("a/c"), "DirectoryOrCreate").is_err());
        assert!(check(&at("none/c"), "FileOrCreate").is_err());
    }
}
