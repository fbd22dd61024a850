//! A borrowing reader of Kafka's primitive types that cannot read past its end. Knows no messages.
//!
//! The types are those of Kafka's protocol guide: big-endian integers; strings and bytes with a two- or four-byte
//! length, where -1 means null; their compact forms (KIP-482), where an unsigned varint holds the length plus one, and
//! 0 means null; tagged fields (KIP-482); and the zig-zag varints of record batches.

use crate::{Error, ErrorKind};

macro_rules! integers {
    ($($name:ident)*) => {
        $(
            /// Reads the next big-endian number.
            #[inline]
            pub fn $name(&mut self) -> Result<$name, Error> {
                self.array().map($name::from_be_bytes)
            }
        )*
    };
}

/// Reads primitive values from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// An empty reader.
    pub(crate) const EMPTY: Self = Self { bytes: &[], at: 0 };

    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Continues at another offset.
    pub(crate) fn move_to(&mut self, at: usize) {
        self.at = at;
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// An error at the next byte.
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.at)
    }

    /// Returns an error unless everything has been read.
    pub fn finish(&self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(self.error(ErrorKind::TrailingBytes)) }
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let rest = self.rest();
        let Some(taken) = rest.get(..n) else {
            return Err(self.error(ErrorKind::UnexpectedEnd(n - rest.len())));
        };
        self.at += n;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((taken, _)) = self.rest().split_first_chunk::<N>() else {
            return Err(self.error(ErrorKind::UnexpectedEnd(N - self.rest().len())));
        };
        self.at += N;
        Ok(*taken)
    }

    integers!(i8 u8 i16 i32 i64 u32);

    /// UUID: 16 bytes.
    #[inline]
    pub fn uuid(&mut self) -> Result<[u8; 16], Error> {
        self.array()
    }

    /// A signed integer of 1, 2, 4 or 8 bytes.
    #[inline]
    pub(crate) fn int(&mut self, bytes: usize) -> Result<i64, Error> {
        match bytes {
            1 => self.i8().map(i64::from),
            2 => self.i16().map(i64::from),
            4 => self.i32().map(i64::from),
            _ => self.i64(),
        }
    }

    /// `UNSIGNED_VARINT`: at most five bytes, 32 bits.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, Error> {
        let start = self.at;
        let value = self.base128(5)?;
        u32::try_from(value).map_err(|_| Error::new(ErrorKind::BadVarint, start))
    }

    /// VARINT: zig-zag, at most five bytes, 32 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<i32, Error> {
        let raw = self.uvarint()?;
        Ok(((raw >> 1) as i32) ^ -((raw & 1) as i32))
    }

    /// VARLONG: zig-zag, at most ten bytes, 64 bits.
    #[inline]
    pub fn varlong(&mut self) -> Result<i64, Error> {
        let raw = self.base128(10)?;
        Ok(((raw >> 1) as i64) ^ -((raw & 1) as i64))
    }

    /// Reads seven bits per byte, low bits first; the top bit is set in every byte but the last.
    #[inline]
    fn base128(&mut self, max_bytes: u32) -> Result<u64, Error> {
        let start = self.at;
        let mut value: u64 = 0;
        for i in 0..max_bytes {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for only one bit.
            if i == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::new(ErrorKind::BadVarint, start))
    }

    /// Reads the length of a nullable string, an i16 or the compact form; `None` means null.
    /// Kafka's generated code refuses longer strings in either form.
    #[inline]
    fn string_length(&mut self, flexible: bool) -> Result<Option<usize>, Error> {
        let at = self.at;
        let length = if flexible { i64::from(self.uvarint()?) - 1 } else { i64::from(self.i16()?) };
        match length {
            -1 => Ok(None),
            0..=0x7fff => Ok(Some(length as usize)),
            _ => Err(Error::new(ErrorKind::BadLength(length), at)),
        }
    }

    /// A `NULLABLE_STRING`, or its compact form in flexible versions.
    #[inline]
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<&'a str>, Error> {
        let Some(length) = self.string_length(flexible)? else { return Ok(None) };
        let at = self.at;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| Error::new(ErrorKind::NotUtf8, at))
    }

    /// A STRING, or its compact form in flexible versions. Null is an error.
    #[inline]
    pub fn string(&mut self, flexible: bool) -> Result<&'a str, Error> {
        let at = self.at;
        self.nullable_string(flexible)?.ok_or(Error::new(ErrorKind::BadLength(-1), at))
    }

    /// Reads a length or a count; `None` means null. It is the length of `NULLABLE_BYTES` or RECORDS, the number of
    /// elements of an array, or the compact form of one of these. Does not read the bytes themselves.
    #[inline]
    pub fn bytes_length(&mut self, flexible: bool) -> Result<Option<u32>, Error> {
        let at = self.at;
        let length = if flexible { i64::from(self.uvarint()?) - 1 } else { i64::from(self.i32()?) };
        match length {
            -1 => Ok(None),
            0..=0x7fff_ffff => Ok(Some(length as u32)),
            _ => Err(Error::new(ErrorKind::BadLength(length), at)),
        }
    }

    /// `NULLABLE_BYTES` or RECORDS, or their compact forms in flexible versions.
    #[inline]
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, Error> {
        match self.bytes_length(flexible)? {
            None => Ok(None),
            Some(length) => self.take(length as usize).map(Some),
        }
    }

    /// Reads the number of elements of an array that may not be null.
    /// The number may be false: never allocate by it.
    #[inline]
    pub fn array_length(&mut self, flexible: bool) -> Result<u32, Error> {
        let at = self.at;
        self.bytes_length(flexible)?.ok_or(Error::new(ErrorKind::BadLength(-1), at))
    }

    /// Skips tagged fields (KIP-482) if the version is flexible; otherwise does nothing.
    #[inline]
    pub fn tagged_fields(&mut self, flexible: bool) -> Result<(), Error> {
        if !flexible {
            return Ok(());
        }
        for _ in 0..self.uvarint()? {
            self.uvarint()?;
            let size = self.uvarint()? as usize;
            self.take(size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Reader;
    use crate::ErrorKind;

    #[test]
    fn integers_are_big_endian() {
        let bytes = [0xff, 0x01, 0x02, 0x00, 0x00, 0x01, 0x00, 0x80, 0, 0, 0, 0, 0, 0, 1];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.i8(), Ok(-1));
        assert_eq!(reader.i16(), Ok(0x0102));
        assert_eq!(reader.i32(), Ok(256));
        assert_eq!(reader.i64(), Ok(i64::MIN + 1));
        assert!(reader.is_empty());
        assert_eq!(reader.u8().unwrap_err().kind, ErrorKind::UnexpectedEnd(1));
    }

    #[test]
    fn varints_follow_the_protocol_guide() {
        for (bytes, value) in [
            (&[0x00][..], 0),
            (&[0x01], -1),
            (&[0x02], 1),
            (&[0x7f], -64),
            (&[0x80, 0x01], 64),
            (&[0xfe, 0xff, 0xff, 0xff, 0x0f], i32::MAX),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN),
        ] {
            assert_eq!(Reader::new(bytes).varint(), Ok(value), "{bytes:x?}");
            assert_eq!(Reader::new(bytes).varlong(), Ok(i64::from(value)), "{bytes:x?}");
        }
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&longest).varlong(), Ok(i64::MIN));
        for bad in [&[0xff, 0xff, 0xff, 0xff, 0x1f][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01]] {
            assert_eq!(Reader::new(bad).uvarint().unwrap_err().kind, ErrorKind::BadVarint, "{bad:x?}");
        }
        let bad = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(Reader::new(&bad).varlong().unwrap_err().kind, ErrorKind::BadVarint);
    }

    #[test]
    fn strings_may_be_null_and_have_limits() {
        assert_eq!(Reader::new(&[0xff, 0xff]).nullable_string(false), Ok(None));
        assert_eq!(Reader::new(&[0x00]).nullable_string(true), Ok(None));
        assert_eq!(Reader::new(&[0, 2, b'h', b'i']).string(false), Ok("hi"));
        assert_eq!(Reader::new(&[3, b'h', b'i']).string(true), Ok("hi"));
        for (bytes, flexible, kind, at) in [
            (&[0xff, 0xff][..], false, ErrorKind::BadLength(-1), 0),
            (&[0xff, 0xfe], false, ErrorKind::BadLength(-2), 0),
            (&[0x00], true, ErrorKind::BadLength(-1), 0),
            (&[0x81, 0x80, 0x02], true, ErrorKind::BadLength(0x8000), 0),
            (&[0, 1, 0xff], false, ErrorKind::NotUtf8, 2),
            (&[0, 5, b'a'], false, ErrorKind::UnexpectedEnd(4), 2),
        ] {
            let error = Reader::new(bytes).string(flexible).unwrap_err();
            assert_eq!((error.kind, error.at), (kind, at), "{bytes:x?}");
        }
    }

    #[test]
    fn huge_tag_count_fails_early() {
        let mut reader = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0]);
        assert!(reader.tagged_fields(true).is_err());
    }

    #[test]
    fn skips_tagged_fields() {
        let mut reader = Reader::new(&[2, 0, 1, 0xaa, 1, 0, 9]);
        reader.tagged_fields(true).unwrap();
        assert_eq!(reader.u8(), Ok(9));
        let mut reader = Reader::new(&[2, 0, 1]);
        reader.tagged_fields(false).unwrap();
        assert_eq!(reader.at(), 0);
    }
}
