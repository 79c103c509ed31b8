//! Requests from anybody: what is read of them, and that nothing else gets through.

use super::super::der::sequence;
use super::super::testing::{Csr, csr};
use super::uri;
use super::{Error, Request, Subject};

use rcgen::KeyPair;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;
use yasna::Tag;
use yasna::models::ObjectIdentifier;

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
        // Go's decoder skips these blocks, so other programs see the one after them.
        ("text after the label", good.replacen("REQUEST-----", "REQUEST-----x", 1) + &good),
        ("a carriage return after the label", good.replacen("REQUEST-----", "REQUEST-----\r\r", 1) + &good),
        ("another label at the end", good.replace("END CERTIFICATE REQUEST", "END CERTIFICATE") + &good),
        ("text after the end", format!("{}x\n{good}", good.trim_end())),
    ] {
        assert_eq!(Request::from_pem(pem.as_bytes()), Err(Error::Pem), "{name}");
    }
    for pem in
        [format!("a comment\n{good}"), good.replace('\n', " \t\r\n"), format!("{good}{}", csr("b").pem())]
    {
        assert_eq!(Request::from_pem(pem.as_bytes()).unwrap().subject.common_name(), "a", "{pem}");
    }
}

/// The request in DER with the one occurrence of `from` replaced.
fn altered(request: &Csr, from: &[u8], to: &[u8]) -> Vec<u8> {
    let pem = request.pem();
    let der = Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap().contents;
    let found: Vec<_> = (0..der.len()).filter(|at| der[*at..].starts_with(from)).collect();
    let [at] = found[..] else { panic!("{from:?} occurs {} times", found.len()) };
    [&der[..at], to, &der[at + from.len()..]].concat()
}

#[test]
fn a_subject_has_no_values_that_go_does_not_see() {
    const UTF8: u8 = 12;
    let request = csr("a").organization("system:masters");
    let value = |tag: u8| [&[tag, 14], &b"system:masters"[..]].concat();
    for (name, class_or_constructed) in [("context", 0x80), ("application", 0x40), ("constructed", 0x20)] {
        let der = altered(&request, &value(UTF8), &value(UTF8 | class_or_constructed));
        assert_eq!(Request::from_der(der).unwrap().subject.organizations(), [""; 0], "{name}");
    }
}

#[test]
fn the_type_of_a_subjects_value_is_in_its_shortest_form() {
    let name = |kind: &[u8]| {
        let attribute = [&[6, u8::try_from(kind.len()).unwrap()], kind, &[12, 1, b'x']].concat();
        let within = |tag: u8, der: Vec<u8>| [&[tag, u8::try_from(der.len()).unwrap()], &der[..]].concat();
        within(0x30, within(0x31, within(0x30, attribute)))
    };
    let organizations = |der: &[u8]| {
        let (_, name) = X509Name::from_der(der).unwrap();
        Subject::of(&name).unwrap().organizations().to_vec()
    };
    assert_eq!(organizations(&name(&[0x55, 4, 10])), ["x"]);
    assert_eq!(organizations(&name(&[0x55, 4, 0x80, 10])), [""; 0]);
}

#[test]
fn a_request_has_no_names_that_go_does_not_see() {
    let request = csr("a").dns("n1");
    let dns = |tag: u8| [tag, 2, b'n', b'1'];
    for tag in [0xa2, 0x42, 0x02] {
        Request::from_der(altered(&request, &dns(0x82), &dns(tag))).unwrap_err();
    }
    // The attribute `extensionRequest`: a sequence of its type and a set of values.
    let kind = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
    let set = |tag: u8| [&kind[..], &[tag]].concat();
    Request::from_der(altered(&request, &set(0x31), &set(0x31))).unwrap();
    for tag in [0xb1, 0x71, 0x11] {
        Request::from_der(altered(&request, &set(0x31), &set(tag))).unwrap_err();
    }
    let der = altered(&request, kind, kind);
    let at = (0..der.len()).find(|at| der[*at..].starts_with(kind)).unwrap();
    for tag in [0xb0, 0x70] {
        let mut der = der.clone();
        der[at - 2] = tag;
        Request::from_der(der).unwrap_err();
    }
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

/// A request in DER, without a valid signature, that asks for extensions of types with these numbers.
fn with_extensions(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    let key = KeyPair::generate().unwrap().public_key_pem();
    let key = Pem::iter_from_buffer(key.as_bytes()).next().unwrap().unwrap().contents;
    let numbers: Vec<_> = numbers.collect();
    let oid = |components: &[u64]| ObjectIdentifier::from_slice(components);
    sequence(|request| {
        request.next().write_sequence(|info| {
            info.next().write_u8(0);
            info.next().write_sequence(|_| {});
            info.next().write_der(&key);
            info.next().write_tagged_implicit(Tag::context(0), |attributes| {
                attributes.write_set(|attributes| {
                    attributes.next().write_sequence(|attribute| {
                        attribute.next().write_oid(&oid(&[1, 2, 840, 113_549, 1, 9, 14]));
                        attribute.next().write_set(|values| {
                            values.next().write_sequence(|extensions| {
                                for number in &numbers {
                                    extensions.next().write_sequence(|extension| {
                                        extension.next().write_oid(&oid(&[1, 2, *number]));
                                        extension.next().write_bytes(&[]);
                                    });
                                }
                            });
                        });
                    });
                });
            });
        });
        request.next().write_sequence(|algorithm| algorithm.next().write_oid(&oid(&[1, 3, 101, 112])));
        request.next().write_bitvec_bytes(&[0; 64], 512);
    })
}

/// About as many as fit into the largest object that the API server admits.
#[test]
fn a_request_may_ask_for_very_many_extensions_but_for_each_once() {
    const MANY: u64 = 100_000;
    let request = Request::from_der(with_extensions(0..MANY)).unwrap();
    assert!(request.names.is_empty());
    let duplicate = Request::from_der(with_extensions((0..MANY).chain([7])));
    let why = "it has duplicate requested extensions".to_owned();
    assert_eq!(duplicate, Err(Error::Malformed(why)));
}
