//! The subject of a certificate.

/// `2.5.4.3`, `2.5.4.10` and, of Kubernetes, `1.3.6.1.4.1.57683.2`, as they are encoded.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];

const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// The parts of a certificate's subject that name a user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The last one, as in Go. Never empty.
    pub(super) common_name: Option<String>,
    pub(super) organizations: Vec<String>,
    pub(super) uid: Option<String>,
}

/// Reads the contents of a subject, DER: sets of pairs of a name and a value. Returns `None` for anything else, for two uids,
/// and if one of the values above is not text.
pub(super) fn subject(mut der: &[u8]) -> Option<Subject> {
    let mut subject = Subject::default();
    while !der.is_empty() {
        let mut pairs = element(&mut der, SET)?;
        while !pairs.is_empty() {
            let mut pair = element(&mut pairs, SEQUENCE)?;
            let name = element(&mut pair, OBJECT_ID)?;
            match name {
                COMMON_NAME => subject.common_name = Some(text(pair)?),
                ORGANIZATION => subject.organizations.push(text(pair)?),
                UID if subject.uid.is_some() => return None,
                UID => subject.uid = Some(text(pair)?),
                _ => {}
            }
        }
    }
    subject.common_name = subject.common_name.filter(|name| !name.is_empty());
    Some(subject)
}

fn text(mut value: &[u8]) -> Option<String> {
    let tag = *value.first()?;
    let bytes = matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING)
        .then(|| element(&mut value, tag))
        .flatten()?;
    value.is_empty().then(|| std::str::from_utf8(bytes).ok().map(str::to_owned)).flatten()
}

/// Takes an element with this tag and returns its contents.
fn element<'a>(der: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&first, rest) = der.split_first()?;
    let (&length, mut rest) = rest.split_first()?;
    let length = if length < 0x80 {
        usize::from(length)
    } else {
        let digits = usize::from(length & 0x7f);
        // No part of a subject is longer than 64 KiB.
        if digits == 0 || digits > 2 {
            return None;
        }
        let (bytes, after) = rest.split_at_checked(digits)?;
        rest = after;
        bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    *der = rest;
    (first == tag).then_some(contents)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn of(names: &[(DnType, &str)]) -> Option<Subject> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (name, value) in names {
            params.distinguished_name.push(name.clone(), *value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        subject(webpki::EndEntityCert::try_from(certificate.der()).unwrap().subject())
    }

    #[test]
    fn names_groups_and_uids_are_read() {
        let long = "n".repeat(300);
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let read = of(&[
            (DnType::CountryName, "CH"),
            (DnType::CommonName, &long),
            (DnType::OrganizationName, "system:masters"),
            (uid, "u-1"),
        ]);
        let expected = Subject {
            common_name: Some(long.clone()),
            organizations: vec!["system:masters".into()],
            uid: Some("u-1".into()),
        };
        assert_eq!(read, Some(expected));
        assert_eq!(of(&[]), Some(Subject::default()));
        assert_eq!(of(&[(DnType::CommonName, "")]), Some(Subject::default()));
    }

    #[test]
    fn several_organizations_are_several_groups() {
        let pair = |name: &[u8], value: &[u8]| {
            let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
            let mut pair = vec![OBJECT_ID, length(name)];
            pair.extend_from_slice(name);
            pair.extend_from_slice(&[UTF8_STRING, length(value)]);
            pair.extend_from_slice(value);
            [vec![SET, length(&pair) + 2, SEQUENCE, length(&pair)], pair].concat()
        };
        let two = [pair(ORGANIZATION, b"a"), pair(ORGANIZATION, b"b"), pair(COMMON_NAME, b"c")].concat();
        let read = subject(&two).unwrap();
        assert_eq!((read.organizations, read.common_name), (vec!["a".into(), "b".into()], Some("c".into())));
        let names = [pair(COMMON_NAME, b"a"), pair(COMMON_NAME, b"b")].concat();
        assert_eq!(subject(&names).unwrap().common_name, Some("b".into()), "the last one, as in Go");
        let twice = [pair(UID, b"1"), pair(UID, b"2")].concat();
        assert_eq!(subject(&twice), None);
        assert_eq!(subject(&pair(COMMON_NAME, b"\xff")), None);
    }

    #[test]
    fn what_is_no_subject_is_refused() {
        for der in [
            &[SET][..],
            &[SET, 5, 1],
            &[SEQUENCE, 0],
            &[SET, 0x80],
            &[SET, 0x83, 0, 0, 1, 0],
            &[SET, 2, SET, 0],
        ] {
            assert_eq!(subject(der), None, "{der:?}");
        }
    }
}
