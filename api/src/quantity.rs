//! Amounts of resources: `100m`, `1Gi`, `1e3`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod parsed;

pub use parsed::{Amount, ParsedQuantity};

/// A `resource.Quantity`: an amount in billionths, and its notation (binary, decimal or exponent).
///
/// Equality and order ignore the notation. As upstream, parsing rounds amounts up to a billionth and caps them at
/// 2^63-1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    #[default]
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

impl Format {
    /// Upstream's name.
    fn name(self) -> &'static str {
        match self {
            Self::DecimalSi => "DecimalSI",
            Self::BinarySi => "BinarySI",
            Self::DecimalExponent => "DecimalExponent",
        }
    }
}

const NANO: i128 = 1_000_000_000;
const MAX: i128 = i64::MAX as i128 * NANO;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Suffixes of powers of a thousand, from nano (10^-9) to exa (10^18).
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The error for a text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', which {0:?} does not"
)]
pub struct InvalidQuantity(pub String);

impl Quantity {
    /// A whole amount in decimal notation.
    pub fn new(amount: i64) -> Self {
        Self { nanos: i128::from(amount) * NANO, format: Format::DecimalSi }
    }

    /// An amount in thousandths, such as millicores.
    pub fn from_milli(thousandths: i64) -> Self {
        Self { nanos: i128::from(thousandths) * (NANO / 1000), format: Format::DecimalSi }
    }

    /// An amount in thousandths, in binary notation where it is a whole number.
    pub fn from_milli_binary(thousandths: i64) -> Self {
        Self { format: Format::BinarySi, ..Self::from_milli(thousandths) }
    }

    /// A whole number of bytes in binary notation.
    pub fn bytes(amount: i64) -> Self {
        Self { nanos: i128::from(amount) * NANO, format: Format::BinarySi }
    }

    /// The amount, rounded away from zero to a whole number, as in Go.
    pub fn value(self) -> i64 {
        Self::rounded(self.nanos, NANO)
    }

    /// The amount in thousandths, rounded away from zero, as in Go.
    pub fn milli_value(self) -> i64 {
        Self::rounded(self.nanos, NANO / 1000)
    }

    /// Whether the amount is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    fn rounded(nanos: i128, unit: i128) -> i64 {
        let away = if nanos % unit == 0 { 0 } else { nanos.signum() };
        let whole = nanos / unit + away;
        i64::try_from(whole).unwrap_or(if whole > 0 { i64::MAX } else { i64::MIN })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Keeps the notation of the first summand that is not zero.
impl std::ops::Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos + other.nanos, format }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos - other.nanos, format }
    }
}

/// Keeps the notation.
impl std::ops::Mul<u32> for Quantity {
    type Output = Self;
    fn mul(self, times: u32) -> Self {
        Self { nanos: self.nanos * i128::from(times), ..self }
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| InvalidQuantity(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (factor, power, format) = scale(suffix)?;
    let nanos = nanos_of(whole, fraction, factor, power);
    Some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
}

/// The factor and the power of ten that a suffix stands for.
fn scale(suffix: &str) -> Option<(u64, i32, Format)> {
    if let Some(at) = BINARY.iter().position(|s| *s == suffix).filter(|at| *at > 0) {
        return Some((1 << (10 * at), 0, Format::BinarySi));
    }
    if let Some(at) = DECIMAL.iter().position(|s| *s == suffix) {
        return Some((1, 3 * (i32::try_from(at).ok()? - 3), Format::DecimalSi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((1, exponent.parse().ok()?, Format::DecimalExponent))
}

/// Multiplies digits by a suffix's factor, which is at most 2^60, and a power of ten. Returns billionths, rounded up and capped.
///
/// Multiplies digit by digit, from the last to the first, so that the result is exact for any number of digits.
fn nanos_of(whole: &str, fraction: &str, factor: u64, power: i32) -> i128 {
    let digits = whole.bytes().chain(fraction.bytes()).map(|digit| u64::from(digit - b'0'));
    // The number of the product's last digits that are smaller than a billionth. Negative: the number of zeros to append.
    let beyond = i64::try_from(fraction.len()).unwrap_or(i64::MAX) - i64::from(power) - 9;
    let zeros = u32::try_from(-beyond).unwrap_or(0);
    // The value of a 1 at the current position, in billionths.
    let mut place = 10_i128.checked_pow(zeros).unwrap_or(i128::MAX);
    let (mut nanos, mut inexact, mut carry) = (0_i128, false, 0);
    let mut at = 0;
    let mut rest = digits.rev();
    loop {
        let digit = rest.next();
        if digit.is_none() && carry == 0 {
            return (nanos.min(MAX) + i128::from(inexact)).min(MAX);
        }
        // At most 9 * 2^60 + 2^60, which fits.
        carry += digit.unwrap_or(0) * factor;
        let of_product = carry % 10;
        carry /= 10;
        if at < beyond {
            inexact |= of_product != 0;
        } else {
            nanos = nanos.saturating_add(place.saturating_mul(of_product.into()));
            place = place.saturating_mul(10);
        }
        at += 1;
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanos % NANO == 0;
        let small = self.nanos.abs() < 1024 * NANO;
        match self.format {
            Format::BinarySi if whole && !small => {
                let mut number = self.nanos / NANO;
                let mut at = 0;
                while number % 1024 == 0 && at + 1 < BINARY.len() {
                    number /= 1024;
                    at += 1;
                }
                write!(f, "{number}{}", BINARY[at])
            }
            format => {
                let mut number = self.nanos;
                let mut at = if number == 0 { 3 } else { 0 };
                while number % 1000 == 0 && number != 0 && at + 1 < DECIMAL.len() {
                    number /= 1000;
                    at += 1;
                }
                if format == Format::DecimalExponent && at != 3 {
                    let power = 3 * (i64::try_from(at).expect("there are ten suffixes") - 3);
                    write!(f, "{number}e{power}")
                } else {
                    write!(f, "{number}{}", DECIMAL[at])
                }
            }
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Upstream also accepts a JSON number.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form<'a> {
            Text(std::borrow::Cow<'a, str>),
            Whole(i64),
            Fraction(f64),
        }
        let text = match Form::deserialize(deserializer)? {
            Form::Text(text) => text.into_owned(),
            Form::Whole(number) => number.to_string(),
            Form::Fraction(number) => number.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        text.parse::<Quantity>().unwrap().to_string()
    }

    #[test]
    fn the_canonical_form_is_upstreams() {
        for (text, expected) in [
            ("0", "0"),
            ("0Ki", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("1000Ki", "1000Ki"),
            ("1023", "1023"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1E", "1E"),
            ("100e-3", "100e-3"),
            ("-100m", "-100m"),
            ("+2", "2"),
            (".5", "500m"),
            ("5.", "5"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1000Ei", "9223372036854775807"),
            ("1.000000000000000000000000000Ei", "1Ei"),
            ("3.000000000000000000000000001Ei", "3458764513820540928000000002n"),
            ("1.00000000000000000000999999999Ei", "1152921504606846976011529216n"),
            ("1.000000000000000000000000000000000000000000000000000000000000001", "1000000001n"),
            ("7.99999999999999999999999999999999Ei", "9223372036854775807"),
            ("0.000000000000000000000000000001e30", "1"),
            ("9999999999999999999999999999999999999999999999999999999999991Ei", "9223372036854775807"),
            ("1.1Ki", "1126400m"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-", "Ki", "1ki", "1 Gi", "1.2.3", "1e", "1ee3", "--1", "1mm", ".", "0x10"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_compare_add_and_round_away_from_zero() {
        let parse = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(parse("1"), parse("1000m"));
        assert!(parse("1Gi") > parse("1G"));
        assert_eq!((parse("100m") + parse("1")).to_string(), "1100m");
        assert_eq!((parse("0") + parse("1Gi")).to_string(), "1Gi");
        assert_eq!((parse("1Gi") - parse("512Mi")).to_string(), "512Mi");
        assert_eq!((parse("512Mi") * 3).to_string(), "1536Mi");
        assert_eq!(parse("1100m").value(), 2);
        assert_eq!(parse("-1100m").value(), -2);
        assert_eq!(parse("-1").value(), -1);
        assert_eq!(parse("100u").milli_value(), 1);
        assert_eq!(parse("-1500u").milli_value(), -2);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_the_canonical_form_is_stable(text in "[-+]?[0-9.]{0,30}[a-zA-Z]{0,2}[-+]?[0-9]{0,12}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let canonical = quantity.to_string();
                let again: Quantity = canonical.parse().unwrap();
                prop_assert_eq!(again, quantity);
                prop_assert_eq!(again.to_string(), canonical);
            }
        }
    }
}
