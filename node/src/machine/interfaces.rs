//! The network interfaces of the machine.

use std::net::IpAddr;

use super::{Error, Machine, netlink};

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// Whether it leads back to the machine.
    pub loopback: bool,
    /// Whether there is but one machine at its other end.
    pub point_to_point: bool,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<IpAddr>,
}

const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_POINTOPOINT: u32 = 0x10;

impl Machine {
    /// The interfaces of this process's network namespace, in the kernel's order. Two questions to the kernel, however many
    /// there are: a node asks often, and has one for each pod.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        let mut links = netlink::links().map_err(Error::Links)?;
        let addresses = netlink::addresses().map_err(Error::Addresses)?;
        links.sort_by_key(|link| link.index);
        let of = |index| addresses.iter().filter(move |one| one.index == index).map(|one| one.address);
        Ok(links.into_iter().map(|link| interface(link.name, link.flags, of(link.index).collect())).collect())
    }
}

fn interface(name: String, flags: u32, addresses: Vec<IpAddr>) -> Interface {
    let has = |flag: u32| flags & flag != 0;
    Interface {
        name,
        up: has(IFF_UP),
        loopback: has(IFF_LOOPBACK),
        point_to_point: has(IFF_POINTOPOINT),
        addresses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_what_an_interface_is() {
        for (flags, expected) in [
            (0x1003, (true, false, false)),
            (0x9, (true, true, false)),
            (0x91, (true, false, true)),
            (0x0, (false, false, false)),
        ] {
            let interface = interface("x".to_owned(), flags, Vec::new());
            let is = (interface.up, interface.loopback, interface.point_to_point);
            assert_eq!(is, expected, "{flags:#x}");
        }
    }

    #[test]
    fn this_machine_has_a_loopback() {
        let all = Machine::this().interfaces().unwrap();
        let loopback = all.iter().find(|interface| interface.loopback).unwrap();
        assert!(loopback.addresses.iter().any(IpAddr::is_loopback));
    }

    #[test]
    fn the_kernels_files_tell_the_same() {
        let all = Machine::this().interfaces().unwrap();
        for interface in all {
            // One that went meanwhile tells nothing.
            let path = format!("/sys/class/net/{}/flags", interface.name);
            let Ok(flags) = std::fs::read_to_string(path) else { continue };
            let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
            assert_eq!(interface.loopback, flags & IFF_LOOPBACK != 0, "{interface:?}");
        }
    }
}
