//! Requests from anybody: what is read of them, and that nothing else gets through.

use super::super::testing::csr;
use super::uri;
use super::{Error, Request};

use x509_parser::pem::Pem;

#[test]
fn a_request_tells_whom_it_is_for() {
    let request =
        csr("system:node:n1").organization("system:nodes").organization("b").dns("n1").ip("10.0.0.1");
    let request = request.email("a@b").uri("spiffe://x/y").request();
    assert_eq!(request.subject.common_name(), "system:node:n1");
    assert_eq!(request.subject.organizations(), ["system:nodes", "b"]);
    assert_eq!(request.names.dns, ["n1"]);
    assert_eq!(request.names.ips, [vec![10, 0, 0, 1]]);
    assert_eq!(request.names.emails, ["a@b"]);
    assert_eq!(request.names.uris, ["spiffe://x/y"]);
    request.verified_key().unwrap();
}

#[test]
fn a_request_is_in_a_block_of_its_own_label() {
    let good = csr("a").pem();
    for (name, pem) in [
        ("nothing", String::new()),
        ("no PEM", "a request".to_owned()),
        ("another label", good.replace("CERTIFICATE REQUEST", "CERTIFICATE")),
        ("another block first", format!("-----BEGIN X-----\nAAAA\n-----END X-----\n{good}")),
        ("no end", good.replace("-----END CERTIFICATE REQUEST-----", "")),
        ("no base64", good.replace('M', "*")),
    ] {
        assert_eq!(Request::from_pem(pem.as_bytes()), Err(Error::Pem), "{name}");
    }
    Request::from_pem(format!("a comment\n{good}").as_bytes()).unwrap();
}

#[test]
fn a_damaged_request_is_refused_or_is_the_same() {
    let pem = csr("system:node:n1").organization("system:nodes").dns("n1").ip("10.0.0.1").pem();
    let der = Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap().contents;
    let whole = Request::from_der(der.clone()).unwrap();
    for length in 0..der.len() {
        Request::from_der(der[..length].to_vec()).unwrap_err();
    }
    for at in 0..der.len() {
        for bit in 0..8 {
            let mut damaged = der.clone();
            damaged[at] ^= 1 << bit;
            let Ok(request) = Request::from_der(damaged) else { continue };
            if let Ok(key) = request.verified_key() {
                assert_eq!(
                    (&request.subject, &request.names),
                    (&whole.subject, &whole.names),
                    "byte {at}, bit {bit}"
                );
                assert_eq!(Ok(key), whole.verified_key());
            }
        }
    }
}

#[test]
fn uris_are_those_that_go_leaves_unchanged() {
    for good in [
        "spiffe://cluster.local/ns/a/sa/b",
        "http://a.example.com:8080/x?y=z#f",
        "https://user@host/%20",
        "mailto:a@example.com",
        "urn:a:b",
        "/path",
        "path/a:b",
        "?q=:",
        "",
        "http://",
    ] {
        assert_eq!(uri::check(good), Ok(()), "{good}");
    }
    for bad in [
        ":a",
        "1a:b",
        "a b",
        "http://a b",
        "http://a/%zz",
        "http://a/%2",
        "http://a./",
        "http://a..b/",
        "http://.a/",
        "http://[::1]/",
        "http://a:b/",
        "http://ü/",
        "http://a/<",
        "\u{7f}",
    ] {
        assert!(uri::check(bad).is_err(), "{bad}");
    }
}
