//! Alternative names of a subject.

use x509_parser::der_parser::asn1_rs::{Any, Tag as ReadTag};
use x509_parser::extensions::GeneralName;
use x509_parser::extensions::SubjectAlternativeName;
use x509_parser::prelude::FromDer;
use yasna::Tag;

use super::super::der::{elements, is_constructed, sequence};
use super::{Error, uri};

/// The kinds of alternative names that Go knows, by their tags. It drops all others, and so do Kubernetes's certificates.
const EMAIL: u32 = 1;
const DNS: u32 = 2;
const URI: u32 = 6;
const IP: u32 = 7;

/// The alternative names of a subject, by their kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct AltNames {
    /// The DNS names.
    pub dns: Vec<String>,
    /// The email addresses.
    pub emails: Vec<String>,
    /// The IP addresses, of four or sixteen bytes.
    pub ips: Vec<Vec<u8>>,
    /// The URIs.
    pub uris: Vec<String>,
}

impl AltNames {
    /// Reads the value of the extension.
    ///
    /// # Errors
    /// Go refuses one of the names.
    pub(super) fn of(value: &[u8]) -> Result<Self, Error> {
        let malformed =
            |what: String| Error::Malformed(format!("its alternative names are malformed: {what}"));
        let (rest, parsed) =
            SubjectAlternativeName::from_der(value).map_err(|error| malformed(error.to_string()))?;
        if !rest.is_empty() {
            return Err(malformed("trailing data".to_owned()));
        }
        let outer = elements(value).next().flatten().filter(|outer| is_constructed(outer, ReadTag::Sequence));
        let outer = outer.ok_or_else(|| malformed("they are no sequence".to_owned()))?;
        if !elements(outer.data).all(|name| name.is_some_and(|name| go_agrees(&name))) {
            return Err(malformed("a name has a wrong tag".to_owned()));
        }
        let ascii = |text: &str| match text.is_ascii() {
            true => Ok(text.to_owned()),
            false => Err(malformed(format!("{text:?} is not ASCII"))),
        };
        let mut names = Self::default();
        for name in &parsed.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns.push(ascii(name)?),
                GeneralName::RFC822Name(address) => names.emails.push(ascii(address)?),
                GeneralName::URI(text) => {
                    uri::check(text).map_err(|why| malformed(format!("URI {text:?}: {why}")))?;
                    names.uris.push((*text).to_owned());
                }
                GeneralName::IPAddress(address) => names.ips.push(ip(address).map_err(malformed)?),
                GeneralName::Invalid(tag, _) if [EMAIL, DNS, URI, IP].contains(&tag.0) => {
                    return Err(malformed("a name is not ASCII".to_owned()));
                }
                _ => {}
            }
        }
        Ok(names)
    }

    /// Whether there are no names.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.ips.is_empty() && self.uris.is_empty()
    }

    /// The value of the extension, in Go's order.
    pub(in super::super) fn to_der(&self) -> Vec<u8> {
        fn texts(tag: u32, names: &[String]) -> impl Iterator<Item = (u32, &[u8])> {
            names.iter().map(move |name| (tag, name.as_bytes()))
        }
        sequence(|writer| {
            let ips = self.ips.iter().map(|ip| (IP, ip.as_slice()));
            let all = texts(DNS, &self.dns).chain(texts(EMAIL, &self.emails));
            for (tag, name) in all.chain(ips).chain(texts(URI, &self.uris)) {
                let tag = Tag::context(tag.into());
                writer.next().write_tagged_implicit(tag, |writer| writer.write_bytes(name));
            }
        })
    }
}

/// Whether Go takes a value for the same kind of name as `x509_parser`, which does not look at the whole tag.
fn go_agrees(name: &Any<'_>) -> bool {
    let has_known_number = [EMAIL, DNS, URI, IP].contains(&name.tag().0);
    !has_known_number || name.header.is_contextspecific() && name.header.is_primitive()
}

/// An IP address, in four bytes if it is one of IPv4.
fn ip(address: &[u8]) -> Result<Vec<u8>, String> {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    match address.len() {
        4 => Ok(address.to_vec()),
        16 => Ok(address.strip_prefix(&MAPPED).unwrap_or(address).to_vec()),
        length => Err(format!("cannot parse IP address of length {length}")),
    }
}
