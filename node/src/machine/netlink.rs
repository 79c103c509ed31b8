//! The kernel's list of addresses, over a routing socket (`RTM_GETADDR`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// An address, and the index of the interface that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InterfaceAddress {
    pub(super) index: u32,
    pub(super) address: IpAddr,
}

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct ifaddrmsg`.
const ADDRESS_MESSAGE: usize = 8;
/// `struct rtattr`.
const ATTRIBUTE: usize = 4;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_ALL: u16 = 0x301;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The kernel sends no more at a time where the reader has room for as much.
const BUFFER: usize = 64 * 1024;

/// All addresses of this network namespace, in the kernel's order.
pub(super) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    // The protocol of routes is number 0, which stands for no choice at all.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER];
    let mut found = Vec::new();
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || parse(&buffer[..length], &mut found)? == Answer::Complete {
            return Ok(found);
        }
    }
}

/// A header and a `struct ifaddrmsg` that names no family.
fn request() -> Vec<u8> {
    let length = u32::try_from(HEADER + ADDRESS_MESSAGE).expect("a request must be short");
    let mut request = Vec::new();
    request.extend(length.to_ne_bytes());
    request.extend(RTM_GETADDR.to_ne_bytes());
    request.extend(REQUEST_ALL.to_ne_bytes());
    // Number and sender: there is one request, and the kernel knows the sender.
    request.extend([0; 8]);
    request.extend([0; ADDRESS_MESSAGE]);
    request
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Partial,
    Complete,
}

/// Reads the messages of one datagram.
fn parse(mut messages: &[u8], found: &mut Vec<InterfaceAddress>) -> io::Result<Answer> {
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
            RTM_NEWADDR => found.extend(address(&message[HEADER..])),
            _ => {}
        }
        messages = messages.get(aligned(length)..).unwrap_or_default();
    }
    Ok(Answer::Partial)
}

/// The address that a message tells of. Between two ends of a line it is the near one.
fn address(message: &[u8]) -> Option<InterfaceAddress> {
    let family = *message.first()?;
    let index = message.get(4..ADDRESS_MESSAGE).map(|bytes| u32_at(bytes, 0))?;
    let mut attributes = message.get(ADDRESS_MESSAGE..)?;
    let (mut local, mut other) = (None, None);
    while attributes.len() >= ATTRIBUTE {
        let length = usize::from(u16_at(attributes, 0));
        let value = attributes.get(ATTRIBUTE..length)?;
        match u16_at(attributes, 2) {
            IFA_LOCAL => local = ip(family, value),
            IFA_ADDRESS => other = ip(family, value),
            _ => {}
        }
        attributes = attributes.get(aligned(length)..).unwrap_or_default();
    }
    Some(InterfaceAddress { index, address: local.or(other)? })
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

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

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
        assert_eq!(parse(&datagram, &mut found).unwrap(), Answer::Partial);
        let told: Vec<_> = found.iter().map(|one| (one.index, one.address.to_string())).collect();
        assert_eq!(told, [(1, "127.0.0.1".to_owned()), (2, "10.0.0.1".to_owned()), (2, "::1".to_owned())]);
        assert_eq!(parse(&message(NLMSG_DONE, &[0; 4]), &mut found).unwrap(), Answer::Complete);
    }

    #[test]
    fn a_refusal_and_a_cut_message_are_errors() {
        let mut found = Vec::new();
        let refused = parse(&message(NLMSG_ERROR, &(-1_i32).to_ne_bytes()), &mut found).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let whole = new_address(AF_INET, 1, &[attribute(IFA_ADDRESS, &[127, 0, 0, 1])]);
        for length in HEADER..whole.len() {
            assert!(parse(&whole[..length], &mut found).is_err(), "{length}");
        }
        assert!(parse(&[0; HEADER], &mut found).is_err(), "a message of no length would never end");
        assert!(found.is_empty());
    }

    #[test]
    fn the_kernel_tells_of_the_loopback() {
        let all = addresses().unwrap();
        assert!(all.iter().any(|one| one.address.is_loopback()), "{all:?}");
    }
}
