//! A log as stored in a file: plain, or compressed with xz, detected by its first bytes, not its name.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::borrow::Cow;
use std::io::Read;

use lzma_rust2::XzReader;

use crate::{Error, Result};

/// First bytes of an xz file.
const XZ: &[u8] = b"\xfd7zXZ\0";
/// Largest log once unpacked. Ours: over a million ACKs.
const UNPACKED_MAX: u64 = 256 << 20;
/// Largest memory of the decoder, KiB: that of `xz -9`. Source: xz(1).
const DECODER_KIB: u32 = 66 << 10;

/// Unpacks a log if needed. The error names the fault in one line.
pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    if bytes.starts_with(XZ) { unpack_within(bytes, UNPACKED_MAX).map(Cow::Owned) } else { Ok(Cow::Borrowed(bytes)) }
}

fn unpack_within(bytes: &[u8], max: u64) -> Result<Vec<u8>> {
    let mut log = Vec::new();
    let mut unpacked = XzReader::new_mem_limit(bytes, true, DECODER_KIB).take(max + 1);
    unpacked.read_to_end(&mut log).map_err(Error::Compression)?;
    if log.len() as u64 > max {
        return Err(Error::TooLarge { max_mib: max >> 20 });
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'V3H 1 now 1 cw 1\n' | xz --check=crc32`.
    const SMALL: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21, 0x01, 0x16, 0x00,
        0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x10, 0x56, 0x33, 0x48, 0x20, 0x31, 0x20, 0x6e, 0x6f, 0x77,
        0x20, 0x31, 0x20, 0x63, 0x77, 0x20, 0x31, 0x0a, 0x00, 0x00, 0x00, 0x00, 0xf0, 0xd3, 0x29, 0x86, 0x00, 0x01,
        0x25, 0x11, 0x3e, 0x45, 0xc5, 0xa2, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
    ];

    #[test]
    fn what_is_packed_is_unpacked_and_what_is_not_stays_as_it_is() {
        assert_eq!(unpack(SMALL).unwrap().as_ref(), b"V3H 1 now 1 cw 1\n");
        assert_eq!(unpack(b"V3H").unwrap().as_ref(), b"V3H");
    }

    #[test]
    fn damage_and_size_are_told_in_one_line() {
        for end in XZ.len()..SMALL.len() {
            let error = unpack(&SMALL[..end]).unwrap_err();
            assert!(matches!(error, Error::Compression(_)) && !error.to_string().contains('\n'), "{end}: {error}");
        }
        assert!(matches!(unpack_within(SMALL, 16), Err(Error::TooLarge { max_mib: 0 })));
        assert!(unpack_within(SMALL, 17).is_ok());
    }
}
