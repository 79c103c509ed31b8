//! Under which name a pod runs.

use k8s_openapi::api::core::v1::Pod;
use steersman_api::names;

/// The longest host name, without its end mark.
const MAX: usize = 63;

/// The pod's host name: `hostnameOverride`, `hostname` or its own name, of at most 63 characters; and its domain
/// (`subdomain.namespace.svc.<cluster domain>`), empty where it has no `subdomain`.
///
/// # Errors
/// A name is none; in words for the event.
pub fn hostname_and_domain(pod: &Pod, cluster_domain: &str) -> Result<(String, String), String> {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let spec = pod.spec.as_ref();
    if let Some(name) = spec.and_then(|spec| spec.hostname_override.as_ref()) {
        check("HostnameOverride", name, "a valid DNS subdomain", &names::subdomain(name))?;
        return Ok((truncated(pod, name)?, String::new()));
    }
    let hostname = match spec.and_then(|spec| set(&spec.hostname)) {
        Some(name) => {
            check("Hostname", &name, "a valid DNS label", &names::label(&name))?;
            name
        }
        None => pod.metadata.name.clone().unwrap_or_default(),
    };
    let hostname = truncated(pod, &hostname)?;
    let Some(subdomain) = spec.and_then(|spec| set(&spec.subdomain)) else {
        return Ok((hostname, String::new()));
    };
    check("Subdomain", &subdomain, "a valid DNS label", &names::label(&subdomain))?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Ok((hostname, format!("{subdomain}.{namespace}.svc.{cluster_domain}")))
}

fn check(field: &str, name: &str, what: &str, faults: &[String]) -> Result<(), String> {
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("pod {field} {name:?} is not {what}: {}", faults.join(";")))
}

fn truncated(pod: &Pod, hostname: &str) -> Result<String, String> {
    if hostname.len() <= MAX {
        return Ok(hostname.to_owned());
    }
    // Names are of ASCII; should one not be, it is cut before the character that does not fit.
    let end = (0..=MAX).rev().find(|end| hostname.is_char_boundary(*end)).unwrap_or(0);
    let truncated = hostname[..end].trim_end_matches(['-', '.']);
    if truncated.is_empty() {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        return Err(format!("hostname for pod {name:?} was invalid: {hostname:?}"));
    }
    tracing::debug!(pod = pod.metadata.name, hostname, truncated, "The pod's host name was too long");
    Ok(truncated.to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn names(name: &str, fields: [Option<&str>; 3]) -> Result<(String, String), String> {
        let [hostname, subdomain, hostname_override] = fields.map(|field| field.map(str::to_owned));
        let mut pod = Pod {
            spec: Some(PodSpec { hostname, subdomain, hostname_override, ..Default::default() }),
            ..Default::default()
        };
        pod.metadata.name = Some(name.into());
        pod.metadata.namespace = Some("shop".into());
        hostname_and_domain(&pod, "cluster.local")
    }

    #[test]
    fn a_pod_runs_under_its_own_name_unless_it_says_otherwise() {
        let long = "a".repeat(62);
        for (name, fields, hostname, domain) in [
            ("web-1", [None, None, None], "web-1", ""),
            ("web-1", [Some(""), Some(""), None], "web-1", ""),
            ("web-1", [Some("db"), None, None], "db", ""),
            ("web-1", [None, Some("farm"), None], "web-1", "farm.shop.svc.cluster.local"),
            ("web-1", [Some("db"), Some("farm"), None], "db", "farm.shop.svc.cluster.local"),
            ("web-1", [Some("db"), Some("farm"), Some("a.example.com")], "a.example.com", ""),
            (&format!("{long}bcd"), [None, None, None], &format!("{long}b"), ""),
            (&format!("{long}-cd"), [None, None, None], &long, ""),
            (&format!("{}.-.cd", &long[..60]), [None, None, None], &long[..60], ""),
            ("web-1", [None, None, Some(&format!("{long}.com"))], &long, ""),
        ] {
            let expected = Ok((hostname.to_owned(), domain.to_owned()));
            assert_eq!(names(name, fields), expected, "{name} {fields:?}");
        }
    }

    #[test]
    fn a_bad_name_is_refused_in_upstreams_words() {
        for (fields, error) in [
            (
                [Some("a.b"), None, None],
                "pod Hostname \"a.b\" is not a valid DNS label: must not contain dots",
            ),
            (
                [Some("A"), None, None],
                "pod Hostname \"A\" is not a valid DNS label: a lowercase RFC 1123 label must consist of lower case \
                 alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. \
                 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
            (
                [None, Some(&"a".repeat(64)), None],
                &format!(
                    "pod Subdomain \"{}\" is not a valid DNS label: must be no more than 63 characters",
                    "a".repeat(64)
                ),
            ),
            (
                [None, None, Some("a_b")],
                "pod HostnameOverride \"a_b\" is not a valid DNS subdomain: a lowercase RFC 1123 subdomain must consist \
                 of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ] {
            assert_eq!(names("web-1", fields).unwrap_err(), error);
        }
        let dashes = names(&"-".repeat(64), [None, None, None]).unwrap_err();
        assert_eq!(
            dashes,
            format!("hostname for pod {:?} was invalid: {:?}", "-".repeat(64), "-".repeat(64))
        );
    }
}
