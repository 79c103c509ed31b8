//! The kernel's lists of interfaces and of addresses, over a routing socket (`RTM_GETLINK`, `RTM_GETADDR`).

use std::io;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    /// `IFF_UP` and the like.
    pub(super) flags: u32,
    pub(super) name: String,
}

/// An address, and the index of the interface that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InterfaceAddress {
    pub(super) index: u32,
    pub(super) address: IpAddr,
}

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct ifinfomsg`.
const LINK_MESSAGE: usize = 16;
/// `struct ifaddrmsg`.
const ADDRESS_MESSAGE: usize = 8;
/// `struct rtattr`.
const ATTRIBUTE: usize = 4;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_ALL: u16 = 0x301;
const IFLA_IFNAME: u16 = 3;
const IFLA_EXT_MASK: u16 = 29;
/// `RTEXT_FILTER_SKIP_STATS`: most of what the kernel would tell of an interface.
const WITHOUT_COUNTS: u32 = 1 << 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The kernel sends no more at a time where the reader has room for as much.
const BUFFER: usize = 64 * 1024;

/// All interfaces of this network namespace.
pub(super) fn links() -> io::Result<Vec<Link>> {
    let mut body = vec![0; LINK_MESSAGE];
    body.extend(attribute(IFLA_EXT_MASK, &WITHOUT_COUNTS.to_ne_bytes()));
    dump(RTM_GETLINK, &body, RTM_NEWLINK, link)
}

/// All addresses of this network namespace, in the kernel's order.
pub(super) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    // A `struct ifaddrmsg` that names no family.
    dump(RTM_GETADDR, &[0; ADDRESS_MESSAGE], RTM_NEWADDR, address)
}

/// Asks a question, and reads all answers of a kind.
fn dump<T>(question: u16, body: &[u8], kind: u16, read: fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
    // The protocol of routes is number 0, which stands for no choice at all.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &request(question, body), SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER];
    let mut found = Vec::new();
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || parse(&buffer[..length], kind, read, &mut found)? == Answer::Complete {
            return Ok(found);
        }
    }
}

fn request(question: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).expect("a request must be short");
    let mut request = Vec::new();
    request.extend(length.to_ne_bytes());
    request.extend(question.to_ne_bytes());
    request.extend(REQUEST_ALL.to_ne_bytes());
    // Number and sender: there is one request, and the kernel knows the sender.
    request.extend([0; 8]);
    request.extend(body);
    request
}

/// An attribute as it is sent.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(ATTRIBUTE + value.len()).expect("an attribute must be short");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(aligned(bytes.len()), 0);
    bytes
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Partial,
    Complete,
}

/// Reads the messages of one datagram.
fn parse<T>(
    mut messages: &[u8],
    kind: u16,
    read: fn(&[u8]) -> Option<T>,
    found: &mut Vec<T>,
) -> io::Result<Answer> {
    while messages.len() >= HEADER {
        let length = usize::try_from(u32_at(messages, 0)).unwrap_or(usize::MAX);
        let Some(message) = messages.get(..length).filter(|message| message.len() >= HEADER) else {
            return Err(truncated());
        };
        match u16_at(message, 4) {
            NLMSG_DONE => return Ok(Answer::Complete),
            NLMSG_ERROR => {
                let code = message.get(HEADER..HEADER + 4).ok_or_else(truncated)?;
                return Err(io::Error::from_raw_os_error(-i32::from_ne_bytes([
                    code[0], code[1], code[2], code[3],
                ])));
            }
            other if other == kind => found.extend(read(&message[HEADER..])),
            _ => {}
        }
        messages = messages.get(aligned(length)..).unwrap_or_default();
    }
    Ok(Answer::Partial)
}

/// The interface that a message tells of.
fn link(message: &[u8]) -> Option<Link> {
    let fixed = message.get(..LINK_MESSAGE)?;
    let mut names = attributes(&message[LINK_MESSAGE..]).filter(|(kind, _)| *kind == IFLA_IFNAME);
    let name = names.next()?.1;
    let name = String::from_utf8(name.split(|byte| *byte == 0).next()?.to_vec()).ok()?;
    Some(Link { index: u32_at(fixed, 4), flags: u32_at(fixed, 8), name })
}

/// The address that a message tells of. Between two ends of a line it is the near one.
fn address(message: &[u8]) -> Option<InterfaceAddress> {
    let fixed = message.get(..ADDRESS_MESSAGE)?;
    let (family, index) = (fixed[0], u32_at(fixed, 4));
    let (mut local, mut other) = (None, None);
    for (kind, value) in attributes(&message[ADDRESS_MESSAGE..]) {
        match kind {
            IFA_LOCAL => local = ip(family, value),
            IFA_ADDRESS => other = ip(family, value),
            _ => {}
        }
    }
    Some(InterfaceAddress { index, address: local.or(other)? })
}

/// Attributes by kind, up to one that is cut short.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    iter::from_fn(move || {
        let length = usize::from(u16_at(bytes.get(..ATTRIBUTE)?, 0));
        let (kind, value) = (u16_at(bytes, 2), bytes.get(ATTRIBUTE..length)?);
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message of the kernel is cut short")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn new_address(family: u8, index: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![family, 24, 0, 0];
        body.extend(index.to_ne_bytes());
        body.extend(attributes.concat());
        message(RTM_NEWADDR, &body)
    }

    #[test]
    fn addresses_of_both_families_are_read_and_the_near_end_counts() {
        let datagram = [
            new_address(AF_INET, 1, &[attribute(IFA_ADDRESS, &[127, 0, 0, 1]), attribute(3, b"lo\0")]),
            new_address(
                AF_INET,
                2,
                &[attribute(IFA_ADDRESS, &[10, 0, 0, 2]), attribute(IFA_LOCAL, &[10, 0, 0, 1])],
            ),
            new_address(AF_INET6, 2, &[attribute(IFA_ADDRESS, &Ipv6Addr::LOCALHOST.octets())]),
            new_address(77, 3, &[attribute(IFA_ADDRESS, &[1])]),
            message(99, &[0; 4]),
        ]
        .concat();
        let mut found = Vec::new();
        assert_eq!(parse(&datagram, RTM_NEWADDR, address, &mut found).unwrap(), Answer::Partial);
        let told: Vec<_> = found.iter().map(|one| (one.index, one.address.to_string())).collect();
        assert_eq!(told, [(1, "127.0.0.1".to_owned()), (2, "10.0.0.1".to_owned()), (2, "::1".to_owned())]);
        let done = message(NLMSG_DONE, &[0; 4]);
        assert_eq!(parse(&done, RTM_NEWADDR, address, &mut found).unwrap(), Answer::Complete);
    }

    #[test]
    fn a_refusal_and_a_cut_message_are_errors() {
        let mut found = Vec::new();
        let mut read = |messages: &[u8]| parse(messages, RTM_NEWADDR, address, &mut found);
        let refused = read(&message(NLMSG_ERROR, &(-1_i32).to_ne_bytes())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let whole = new_address(AF_INET, 1, &[attribute(IFA_ADDRESS, &[127, 0, 0, 1])]);
        for length in HEADER..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        assert!(read(&[0; HEADER]).is_err(), "a message of no length would never end");
        assert!(found.is_empty());
    }

    #[test]
    fn interfaces_are_read_with_name_and_flags() {
        let new_link = |index: u32, flags: u32, attributes: &[Vec<u8>]| {
            let mut body = vec![0; 4];
            body.extend([index, flags, 0].map(u32::to_ne_bytes).concat());
            body.extend(attributes.concat());
            message(RTM_NEWLINK, &body)
        };
        let datagram = [
            new_link(1, 0x9, &[attribute(IFLA_IFNAME, b"lo\0")]),
            new_link(7, 0x1003, &[attribute(4, &[0; 4]), attribute(IFLA_IFNAME, b"veth0\0")]),
            new_link(8, 0, &[attribute(4, &[0; 4])]),
        ]
        .concat();
        let mut found = Vec::new();
        assert_eq!(parse(&datagram, RTM_NEWLINK, link, &mut found).unwrap(), Answer::Partial);
        let told: Vec<_> = found.iter().map(|one| (one.index, one.flags, one.name.as_str())).collect();
        assert_eq!(told, [(1, 0x9, "lo"), (7, 0x1003, "veth0")], "one without a name is none");
        assert_eq!(link(&[0; LINK_MESSAGE - 1]), None);
    }

    #[test]
    fn the_kernel_tells_of_the_loopback() {
        assert!(links().unwrap().iter().any(|one| one.name == "lo"));
        let all = addresses().unwrap();
        assert!(all.iter().any(|one| one.address.is_loopback()), "{all:?}");
    }
}
