//! The text that Go's spew prints for a pod template, of which upstream makes the hash.

use std::fmt::Write;

use serde_json::{Map, Value};
use steersman_api::quantity::{Amount, ParsedQuantity};

use super::layout::{Layout, Struct, Structs, Type};

/// Writes the text for a template in the JSON that Go would write. `None` if the text can't be reproduced; a part of it may
/// have been written.
///
/// Not reproduced are a template's own `creationTimestamp`, for which Go prints its tables of time zones, and managed fields.
/// Users have no reason to set either.
///
/// The form is that of spew's `%#v`: `(type)value`, but the type of an element, a key or a pointer's target is left out.
/// Empty lists and maps are nil, since protobuf does not tell the two apart.
pub(super) fn write(layout: Layout, template: &Value, out: &mut impl Write) -> Option<()> {
    let structs = layout.structs();
    let mut dump = Dump { structs, out };
    dump.out.write_str("(v1.PodTemplateSpec)").ok()?;
    dump.fields(structs.template(), Some(template.as_object()?))
}

struct Dump<'a, W> {
    structs: &'static Structs,
    out: &'a mut W,
}

impl<W: Write> Dump<'_, W> {
    fn fields(&mut self, of: &'static Struct, object: Option<&Map<String, Value>>) -> Option<()> {
        for (at, field) in of.fields.iter().enumerate() {
            let before = if at == 0 { '{' } else { ' ' };
            write!(self.out, "{before}{}:({})", field.name, field.printed).ok()?;
            match (field.json, &field.ty) {
                (None, Type::Struct(embedded)) => self.fields(self.structs.at(*embedded), object)?,
                (None, _) => return None,
                (Some(name), ty) => {
                    let value = object.and_then(|object| object.get(name)).filter(|value| !value.is_null());
                    self.value(ty, value)?;
                }
            }
        }
        self.text("}")
    }

    /// Writes a value without its type.
    fn value(&mut self, ty: &Type, value: Option<&Value>) -> Option<()> {
        match (ty, value) {
            (Type::Pointer(_), None) => self.text("<nil>"),
            (Type::Pointer(target), value) => self.value(target, value),
            (Type::Struct(of), value) => self.fields(self.structs.at(*of), value.and_then(Value::as_object)),
            (Type::Slice(of), value) => self.slice(of, value.and_then(Value::as_array)),
            (Type::Map(of), value) => self.map(of, value.and_then(Value::as_object)),
            (Type::String, None) => Some(()),
            (Type::String, Some(text)) => self.text(text.as_str()?),
            (Type::Bool, value) => {
                self.text(if value.is_some_and(|v| *v == true) { "true" } else { "false" })
            }
            (Type::Int, None) => self.text("0"),
            (Type::Int, Some(number)) => write!(self.out, "{}", number.as_i64()?).ok(),
            (Type::Time, None) => {
                self.text("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}")
            }
            (Type::Time | Type::Bytes, _) => None,
            (Type::IntOrString, value) => self.int_or_string(value),
            (Type::Quantity, value) => self.quantity(value.map_or(Some("0"), Value::as_str)?),
        }
    }

    fn slice(&mut self, of: &Type, items: Option<&Vec<Value>>) -> Option<()> {
        let Some(items) = items.filter(|items| !items.is_empty()) else { return self.text("<nil>") };
        for (at, item) in items.iter().enumerate() {
            self.text(if at == 0 { "[" } else { " " })?;
            self.value(of, Some(item))?;
        }
        self.text("]")
    }

    fn map(&mut self, of: &Type, entries: Option<&Map<String, Value>>) -> Option<()> {
        let Some(entries) = entries.filter(|entries| !entries.is_empty()) else { return self.text("<nil>") };
        // The map is sorted by the bytes of its keys, as spew sorts them.
        for (at, (key, value)) in entries.iter().enumerate() {
            self.text(if at == 0 { "map[" } else { " " })?;
            self.text(key)?;
            self.text(":")?;
            self.value(of, Some(value))?;
        }
        self.text("]")
    }

    fn int_or_string(&mut self, value: Option<&Value>) -> Option<()> {
        let (ty, number, text) = match value {
            None => (0, 0, ""),
            Some(Value::String(text)) => (1, 0, text.as_str()),
            Some(number) => (0, number.as_i64()?, ""),
        };
        write!(self.out, "{{Type:(intstr.Type){ty} IntVal:(int32){number} StrVal:(string){text}}}").ok()
    }

    fn quantity(&mut self, text: &str) -> Option<()> {
        let ParsedQuantity { amount, text, format } = ParsedQuantity::of(text)?;
        let (value, scale) = match amount {
            Amount::Int64 { value, scale } => (value, scale),
            Amount::Billionths(_) => (0, 0),
        };
        write!(
            self.out,
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec)"
        )
        .ok()?;
        match amount {
            Amount::Int64 { .. } => self.text("<nil>")?,
            Amount::Billionths(number) => self.big_number(number)?,
        }
        let text = text.unwrap_or_default();
        write!(self.out, "}} s:(string){text} Format:(resource.Format){format}}}").ok()
    }

    /// Writes an `inf.Dec` of scale 9. Its digits are words of 64 bits, the lowest first.
    fn big_number(&mut self, number: i128) -> Option<()> {
        let (negative, magnitude) = (number < 0, number.unsigned_abs());
        let (low, high) = (magnitude & u128::from(u64::MAX), magnitude >> 64);
        write!(self.out, "{{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat)[{low}").ok()?;
        if high > 0 {
            write!(self.out, " {high}").ok()?;
        }
        self.text("]} scale:(inf.Scale)9}")
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.out.write_str(text).ok()
    }
}
