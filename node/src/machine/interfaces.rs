//! The network interfaces of the machine.

use std::net::IpAddr;

use super::{Error, Machine, malformed, netlink};

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

const NET: &str = "/sys/class/net";
const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_POINTOPOINT: u32 = 0x10;

impl Machine {
    /// The interfaces of this process's network namespace, in the kernel's order.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        let addresses = netlink::addresses().map_err(Error::Addresses)?;
        let path = self.path(NET);
        let folders = std::fs::read_dir(&path).map_err(|source| Error::Read { path, source })?;
        let mut found = Vec::new();
        for folder in folders.flatten() {
            let Ok(name) = folder.file_name().into_string() else { continue };
            // One that goes away meanwhile is none.
            let (Ok(index), Ok(flags)) =
                (self.read(&format!("{NET}/{name}/ifindex")), self.read(&format!("{NET}/{name}/flags")))
            else {
                continue;
            };
            let index: u32 = index
                .trim()
                .parse()
                .map_err(|_| malformed(format!("{NET}/{name}/ifindex"), format!("no number: {index:?}")))?;
            let of_it = addresses.iter().filter(|address| address.index == index);
            let addresses = of_it.map(|address| address.address).collect();
            found.push((index, interface(name, &flags, addresses)?));
        }
        found.sort_by_key(|(index, _)| *index);
        Ok(found.into_iter().map(|(_, interface)| interface).collect())
    }
}

/// `flags` is what the kernel's file says, such as `0x1003`.
fn interface(name: String, flags: &str, addresses: Vec<IpAddr>) -> Result<Interface, Error> {
    let set = flags.trim().strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let set = set.ok_or_else(|| malformed(format!("{NET}/{name}/flags"), format!("no flags: {flags:?}")))?;
    let has = |flag: u32| set & flag != 0;
    Ok(Interface {
        name,
        up: has(IFF_UP),
        loopback: has(IFF_LOOPBACK),
        point_to_point: has(IFF_POINTOPOINT),
        addresses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_what_an_interface_is() {
        for (flags, expected) in [
            ("0x1003\n", (true, false, false)),
            ("0x9", (true, true, false)),
            ("0x91", (true, false, true)),
            ("0x0", (false, false, false)),
        ] {
            let interface = interface("x".to_owned(), flags, Vec::new()).unwrap();
            assert_eq!((interface.up, interface.loopback, interface.point_to_point), expected, "{flags}");
        }
        let error = interface("x".to_owned(), "up", Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "reading /sys/class/net/x/flags: no flags: \"up\"");
    }

    #[test]
    fn this_machine_has_a_loopback() {
        let all = Machine::this().interfaces().unwrap();
        let loopback = all.iter().find(|interface| interface.loopback).unwrap();
        assert!(loopback.addresses.iter().any(IpAddr::is_loopback));
    }
}
