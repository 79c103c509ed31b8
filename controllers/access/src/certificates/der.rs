//! Values in DER.

use yasna::DERWriterSeq;

/// A sequence with the values that `fill` writes.
pub(super) fn sequence(fill: impl FnOnce(&mut DERWriterSeq<'_>)) -> Vec<u8> {
    yasna::construct_der(|writer| writer.write_sequence(fill))
}
