//! Recognizes TLS: by its handshake, or, without it, by consecutive records whose lengths fit.
//! Does not decrypt.

/// A TLS handshake record: type 22, version 3.0 to 3.4 (RFC 8446, 5.1).
pub(super) fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 0x03, 0..=4, ..])
}

/// This many consecutive records are not an accident: each one fits by chance once in ten thousand times.
const RECORDS: u32 = 3;
/// Type, version and length (RFC 8446, 5.1).
const HEAD_BYTES: usize = 5;
/// The longest record: 2^14 bytes and the maximum overhead of encryption (RFC 5246, 6.2.3).
const MAX_RECORD_BYTES: u16 = (1 << 14) + 2048;

/// Consecutive records found so far.
#[derive(Debug, Default)]
pub(super) struct TlsTrail {
    records: u32,
    /// Where in the stream the next one should start.
    due: u64,
}

impl TlsTrail {
    /// Follows the next bytes of a stream, at `position` in it; returns whether they are TLS.
    /// A trail starts where a chunk does; missing bytes, or a record header split between chunks, end it.
    pub(super) fn follow(&mut self, position: u64, bytes: &[u8]) -> bool {
        if self.records == 0 || self.due < position || !self.go_on(position, bytes) {
            *self = Self { records: 0, due: position };
            if !self.go_on(position, bytes) {
                *self = Self::default();
            }
        }
        self.records >= RECORDS
    }

    /// Follows the records that start in `bytes`; returns false if one is not where it should be.
    fn go_on(&mut self, position: u64, bytes: &[u8]) -> bool {
        while self.records < RECORDS {
            let at = usize::try_from(self.due - position).unwrap_or(usize::MAX);
            let Some(here) = bytes.get(at..).filter(|here| !here.is_empty()) else { return true };
            let Some(record_bytes) = record_bytes(here) else { return false };
            self.records += 1;
            self.due += record_bytes;
        }
        true
    }
}

/// The total length of the record that starts here.
fn record_bytes(bytes: &[u8]) -> Option<u64> {
    let [0x14..=0x17, 0x03, 0..=4, high, low] = *bytes.first_chunk::<HEAD_BYTES>()? else { return None };
    let length = u16::from_be_bytes([high, low]);
    (1..=MAX_RECORD_BYTES).contains(&length).then_some(HEAD_BYTES as u64 + u64::from(length))
}

#[cfg(test)]
mod tests {
    use super::TlsTrail;

    fn record(length: u16) -> Vec<u8> {
        let mut record = vec![0x17, 3, 3];
        record.extend(length.to_be_bytes());
        record.resize(5 + usize::from(length), 0xa5);
        record
    }

    fn chunks_until_known(chunks: &[&[u8]]) -> Option<usize> {
        let mut trail = TlsTrail::default();
        let mut position = 0;
        chunks.iter().position(|chunk| {
            let is_known = trail.follow(position, chunk);
            position += chunk.len() as u64;
            is_known
        })
    }

    #[test]
    fn detects_tls_after_three_consecutive_records() {
        let (one, long) = (record(40), record(4_000));
        assert_eq!(chunks_until_known(&[&one, &one, &one]), Some(2));
        assert_eq!(chunks_until_known(&[&[&one[..], &one, &one].concat()]), Some(0));
        let bulk = [&long[..], &long, &one].concat();
        assert_eq!(chunks_until_known(&bulk.chunks(1_448).collect::<Vec<_>>()), Some(5));
        // The tail of a record joined in its middle, then whole ones.
        assert_eq!(chunks_until_known(&[&[7; 300], &one, &long[..1_448], &long[1_448..], &one]), Some(4));
    }

    #[test]
    fn detects_no_tls_in_other_bytes() {
        let one = record(40);
        assert_eq!(chunks_until_known(&[&one, &one]), None);
        assert_eq!(chunks_until_known(&[&one, &one, &[0; 45], &one]), None);
        let empty = [0x17, 3, 3, 0, 0].repeat(100);
        assert_eq!(chunks_until_known(&[&empty]), None);
        let huge = [0x17, 3, 3, 0xff, 0xff].repeat(50_000);
        assert_eq!(chunks_until_known(&[&huge]), None);
        assert_eq!(chunks_until_known(&[&[], &[0x17], &[0x17, 3, 3, 0]]), None);
    }
}
