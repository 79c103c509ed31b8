//! What `nm` and Callgrind print.

use std::collections::HashSet;

/// A function of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Functions with the same code may share it, under several names.
    pub(crate) address: u64,
    pub(crate) name: String,
    /// In bytes.
    pub(crate) size: u64,
}

/// The functions among the lines `ADDRESS SIZE TYPE NAME` of `nm -S`.
pub(crate) fn symbols(listing: &str) -> Vec<Symbol> {
    listing.lines().filter_map(symbol).collect()
}

fn symbol(line: &str) -> Option<Symbol> {
    let mut words = line.split(' ');
    let (address, size, kind, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (address, size) = (number(address)?, number(size)?);
    matches!(kind, "t" | "T" | "w" | "W").then(|| Symbol { address, name: name.to_owned(), size })
}

/// The names of the functions that ran: each that a profile gives costs to. Callgrind numbers the levels of a recursion
/// (`name'2`).
pub(crate) fn executed(profile: &str) -> HashSet<String> {
    let names = profile.lines().filter_map(|line| line.strip_prefix("fn="));
    names.map(|name| name.split_once('\'').map_or(name, |(name, _level)| name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_and_data_is_not() {
        let listing = "0000000000001000 0000000000000010 t _RNvA\n0000000000002000 0000000000000008 D data\n\
                       0000000000003000 T without_size\n0000000000004000 00000000000000ff T main\n";
        let expected = [(0x1000, "_RNvA", 0x10), (0x4000, "main", 0xff)]
            .map(|(address, name, size)| Symbol { address, name: name.to_owned(), size });
        assert_eq!(symbols(listing), expected);
    }

    #[test]
    fn a_function_that_only_stands_in_a_call_is_named_where_it_runs() {
        let profile = "ob=steersman\nfl=a.rs\nfn=_RNvA\n10 8\ncfn=_RNvB\ncalls=1 2\n* 3\nfn=_RNvC'2\n1 1\n";
        assert_eq!(executed(profile), ["_RNvA", "_RNvC"].map(str::to_owned).into());
    }
}
