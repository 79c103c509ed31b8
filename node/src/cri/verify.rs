//! What a runtime's answer must have, checked as upstream checks it.

use super::v1;
use crate::runtime::{Error, Result};

pub(super) fn version(response: v1::VersionResponse) -> Result<v1::VersionResponse> {
    let missing: Vec<_> = [
        ("Version", &response.version),
        ("RuntimeName", &response.runtime_name),
        ("RuntimeApiVersion", &response.runtime_api_version),
        ("RuntimeVersion", &response.runtime_version),
    ]
    .into_iter()
    .filter_map(|(name, value)| value.is_empty().then_some(name))
    .collect();
    let why = || format!("not all fields are set in VersionResponse (missing {})", missing.join(", "));
    if missing.is_empty() { Ok(response) } else { Err(Error::Incomplete(why())) }
}

pub(super) fn runtime_status(response: v1::StatusResponse) -> Result<v1::StatusResponse> {
    let conditions = response.status.as_ref().map_or(0, |status| status.conditions.len());
    require(conditions >= 2, "RuntimeReady or NetworkReady condition are not set")?;
    Ok(response)
}

pub(super) fn sandbox_status(response: v1::PodSandboxStatusResponse) -> Result<v1::PodSandboxStatusResponse> {
    let status = response.status.as_ref().ok_or_else(|| incomplete("pod sandbox status is not set"))?;
    require(!status.id.is_empty(), "status.Id is not set")?;
    let metadata = status.metadata.as_ref().ok_or_else(|| incomplete("status.Metadata is not set"))?;
    if [&metadata.name, &metadata.namespace, &metadata.uid].into_iter().any(String::is_empty) {
        return Err(Error::Incomplete(format!(
            "metadata.Name, metadata.Namespace or metadata.Uid is not in metadata {metadata:?}"
        )));
    }
    require(status.created_at != 0, "status.CreatedAt is not set")?;
    Ok(response)
}

pub(super) fn container_status(response: v1::ContainerStatusResponse) -> Result<v1::ContainerStatusResponse> {
    let status = response.status.as_ref().ok_or_else(|| incomplete("container status is not set"))?;
    require(!status.id.is_empty(), "status.Id is not set")?;
    let metadata = status.metadata.as_ref().ok_or_else(|| incomplete("status.Metadata is not set"))?;
    require(!metadata.name.is_empty(), "metadata.Name is not in metadata")?;
    require(status.created_at != 0, "status.CreatedAt is not set")?;
    require(status.image.as_ref().is_some_and(|image| !image.image.is_empty()), "status.Image is not set")?;
    require(!status.image_ref.is_empty(), "status.ImageRef is not set")?;
    Ok(response)
}

pub(super) fn image_status(response: v1::ImageStatusResponse) -> Result<v1::ImageStatusResponse> {
    let complete = response.image.as_ref().is_none_or(|image| !image.id.is_empty() && image.size != 0);
    require(complete, "Id or size of the image is not set")?;
    Ok(response)
}

/// An id or an address that must not be empty.
pub(super) fn filled(value: String, what: &str) -> Result<String> {
    require(!value.is_empty(), what)?;
    Ok(value)
}

pub(super) fn require(holds: bool, why: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(incomplete(why)) }
}

fn incomplete(why: &str) -> Error {
    Error::Incomplete(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes something away.
    type Spoil<T> = fn(&mut T);

    fn whole_container() -> v1::ContainerStatus {
        v1::ContainerStatus {
            id: "c".into(),
            metadata: Some(v1::ContainerMetadata { name: "main".into(), attempt: 0 }),
            created_at: 1,
            image: Some(v1::ImageSpec { image: "i".into(), ..Default::default() }),
            image_ref: "r".into(),
            ..Default::default()
        }
    }

    fn whole_sandbox() -> v1::PodSandboxStatus {
        let name = || "n".to_owned();
        v1::PodSandboxStatus {
            id: "s".into(),
            metadata: Some(v1::PodSandboxMetadata {
                name: name(),
                uid: name(),
                namespace: name(),
                attempt: 0,
            }),
            created_at: 1,
            ..Default::default()
        }
    }

    #[test]
    fn a_container_status_must_have_what_the_kubelet_needs() {
        let check = |spoil: Spoil<v1::ContainerStatus>| {
            let mut status = whole_container();
            spoil(&mut status);
            container_status(v1::ContainerStatusResponse { status: Some(status), ..Default::default() })
        };
        check(|_| ()).unwrap();
        let spoils: [(Spoil<v1::ContainerStatus>, &str); 6] = [
            (|s| s.id.clear(), "status.Id"),
            (|s| s.metadata = None, "status.Metadata"),
            (|s| s.metadata = Some(Default::default()), "metadata.Name"),
            (|s| s.created_at = 0, "status.CreatedAt"),
            (|s| s.image = Some(Default::default()), "status.Image "),
            (|s| s.image_ref.clear(), "status.ImageRef"),
        ];
        for (spoil, missing) in spoils {
            let error = check(spoil).unwrap_err().to_string();
            assert!(error.starts_with(missing), "{missing}: {error}");
        }
        assert!(container_status(Default::default()).is_err());
    }

    #[test]
    fn a_sandbox_status_must_have_what_the_kubelet_needs() {
        let check = |spoil: Spoil<v1::PodSandboxStatus>| {
            let mut status = whole_sandbox();
            spoil(&mut status);
            sandbox_status(v1::PodSandboxStatusResponse { status: Some(status), ..Default::default() })
        };
        check(|_| ()).unwrap();
        let spoils: [(Spoil<v1::PodSandboxStatus>, &str); 4] = [
            (|s| s.id.clear(), "status.Id"),
            (|s| s.metadata = None, "status.Metadata"),
            (
                |s| s.metadata.as_mut().unwrap().uid.clear(),
                "metadata.Name, metadata.Namespace or metadata.Uid",
            ),
            (|s| s.created_at = 0, "status.CreatedAt"),
        ];
        for (spoil, missing) in spoils {
            let error = check(spoil).unwrap_err().to_string();
            assert!(error.starts_with(missing), "{missing}: {error}");
        }
    }

    #[test]
    fn missing_fields_of_a_version_are_named() {
        let error =
            version(v1::VersionResponse { version: "0.1.0".into(), ..Default::default() }).unwrap_err();
        assert!(
            error.message().ends_with("(missing RuntimeName, RuntimeApiVersion, RuntimeVersion)"),
            "{error}"
        );
    }

    #[test]
    fn an_image_that_is_not_at_hand_is_a_whole_answer() {
        image_status(v1::ImageStatusResponse::default()).unwrap();
        image_status(v1::ImageStatusResponse { image: Some(Default::default()), ..Default::default() })
            .unwrap_err();
    }
}
