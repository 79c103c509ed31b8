//! Quantities as Go holds them in memory: a hash over a Go struct sees which of its forms a number has.

use std::fmt::Write;

/// A number that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity")]
pub(super) struct NoQuantity(pub(super) String);

/// A `resource.Quantity` in its memory form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GoQuantity {
    amount: Amount,
    format: &'static str,
    /// The text it was read from, where Go keeps it since it is the one it would write.
    kept: String,
}

/// Numbers of up to 18 digits are a value and a power of ten, others a decimal of any length.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Amount {
    Small {
        value: i64,
        scale: i32,
    },
    /// `unscaled` divided by ten to the power of `scale`.
    Large {
        negative: bool,
        unscaled: u128,
        scale: i32,
    },
}

const DECIMAL_SI: &str = "DecimalSI";
const BINARY_SI: &str = "BinarySI";
const DECIMAL_EXPONENT: &str = "DecimalExponent";
/// Digits that surely fit an `int64` (`maxInt64Factors`).
const SMALL_DIGITS: i32 = 18;
/// The smallest power of ten that is kept: a billionth.
const NANO: i32 = -9;

/// A text, taken apart.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl GoQuantity {
    /// Reads what stands in a manifest; blanks around it don't count.
    pub(super) fn parse(text: &str) -> Result<Self, NoQuantity> {
        let text = text.trim();
        read(text).ok_or_else(|| NoQuantity(text.to_owned()))
    }

    /// Rounds up to thousandths, as resources are when they are read.
    pub(super) fn round_up_to_milli(&mut self) {
        match &mut self.amount {
            Amount::Small { scale, .. } if *scale >= -3 => {}
            Amount::Small { value, scale } => {
                *value = divide_up(*value, -3 - *scale);
                *scale = -3;
                self.kept.clear();
            }
            Amount::Large { unscaled, scale, .. } => {
                *unscaled = rescale_up(*unscaled, *scale, 3);
                *scale = 3;
            }
        }
    }

    /// Writes the struct without its type's name.
    pub(super) fn dump(&self, out: &mut String) {
        let (value, scale) = match self.amount {
            Amount::Small { value, scale } => (value, scale),
            Amount::Large { .. } => (0, 0),
        };
        // Writing to a String never fails.
        let _ = write!(
            out,
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec)"
        );
        match self.amount {
            Amount::Small { .. } => out.push_str("<nil>"),
            Amount::Large { negative, unscaled, scale } => {
                let _ = write!(out, "{{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat)");
                match (u64::try_from(unscaled), unscaled >> 64) {
                    (Ok(0), _) => out.push_str("<nil>"),
                    (Ok(word), _) => _ = write!(out, "[{word}]"),
                    (Err(_), high) => _ = write!(out, "[{} {high}]", unscaled & u128::from(u64::MAX)),
                }
                let _ = write!(out, "}} scale:(inf.Scale){scale}}}");
            }
        }
        let _ = write!(out, "}} s:(string){} Format:(resource.Format){}}}", self.kept, self.format);
    }

    /// The zero of Go, for a field that is not set.
    pub(super) fn unset() -> Self {
        Self { amount: Amount::Small { value: 0, scale: 0 }, format: "", kept: String::new() }
    }
}

fn read(text: &str) -> Option<GoQuantity> {
    if text == "0" {
        let amount = Amount::Small { value: 0, scale: 0 };
        return Some(GoQuantity { amount, format: DECIMAL_SI, kept: text.to_owned() });
    }
    let Parts { negative, whole, fraction, suffix } = take_apart(text)?;
    let (exponent, mut format) = suffix_of(suffix)?;
    let binary = format == BINARY_SI;
    let digits = i32::try_from(whole.len() + fraction.len()).ok()?;
    let (precision, mantissa) = match binary {
        false => (SMALL_DIGITS - digits, 1i64),
        // As many decimal digits as the power of two has, roughly.
        true if fraction.is_empty() => {
            (15 - i32::try_from(whole.len()).ok()? - exponent * 3 / 10 - 1, 1i64 << exponent)
        }
        true => (-1, 1),
    };
    let scale = if binary { 0 } else { exponent } - i32::try_from(fraction.len()).ok()?;
    if precision >= 0 && scale >= NANO {
        let shifted = format!("{whole}{fraction}");
        let value: i64 = shifted.parse().ok()?;
        if let Some(result) = value.checked_mul(mantissa) {
            let kept = if binary {
                exponent % 10 == 0 && value & 7 != 0
            } else {
                scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
            };
            let amount = Amount::Small { value: if negative { -result } else { result }, scale };
            let kept = if kept { text.to_owned() } else { String::new() };
            return Some(GoQuantity { amount, format, kept });
        }
    }
    let mut unscaled: u128 = format!("{whole}{fraction}").parse().ok()?;
    let mut scale = i32::try_from(fraction.len()).ok()?;
    if binary {
        unscaled = unscaled.checked_mul(1u128 << exponent)?;
    } else {
        scale -= exponent;
    }
    if unscaled != 0 {
        unscaled = rescale_up(unscaled, scale, -NANO);
        scale = -NANO;
    }
    let one = 10u128.pow(9);
    if binary {
        unscaled = unscaled.min(u128::from(u64::MAX >> 1) * one);
        if 0 < unscaled && unscaled < one && scale == -NANO {
            format = DECIMAL_SI;
        }
    }
    Some(GoQuantity { amount: Amount::Large { negative, unscaled, scale }, format, kept: String::new() })
}

fn take_apart(text: &str) -> Option<Parts<'_>> {
    if text.is_empty() {
        return None;
    }
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (leading, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let whole = leading.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(Parts { negative, whole, fraction, suffix })
}

/// The power that a suffix stands for (of ten, or of two for binary ones) and its notation.
fn suffix_of(suffix: &str) -> Option<(i32, &'static str)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(at) = decimal.iter().position(|known| *known == suffix) {
        return Some((i32::try_from(at).ok()? * 3 - 9, DECIMAL_SI));
    }
    if let Some(at) = binary.iter().position(|known| *known == suffix) {
        return Some(((i32::try_from(at).ok()? + 1) * 10, BINARY_SI));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((exponent.parse().ok()?, DECIMAL_EXPONENT))
}

/// Divides by a power of ten, away from zero.
fn divide_up(value: i64, digits: i32) -> i64 {
    let divisor = 10i64.checked_pow(digits.unsigned_abs()).unwrap_or(i64::MAX);
    let whole = value / divisor;
    if value % divisor == 0 { whole } else { whole + value.signum() }
}

/// The same decimal with another number of digits after its point, rounded up.
fn rescale_up(unscaled: u128, from: i32, to: i32) -> u128 {
    let power = 10u128.checked_pow((to - from).unsigned_abs()).unwrap_or(u128::MAX);
    if to >= from { unscaled.saturating_mul(power) } else { unscaled.div_ceil(power) }
}
