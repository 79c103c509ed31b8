//! What a certificate may be used for.

use std::collections::BTreeSet;

use yasna::models::ObjectIdentifier;

use super::super::der::sequence;

/// The usages of a key by their names in requests, with their bits in the extension.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 1 << 0),
    ("digital signature", 1 << 0),
    ("content commitment", 1 << 1),
    ("key encipherment", 1 << 2),
    ("data encipherment", 1 << 3),
    ("key agreement", 1 << 4),
    ("cert sign", 1 << 5),
    ("crl sign", 1 << 6),
    ("encipher only", 1 << 7),
    ("decipher only", 1 << 8),
];

/// The extended usages by their names in requests, with their object identifiers, in the order of certificates.
const EXTENDED_USAGES: [(&str, &[u64]); 13] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", EMAIL_PROTECTION),
    ("s/mime", EMAIL_PROTECTION),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

const EMAIL_PROTECTION: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 4];

/// The usages of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usages {
    /// The bits of [`KEY_USAGES`].
    key: u16,
    /// Places in [`EXTENDED_USAGES`].
    extended: BTreeSet<usize>,
}

impl Usages {
    /// The usages with these names.
    ///
    /// # Errors
    /// There is no usage of one of the names.
    pub(super) fn of(names: &[String]) -> Result<Self, String> {
        let mut usages = Self::default();
        let mut unknown = Vec::new();
        for name in names {
            let key = KEY_USAGES.iter().find(|(known, _)| known == name);
            let extended = EXTENDED_USAGES.iter().position(|(known, _)| known == name);
            match (key, extended) {
                (Some((_, bit)), _) => usages.key |= bit,
                // Of two names for one usage, the first counts.
                (None, Some(at)) => {
                    let first = EXTENDED_USAGES.iter().position(|(_, oid)| *oid == EXTENDED_USAGES[at].1);
                    usages.extended.extend(first);
                }
                (None, None) => unknown.push(name.as_str()),
            }
        }
        if unknown.is_empty() { Ok(usages) } else { Err(format!("unrecognized usage values: {unknown:?}")) }
    }

    /// The value of the extension `keyUsage`. `None` if there are no usages of the key.
    pub(super) fn key_usage(&self) -> Option<Vec<u8>> {
        // Bit 0 of the usages is the first bit of the string, which is the highest one of its byte.
        let [first, second] = self.key.to_le_bytes().map(u8::reverse_bits);
        let length = 16 - self.key.leading_zeros();
        let bytes = if second == 0 { vec![first] } else { vec![first, second] };
        let length = usize::try_from(length).unwrap_or_default();
        (length > 0).then(|| yasna::construct_der(|writer| writer.write_bitvec_bytes(&bytes, length)))
    }

    /// The value of the extension `extKeyUsage`. `None` if there are no extended usages.
    pub(super) fn extended_key_usage(&self) -> Option<Vec<u8>> {
        let write = || {
            sequence(|writer| {
                for at in &self.extended {
                    writer.next().write_oid(&ObjectIdentifier::from_slice(EXTENDED_USAGES[*at].1));
                }
            })
        };
        (!self.extended.is_empty()).then(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<Usages, String> {
        Usages::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn usages_are_known_by_name_in_any_order() {
        let expected = Usages { key: 0b101, extended: [1, 2].into() };
        assert_eq!(of(&["client auth", "signing", "key encipherment", "server auth"]), Ok(expected.clone()));
        let twice =
            ["server auth", "digital signature", "signing", "key encipherment", "client auth", "server auth"];
        assert_eq!(of(&twice), Ok(expected));
        assert_eq!(of(&[]), Ok(Usages::default()));
        assert_eq!(of(&["s/mime"]), of(&["email protection", "s/mime"]));
    }

    #[test]
    fn unknown_usages_are_named() {
        let error = "unrecognized usage values: [\"world domination\", \"\"]";
        assert_eq!(of(&["client auth", "world domination", ""]), Err(error.to_owned()));
    }
}
