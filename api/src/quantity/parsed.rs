//! Quantities as Go holds them in memory: some of upstream's hashes are made of that form.

use super::{MAX, Quantity, scale};

/// The fields of Go's `resource.Quantity` after `ParseQuantity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedQuantity<'a> {
    /// The amount.
    pub amount: Amount,
    /// The text itself, where upstream keeps it to write the quantity again. Upstream takes such a text for canonical, though
    /// it keeps a few others as well, such as `1.500`.
    pub text: Option<&'a str>,
    /// Upstream's name of the notation: `BinarySI`, `DecimalSI` or `DecimalExponent`.
    pub format: &'static str,
}

/// The amount of a parsed quantity, in one of the two forms that Go has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// `value` times ten to the power of `scale`: an `int64Amount`.
    Int64 {
        /// The digits.
        value: i64,
        /// The power of ten.
        scale: i32,
    },
    /// Billionths: an `inf.Dec` of scale 9. Upstream takes this form for amounts that have too many digits for the other.
    Billionths(i128),
}

/// Upstream's `maxInt64Factors`: a number of so many digits always fits in 64 bits.
const MAX_DIGITS: usize = 18;

impl<'a> ParsedQuantity<'a> {
    /// Parses a text as upstream's `ParseQuantity`. `None` if the text is not a quantity, or so large that [`Quantity`] does not
    /// hold the exact amount.
    pub fn of(text: &'a str) -> Option<Self> {
        if text == "0" {
            let amount = Amount::Int64 { value: 0, scale: 0 };
            return Some(Self { amount, text: Some(text), format: "DecimalSI" });
        }
        let quantity: Quantity = text.parse().ok()?;
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let (factor, power, format) = scale(suffix)?;
        let format = format.name();
        let fast = Fast { whole, fraction, factor, power };
        if let Some(Amount::Int64 { value, scale }) = fast.amount(format) {
            let value = if text.starts_with('-') { -value } else { value };
            let kept = fast.is_canonical(format, scale);
            return Some(Self { amount: Amount::Int64 { value, scale }, text: kept.then_some(text), format });
        }
        if quantity.nanos.abs() >= MAX {
            return None;
        }
        let is_fraction = quantity.nanos > 0 && quantity < Quantity::new(1);
        let format = if format == "BinarySI" && is_fraction { "DecimalSI" } else { format };
        Some(Self { amount: Amount::Billionths(quantity.nanos), text: None, format })
    }
}

/// The parts of a text, for upstream's way without big numbers.
struct Fast<'a> {
    whole: &'a str,
    fraction: &'a str,
    factor: u64,
    power: i32,
}

impl Fast<'_> {
    fn amount(&self, format: &str) -> Option<Amount> {
        let digits = self.whole.len() + self.fraction.len();
        let fits = match format {
            // A power of 1,024 has somewhat more than three digits.
            "BinarySI" => {
                let powers = usize::try_from(self.factor.ilog2()).ok()?;
                self.fraction.is_empty() && digits + powers * 3 / 10 < 15
            }
            _ => digits <= MAX_DIGITS,
        };
        let scale = self.power.checked_sub(i32::try_from(self.fraction.len()).ok()?)?;
        if !fits || scale < -9 {
            return None;
        }
        let value = i64::try_from(self.digits()?.checked_mul(self.factor.into())?).ok()?;
        Some(Amount::Int64 { value, scale })
    }

    fn digits(&self) -> Option<i128> {
        format!("{}{}", self.whole, self.fraction).parse().ok()
    }

    fn is_canonical(&self, format: &str, scale: i32) -> bool {
        if format == "BinarySI" {
            return self.digits().is_some_and(|digits| digits & 7 != 0);
        }
        let shifted = format!("{}{}", self.whole, self.fraction);
        scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_held_as_in_go() {
        let int = |value, scale| Amount::Int64 { value, scale };
        for (text, amount, kept, format) in [
            ("0", int(0, 0), true, "DecimalSI"),
            ("100m", int(100, -3), true, "DecimalSI"),
            ("1000m", int(1000, -3), false, "DecimalSI"),
            ("1.500", int(1500, -3), true, "DecimalSI"),
            ("1.5", int(15, -1), false, "DecimalSI"),
            ("0.500", int(500, -3), false, "DecimalSI"),
            ("+7", int(7, 0), true, "DecimalSI"),
            ("010", int(10, 0), true, "DecimalSI"),
            ("-5", int(-5, 0), true, "DecimalSI"),
            ("1e3", int(1, 3), true, "DecimalExponent"),
            ("64Mi", int(64 << 20, 0), false, "BinarySI"),
            ("70Mi", int(70 << 20, 0), true, "BinarySI"),
            ("16Ti", int(16 << 40, 0), false, "BinarySI"),
            ("100Ti", Amount::Billionths((100 << 40) * 1_000_000_000), false, "BinarySI"),
            ("0.5Ki", Amount::Billionths(512 * 1_000_000_000), false, "BinarySI"),
            (
                "1234567890123456789",
                Amount::Billionths(1_234_567_890_123_456_789 * 1_000_000_000),
                false,
                "DecimalSI",
            ),
        ] {
            let expected = ParsedQuantity { amount, text: kept.then_some(text), format };
            assert_eq!(ParsedQuantity::of(text), Some(expected), "{text}");
        }
        assert_eq!(ParsedQuantity::of("1Zi"), None);
        assert_eq!(
            ParsedQuantity::of("1000E"),
            Some(ParsedQuantity { amount: int(1000, 18), text: None, format: "DecimalSI" })
        );
    }
}
