//! Records in the ring that an agent in a broker's JVM writes. Also the requests in them. An attacker who has taken
//! over that JVM may write anything.
//!
//! Input: 8 bytes, the ring's nonce, and its contents from the start.

use capture::{Analyzer, Config};
use model::Nanos;

use crate::{Target, analyzer};

/// The target.
pub const TARGET: Target = Target { name: "plaintext", check, spare_bytes: 20 << 20 };

const NOW_NS: u64 = 1_000_000_000_000_000;

fn check(data: &[u8]) {
    let Some((nonce, ring)) = data.split_first_chunk() else { return };
    let mut analyzer = Analyzer::new(Config { is_plaintext: true, ..analyzer::config(0) });
    let mut rows = 0;
    let mut take = |row: Box<model::Request>| {
        assert!(row.sequence.is_none() && row.response_sequence.is_none(), "made-up numbers are nobody's");
        rows += 1;
    };
    capture::plaintext::fuzz_ring(ring, u64::from_ne_bytes(*nonce), &mut |piece| {
        let (begun, ended) = piece.called_before(NOW_NS);
        assert!(begun <= ended && ended <= NOW_NS);
        analyzer.piece(piece, (Nanos(begun as i64), Nanos(ended as i64)), &mut take);
    });
    analyzer.finish(&mut take);
    assert!(rows <= 3 * ring.len(), "{rows} rows of {} bytes", ring.len());
}
