//! Rules of single fields, which many kinds share.

use std::net::IpAddr;

use serde_json::Value;

use crate::field::FieldError;
use crate::object;

/// Does something to every item of a list, if there is one.
pub(crate) fn each(object: &mut Value, list: &str, act: impl FnMut(&mut Value)) {
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.iter_mut().for_each(act);
    }
}

/// A port's number.
pub(crate) fn in_port_range(number: i64, field: String, errors: &mut Vec<FieldError>) {
    if !(1..=65_535).contains(&number) {
        errors.push(FieldError::invalid(field, number, "must be between 1 and 65535, inclusive"));
    }
}

/// One of a few words.
pub(crate) fn supported(
    object: &Value,
    path: &str,
    name: &str,
    values: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let value = object::text_at(object, name);
    if !value.is_empty() && !values.contains(&value.as_str()) {
        errors.push(FieldError::not_supported(format!("{path}.{name}"), value, values));
    }
}

/// A number that may not be negative.
pub(crate) fn not_negative(object: &Value, path: &str, name: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = object::int_at(object, name).filter(|number| *number < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(format!("{path}.{name}"), number, why));
    }
}

/// What [`address_fault`] says of a text that no program reads as an address.
pub(crate) const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// Why a text is not a valid address, in the words and by the rules of upstream's `IsValidIPForLegacyField`: refused as well
/// is what different programs read as different addresses.
pub(crate) fn address_fault(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if without_leading_zeros(text).parse::<IpAddr>().is_ok() => Some("must not have leading 0s"),
        Err(_) => Some(NOT_AN_ADDRESS),
    }
}

/// The address that a program reads which takes `010` for ten. Others take it for eight.
fn without_leading_zeros(text: &str) -> String {
    let (six, four) = text.split_at(text.rfind(':').map_or(0, |colon| colon + 1));
    let numbers = four.split('.').map(|number| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        number => number,
    });
    format!("{six}{}", numbers.collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_valid_if_all_programs_read_it_alike() {
        let mapped = "must not be an IPv4-mapped IPv6 address";
        let zeros = "must not have leading 0s";
        for (text, expected) in [
            ("10.0.0.1", None),
            ("fd00::1", None),
            ("FD00:0::0001", None),
            ("::ffff:169.254.169.254", Some(mapped)),
            ("::ffff:a9fe:a9fe", Some(mapped)),
            ("010.0.0.1", Some(zeros)),
            ("10.000.0.1", Some(zeros)),
            ("::ffff:010.0.0.1", Some(zeros)),
            ("10.0.0", Some(NOT_AN_ADDRESS)),
            ("0x0a.0.0.1", Some(NOT_AN_ADDRESS)),
            ("fe80::1%eth0", Some(NOT_AN_ADDRESS)),
            ("", Some(NOT_AN_ADDRESS)),
        ] {
            assert_eq!(address_fault(text), expected, "{text}");
        }
    }
}
