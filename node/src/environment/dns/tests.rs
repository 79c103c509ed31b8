//! DNS settings by policy, and what is cut off.

use k8s_openapi::api::core::v1::{PodDNSConfigOption, PodSpec};

use super::*;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn pod(policy: &str, host_network: bool) -> Pod {
    let spec =
        PodSpec { dns_policy: Some(policy.into()), host_network: Some(host_network), ..Default::default() };
    let mut pod = Pod { spec: Some(spec), ..Default::default() };
    pod.metadata.name = Some("web".into());
    pod.metadata.namespace = Some("shop".into());
    pod.metadata.uid = Some("u-1".into());
    pod
}

fn with_config(policy: &str, own: PodDNSConfig) -> Pod {
    let mut pod = pod(policy, false);
    pod.spec.as_mut().unwrap().dns_config = Some(own);
    pod
}

fn host() -> ResolvConf {
    ResolvConf {
        servers: texts(&["8.8.8.8"]),
        searches: texts(&["corp.example", "cluster.local"]),
        options: texts(&["ndots:2", "debug"]),
    }
}

fn settings() -> DnsSettings {
    DnsSettings {
        cluster_dns: vec!["10.0.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".into(),
        ..Default::default()
    }
}

fn dns(servers: &[&str], searches: &[&str], options: &[&str]) -> v1::DnsConfig {
    v1::DnsConfig { servers: texts(servers), searches: texts(searches), options: texts(options) }
}

#[test]
fn the_policy_says_whose_name_servers_are_asked() {
    let of_cluster = dns(
        &["10.0.0.10"],
        &["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"],
        &["ndots:5"],
    );
    let of_host = dns(&["8.8.8.8"], &["corp.example", "cluster.local"], &["ndots:2", "debug"]);
    for (policy, host_network, expected) in [
        ("ClusterFirst", false, &of_cluster),
        ("ClusterFirst", true, &of_host),
        ("ClusterFirstWithHostNet", true, &of_cluster),
        ("Default", false, &of_host),
        ("None", false, &dns(&[], &[], &[])),
        ("Unheard", false, &of_cluster),
    ] {
        let (found, complaints) = pod_dns(&pod(policy, host_network), host(), &settings(), &[]);
        assert_eq!((&found, complaints), (expected, vec![]), "{policy} {host_network}");
    }
    let no_domain = DnsSettings { cluster_domain: String::new(), ..settings() };
    let (found, _) = pod_dns(&pod("ClusterFirst", false), host(), &no_domain, &[]);
    assert_eq!(found.searches, host().searches);
}

#[test]
fn without_name_servers_of_the_cluster_the_nodes_are_asked_and_that_is_told() {
    let none = DnsSettings { cluster_dns: vec![], ..settings() };
    let (found, complaints) = pod_dns(&pod("ClusterFirst", false), host(), &none, &[]);
    assert_eq!(found.servers, host().servers);
    let text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                Falling back to \"Default\" policy.";
    assert_eq!(
        complaints,
        [
            Complaint::OfNode("MissingClusterDNS", text.to_owned()),
            Complaint::OfPod("MissingClusterDNS", format!("pod: \"web_shop(u-1)\". {text}")),
        ]
    );
}

#[test]
fn without_a_file_the_pod_itself_is_asked() {
    let no_file = DnsSettings { resolv_conf: None, ..settings() };
    for (ips, servers) in [
        (&[][..], &["127.0.0.1"][..]),
        (&["10.0.0.2"], &["127.0.0.1"]),
        (&["fd00::2", "10.0.0.2"], &["::1", "127.0.0.1"]),
    ] {
        let (found, _) = pod_dns(&pod("Default", false), ResolvConf::default(), &no_file, &texts(ips));
        assert_eq!(found, dns(servers, &["."], &[]));
    }
}

#[test]
fn what_the_pod_says_is_added() {
    let option = |name: &str, value: Option<&str>| PodDNSConfigOption {
        name: Some(name.into()),
        value: value.map(str::to_owned),
    };
    let own = PodDNSConfig {
        nameservers: Some(texts(&["9.9.9.9", "8.8.8.8", "9.9.9.9"])),
        searches: Some(texts(&["own.example", "corp.example"])),
        options: Some(vec![option("ndots", Some("1")), option("edns0", None), option("debug", Some(""))]),
    };
    let (found, complaints) = pod_dns(&with_config("Default", own.clone()), host(), &settings(), &[]);
    let expected = dns(
        &["8.8.8.8", "9.9.9.9"],
        &["corp.example", "cluster.local", "own.example"],
        &["ndots:1", "debug", "edns0"],
    );
    assert_eq!((found, complaints), (expected, vec![]));
    let (found, _) = pod_dns(&with_config("None", own), host(), &settings(), &[]);
    let expected =
        dns(&["9.9.9.9", "8.8.8.8"], &["own.example", "corp.example"], &["ndots:1", "edns0", "debug"]);
    assert_eq!(found, expected);
}

#[test]
fn more_name_servers_than_three_are_cut_off() {
    let own = PodDNSConfig {
        nameservers: Some(texts(&["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"])),
        ..Default::default()
    };
    let (found, complaints) = pod_dns(&with_config("None", own), host(), &settings(), &[]);
    assert_eq!(found.servers, ["1.1.1.1", "2.2.2.2", "3.3.3.3"]);
    let message = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: \
                   1.1.1.1 2.2.2.2 3.3.3.3";
    assert_eq!(complaints, [Complaint::OfPod("DNSConfigForming", message.to_owned())]);
}

#[test]
fn searches_beyond_the_limits_are_cut_off() {
    let numbered = |count: usize, length: usize| -> Vec<String> {
        (0..count).map(|number| format!("{number:0length$}")).collect()
    };
    for (case, searches, left) in [
        ("as many as may be", numbered(32, 3), 32),
        ("too many", numbered(33, 3), 32),
        ("one too long", [numbered(2, 3), vec!["a".repeat(254)], numbered(1, 4)].concat(), 3),
        ("of the greatest length", vec!["a".repeat(253)], 1),
        // Eight of 256 characters with their spaces are one too many; without the last space they fit.
        ("a full line", [numbered(8, 253), vec!["a".repeat(16)]].concat(), 9),
        ("a line too long", [numbered(8, 253), vec!["a".repeat(17)]].concat(), 8),
        ("much too long", numbered(30, 253), 8),
    ] {
        let before = searches.len();
        let own = PodDNSConfig { searches: Some(searches.clone()), ..Default::default() };
        let (found, complaints) = pod_dns(&with_config("None", own), host(), &settings(), &[]);
        assert_eq!((found.searches.len(), complaints.len()), (left, usize::from(left < before)), "{case}");
        for complaint in complaints {
            let message = format!(
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
                found.searches.join(" ")
            );
            assert_eq!(complaint, Complaint::OfPod("DNSConfigForming", message));
        }
    }
}
